"""The order of checks, the forms of answers and of errors."""

import asyncio
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from launchbay import errors, limits
from launchbay.errors import Unavailable
from launchbay.ids import is_id
from launchbay.web.problems import status_of
from tests.support.routes import FAILURES, ID, SECRET, TOKEN, Readiness, Streams, sample_app

WRONG_TYPE = {"Content-Type": "text/plain"}


async def test_credentials_come_before_everything_else_of_an_endpoint(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/api/1/things/nope/go", content=b"{", headers={**WRONG_TYPE, "Authorization": "Bearer bad"}
    )
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Launchbay"'


async def test_what_can_be_refused_without_data_comes_before_the_object(client: httpx.AsyncClient) -> None:
    wrong_type = await client.post("/api/1/things/nope/go", content=b"{}", headers=WRONG_TYPE)
    wrong_syntax = await client.post(
        "/api/1/things/nope/go", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert (wrong_type.status_code, wrong_syntax.status_code) == (400, 400)
    assert (await client.post("/api/1/things/nope/go", json={})).status_code == 404


async def test_an_answer_is_200_and_json_without_a_charset(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/1/things", json={"name": "é"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()["body"]["name"] == "é"


async def test_accept_never_matters(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/1/open", headers={"Accept": "image/png"})).status_code == 200


async def test_a_handler_knows_its_caller_and_its_request(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/api/1/things/{ID}", headers={"X-Request-Id": "abc-1"})
    assert answer.json() == {"path": {"id": ID}, "user": ID, "request": "abc-1", "address": "127.0.0.1"}


@pytest.mark.parametrize(
    ("query", "force"), [("", 0), ("?force=1", 1), ("?force=1&force=0", 1), ("?other=x&&force=1", 1)]
)
async def test_query_parameters_have_types_and_strangers_are_ignored(
    client: httpx.AsyncClient, query: str, force: int
) -> None:
    assert (await client.delete(f"/api/1/things/{ID}{query}")).json() == {"force": force}


@pytest.mark.parametrize(
    "query", ["force=yes", "force=", "force=1.5", "force=%ff", "x=%00", "&".join(f"a{n}=" for n in range(101))]
)
async def test_a_query_that_does_not_fit_is_400(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.delete(f"/api/1/things/{ID}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BadRequest")


STATUSES = {
    "BadRequest": 400, "MalformedBody": 400, "InvalidManifest": 400, "FieldErrors": 400, "NotAuthenticated": 401,
    "NotAllowed": 403, "NotFound": 404, "Conflict": 409, "TooManyRequests": 429, "TooLarge": 413, "Unavailable": 503,
    "PreconditionFailed": 412, "SecretKeyOutdated": 503,
    "ManifestSourceLocked": 401, "ExpressionError": 400, "ActionFailed": 400, "OutgoingFailed": 400,
    "AddressRefused": 400, "Fenced": 503, "CannotStart": 500, "WorkflowFailed": 500,
    "LaunchbayError": 500, "RuntimeError": 500,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "status"), STATUSES.items())
async def test_every_error_has_its_status_and_the_form_of_errors(
    client: httpx.AsyncClient, kind: str, status: int
) -> None:
    answer = await client.get(f"/api/1/failures/{kind}")
    body = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    if kind != "FieldErrors":
        assert body["errors"]
        assert all(isinstance(sentence, str) for sentence in body["errors"])
        assert body["code"] == (kind if status != 500 else "InternalError")
        assert body["requestId"] == answer.headers["x-request-id"]
        assert body["docs"] == f"/docs/codes/{body['code']}"
        assert set(body) <= {"errors", "code", "requestId", "findings", "docs"}


def test_every_error_of_the_tree_is_mapped_or_internal_on_purpose() -> None:
    tree = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LaunchbayError)
    }
    of_steps = {errors.NotApproved, errors.NotThereYet}  # kept with their job or plan, and never answered
    assert tree - of_steps <= {type(error) for error in FAILURES.values()}
    assert all(status_of(error) == STATUSES[name] for name, error in FAILURES.items())


async def test_a_manifest_that_is_wrong_brings_its_findings(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/1/failures/InvalidManifest")
    assert answer.json()["findings"] == [{"message": "odd", "line": 3, "column": 7, "code": "Odd"}]


async def test_errors_by_field_are_an_object_of_messages(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/1/failures/FieldErrors")).json() == {"name": ["Too long.", "Too loud."]}


@pytest.mark.parametrize(
    ("kind", "header", "value"),
    [
        ("NotAuthenticated", "www-authenticate", 'Basic realm="Launchbay"'),
        ("ManifestSourceLocked", "www-authenticate", 'Basic realm="Launchbay"'),
        ("TooManyRequests", "retry-after", "17"),
        ("PreconditionFailed", "etag", '"new"'),
        ("Unavailable", "retry-after", "5"),
        ("Fenced", "retry-after", "1"),
    ],
)
async def test_errors_bring_the_headers_of_their_status(
    client: httpx.AsyncClient, kind: str, header: str, value: str
) -> None:
    assert (await client.get(f"/api/1/failures/{kind}")).headers[header] == value


@pytest.mark.parametrize("kind", ["RuntimeError", "CannotStart", "WorkflowFailed", "LaunchbayError"])
async def test_a_500_says_nothing_of_the_inside_and_is_logged_with_the_request_id(
    client: httpx.AsyncClient, kind: str
) -> None:
    with capture_logs() as logs:
        answer = await client.get(f"/api/1/failures/{kind}", headers={"X-Request-Id": "find-me"})
    assert SECRET not in answer.text
    assert answer.json()["requestId"] == "find-me"
    [failure] = [line for line in logs if line["log_level"] == "error"]
    assert failure["request_id"] == "find-me"
    assert SECRET in failure["exception"]
    assert "Bearer good" not in str(failure)


async def test_a_sane_request_id_is_taken_and_any_other_replaced(client: httpx.AsyncClient) -> None:
    taken = await client.get("/api/1/open", headers={"X-Request-Id": "Build_7.1-a"})
    assert taken.headers["x-request-id"] == "Build_7.1-a"
    for insane in ("", "a b", "x" * 65, "<script>", 'a"b'):
        replaced = await client.get("/api/1/open", headers={"X-Request-Id": insane})
        assert is_id(replaced.headers["x-request-id"])


@pytest.mark.parametrize("path", ["/api/1/open", "/api/1/nope", "/api/1/failures/RuntimeError"])
async def test_every_answer_has_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]


async def test_every_request_is_logged_once_without_its_query(client: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        await client.get(f"/api/1/things/{ID}?token={SECRET}", headers={"X-Request-Id": "one"})
    [line] = [line for line in logs if line["event"] == "http.request"]
    assert (line["method"], line["status"], line["user_id"], line["request_id"]) == ("GET", 200, ID, "one")
    assert line["path"] == f"/api/1/things/{ID}"
    assert SECRET not in str(logs)


@pytest.mark.parametrize("count", [0, 1, 100, 101, 350])
async def test_a_streamed_list_is_one_json_array(client: httpx.AsyncClient, count: int) -> None:
    answer = await client.get(f"/api/1/things?count={count}")
    assert answer.headers["content-type"] == "application/json"
    assert [row["id"] for row in answer.json()] == [f"{number:024x}" for number in range(count)]


@pytest.mark.parametrize("fail_at", [0, 100])
async def test_a_list_that_fails_before_its_answer_began_is_a_500(client: httpx.AsyncClient, fail_at: int) -> None:
    answer = await client.get(f"/api/1/things?count=500&fail_at={fail_at}")
    assert answer.status_code == 500
    assert SECRET not in answer.text


async def test_a_list_gives_back_what_it_holds_however_it_ends(client: httpx.AsyncClient) -> None:
    before = Streams.closed
    await client.get("/api/1/things?count=500")
    await client.get("/api/1/things?count=500&fail_at=100")
    assert Streams.closed == before + 2


async def test_pages_are_linked_until_the_last_one(client: httpx.AsyncClient) -> None:
    seen: list[dict[str, Any]] = []
    path = "/api/1/pages?limit=4&name=a%20b"
    while path:
        answer = await client.get(path)
        seen.extend(answer.json())
        path = answer.links.get("next", {}).get("url", "")
        assert not path or path.startswith("/api/1/pages?limit=4&name=a+b&after=")
    assert [int(row["id"], 16) for row in seen] == list(range(10))


@pytest.mark.parametrize("query", ["limit=0", "limit=10001", "limit=x", "limit=4&after=zz", f"after={'0' * 25}"])
async def test_a_page_that_cannot_be_is_400(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/api/1/pages?{query}")).status_code == 400


def client_of(ready: Readiness) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(sample_app(ready))
    return httpx.AsyncClient(transport=transport, base_url="http://samples", headers=TOKEN)


async def test_health_follows_the_database_and_life_does_not() -> None:
    ready = Readiness()
    async with client_of(ready) as client:
        assert (await client.get("/health/ready")).json() == {"status": "ready"}
        ready.failure = Unavailable("The database is away.", retry_after_s=3)
        away = await client.get("/health/ready")
        assert (away.status_code, away.headers["retry-after"]) == (503, "3")
        assert (await client.get("/health/live")).json() == {"status": "live"}
        ready.failure = None
        assert (await client.get("/health/ready")).status_code == 200


async def test_a_database_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.web.api.health.READY_S", 0.05)
    ready = Readiness()
    ready.delay_s = limits.HEADER_READ_S
    async with client_of(ready) as client, asyncio.timeout(2):
        assert (await client.get("/health/ready")).status_code == 503
