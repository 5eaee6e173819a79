"""The client knows every endpoint, as the table has it now."""

from generators.client_operations import Operation as Described
from generators.client_operations import operations
from generators.output import outputs
from generators.words import ROOT, described
from launchbay.app.features import ENDPOINTS
from launchbay.client import Operations
from launchbay.client.operation import EventOperation, ListOperation, Operation
from launchbay.web.routing import Endpoint
from tests.support.cases import hold

DOCUMENT = described()


def test_every_operation_is_a_method() -> None:
    hold(_is_a_method, ((endpoint,) for endpoint in ENDPOINTS), named=lambda endpoint: endpoint.operation_id)


def _is_a_method(endpoint: Endpoint) -> None:
    found = getattr(Operations, endpoint.operation_id)
    assert isinstance(found, Operation | ListOperation | EventOperation)
    assert (found.row.method, found.row.path) == (endpoint.method, endpoint.path)
    assert found.row.keyed == endpoint.idempotency_key
    assert found.row.public == endpoint.public


def test_a_call_has_every_argument_where_the_api_takes_it() -> None:
    hold(
        _has_every_argument,
        ((documented,) for documented in operations(DOCUMENT)),
        named=lambda documented: documented.id,
    )


def _has_every_argument(documented: Described) -> None:
    fields, whole, query = documented.body_fields() or [], documented.whole_body(), documented.query()
    path = [argument.name for argument in documented.path_arguments()]
    body = {"field": "of the body"}
    key = {"idempotency_key": "the key"} if documented.keyed() else {}
    call = getattr(Operations, documented.id).call(
        *path, *([body] if whole else []), **{field.name: field.wire_name for field in [*fields, *query]}, **key
    )
    assert list(call.path) == path
    assert call.query == {field.wire_name: field.wire_name for field in query}
    if documented.body():
        assert call.body == (body if whole else {field.wire_name: field.wire_name for field in fields})
    else:
        assert call.body is None
    assert call.idempotency_key == key.get("idempotency_key")


def test_none_is_sent_only_where_it_has_a_meaning_of_its_own() -> None:
    change = Operations.change_revision.call
    assert change("a", name=None).body == {}
    assert change("a", name="new", environment_id=None).body == {"name": "new", "environmentId": None}
    assert Operations.run_workflow.call("a", "launch").body == {}


def test_generated_files_are_those_that_would_be_generated_now() -> None:
    texts = outputs()
    stale = [str(path) for path, text in texts.items() if (ROOT / path).read_text("utf-8") != text]
    assert stale == [], "run `python -m generators` and look at the difference"
