"""The services for the tests of features: `api` as in `tests/api`, `visitor` and its services as in `tests/console`."""

from tests.support.pages import idle_service, visitor, working_service
from tests.support.service import api
from tests.support.statements import exchanges

__all__ = ["api", "exchanges", "idle_service", "visitor", "working_service"]
