"""The services for the tests of the console's pages over HTTP."""

import pytest

from tests.support.external_services import provider
from tests.support.pages import idle_service, visitor, working_service
from tests.support.service import Api

__all__ = ["idle_service", "provider", "visitor", "working_service"]


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """The service. Pages are what these tests look at; a file that runs jobs makes `working_service` its `api`."""
    return idle_service
