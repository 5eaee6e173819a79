"""The client knows every endpoint, as the table has it now."""

import pytest

from generators.output import outputs
from generators.words import ROOT
from launchbay.client import Operations
from launchbay.client.operation import EventOperation, ListOperation, Operation
from launchbay.web.endpoints import ENDPOINTS
from launchbay.web.routing import Endpoint


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: str(endpoint.operation_id))
def test_every_operation_is_a_method(endpoint: Endpoint) -> None:
    found = getattr(Operations, endpoint.operation_id)
    assert isinstance(found, Operation | ListOperation | EventOperation)
    assert (found.row.method, found.row.path) == (endpoint.method, endpoint.path)
    assert found.row.keyed == endpoint.idempotency_key
    assert found.row.public == endpoint.public


def test_generated_files_are_those_that_would_be_generated_now() -> None:
    texts = outputs()
    stale = [str(path) for path, text in texts.items() if (ROOT / path).read_text("utf-8") != text]
    assert stale == [], "run `python -m generators` and look at the difference"
