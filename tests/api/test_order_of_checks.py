"""401 → 400 syntax → 404 → 403 → 400 meaning → 409, the same everywhere (conformance.md, "Wire" 6); foreign objects."""

import time
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from launchbay.ids import new_id
from launchbay.web import app as web_app
from tests.support.manifests import WORKFLOWS
from tests.support.service import UNKNOWN, YAML, Api, Caller, accepted, basic, fresh_name, person, refused

JSON = "application/json"
BROKEN = b'{"name": '


@dataclass(frozen=True)
class Row:
    """An endpoint: with a body that is fine, one that makes no sense (None: there is none), and its content type."""

    method: str
    path: str
    good: bytes | None = None
    senseless: bytes | None = None
    content_type: str = JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


ROWS = [
    Row("GET", "organizations/{organization}/applications"),
    Row("POST", "organizations/{organization}/applications", b'{"name": "never made"}', b'{"name": " "}'),
    Row("PUT", "applications/{application}/manifest", b"{}", b"bare", YAML["Content-Type"]),
    Row("GET", "applications/{application}/revisions"),
    Row("POST", "applications/{application}/launch", b'{"label": "x"}', b'{"destroyInterval": 0}'),
    Row("GET", "applications/{application}/instances"),
    Row("GET", "environments/{environment}/instances"),
    Row("GET", "revisions/{revision}/instances"),
    Row("GET", "instances/{instance}"),
    Row("POST", "instances/{instance}/echo", b"{}"),
    Row("POST", "instances/{instance}/fly", None, b"{}"),
    Row("POST", "instances/{instance}/destroy", b"{}"),
    Row("PUT", "instances/{instance}/userData", b"{}"),
    Row("DELETE", "instances/{instance}?force=1"),
    Row("DELETE", "instances/{instance}?force=0"),
    Row("POST", "instances/{instance}/echo/schedule", b'{"interval": 9999}', b'{"interval": -1}'),
    Row("POST", "instances/{instance}/fly/schedule", None, b'{"interval": 9999}'),
    Row("POST", "instances/{instance}/echo/reschedule", None, b'{"interval": 5}'),
    Row("GET", "instances/{instance}/schedules"),
    Row("PUT", "instances/{instance}/configuration", b"{}", b'{"manifestVersion": 99}'),
    Row("GET", "organizations/{organization}/users"),
    Row("PUT", "organizations/{organization}/users/{user}/roles", b"[]", b'["a role that nobody has"]'),
    Row("GET", "organizations/{organization}/roles"),
    Row("POST", "organizations/{organization}/roles", None, b'{"name": "never made", "permissions": "Fly: [/*]"}'),
    Row("GET", "roles/{role}"),
    Row("PUT", "roles/{role}", None, b'{"name": "never", "permissions": "- Fly: [/*]"}'),
    Row("DELETE", "roles/{role}"),
    Row("GET", "organizations/{organization}/environments"),
    Row("PUT", "environments/{environment}", None, b"policies: 7", YAML["Content-Type"]),
    Row("POST", "environments/{environment}/clone", None, b'{"name": " "}'),
    Row("GET", "environments/{environment}/markers"),
    Row("PUT", "environments/{environment}/markers", None, b'{"markers": [{"name": ""}]}'),
    Row("GET", "environments/{environment}/properties"),
    Row(
        "PUT",
        "environments/{environment}/properties",
        None,
        b'{"properties": [{"name": "a", "type": "x", "value": 1}]}',
    ),
]
READS = [row for row in ROWS if row.method == "GET"]
WITH_BODY = [row for row in ROWS if row.method in {"POST", "PUT"}]


@pytest.fixture(scope="module")
async def ids(api: Api) -> dict[str, str]:
    """One existing object of every kind."""
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    document, revision = await api.document(instance), new_id()
    role = {"name": fresh_name("role"), "permissions": "- Read: [/*]"}
    async with api.database.transaction() as connection:
        statement = "INSERT INTO revisions (id, application_id, name, version) VALUES (%s, %s, 'stable', 1)"
        await connection.execute(statement, [revision, document["applicationId"]])
    return {
        "organization": api.organization,
        "environment": api.environment,
        "application": document["applicationId"],
        "instance": instance,
        "revision": revision,
        "role": accepted(await api.post(f"organizations/{api.organization}/roles", role))["id"],
        "user": (await person(api)).id,
    }


@pytest.fixture(scope="module")
async def outsider(api: Api) -> Caller:
    return (await api.outsider())[0]


@pytest.fixture(scope="module")
async def nobody(api: Api) -> Caller:
    return await api.member()


async def ask(caller: Caller, row: Row, ids: dict[str, str], body: bytes | None = None) -> httpx.Response:
    path = row.path.format(**ids)
    if row.method in {"GET", "DELETE"}:
        return await caller.client.request(row.method, path)
    sent = body if body is not None else row.senseless if row.senseless is not None else row.good
    return await caller.send(row.method, path, sent or b"", content_type=row.content_type)


async def state(api: Api, ids: dict[str, str]) -> list[Any]:
    """Return everything that a change could show in."""
    return [
        await api.document(ids["instance"]),
        accepted(await api.get(f"instances/{ids['instance']}/schedules")),
        accepted(await api.get(f"organizations/{ids['organization']}/applications")),
        accepted(await api.get(f"applications/{ids['application']}/instances")),
        accepted(await api.get(f"applications/{ids['application']}/revisions")),
        accepted(await api.get(f"organizations/{ids['organization']}/roles")),
        accepted(await api.get(f"roles/{ids['role']}")),
        accepted(await api.get(f"organizations/{ids['organization']}/environments")),
        accepted(await api.get(f"environments/{ids['environment']}/markers")),
        accepted(await api.get(f"environments/{ids['environment']}/properties")),
        (await api.get(f"environments/{ids['environment']}")).text,
    ]


UNKNOWN_IDS = dict.fromkeys(
    ("organization", "environment", "application", "instance", "revision", "role", "user"), UNKNOWN
)
# A list of an organization shows each member those of its rows that they may read, so nobody is refused it.
OPEN_LISTS = {f"organizations/{{organization}}/{noun}" for noun in ("applications", "users", "roles", "environments")}


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_credentials_come_before_everything_else(api: Api, row: Row) -> None:
    anonymous = api.caller(None)
    answer = await ask(anonymous, row, UNKNOWN_IDS, BROKEN)
    refused(answer, 401, "NotAuthenticated")
    assert answer.headers["www-authenticate"].startswith("Basic")


@pytest.mark.parametrize("row", WITH_BODY, ids=str)
async def test_syntax_comes_before_the_object(api: Api, row: Row) -> None:
    broken = BROKEN if row.content_type == JSON else b"\xff"
    refused(await ask(api, row, UNKNOWN_IDS, broken), 400, "MalformedBody")
    wrong_type = await api.send(row.method, row.path.format(**UNKNOWN_IDS), b"{}", content_type="text/plain")
    refused(wrong_type, 400, "WrongContentType")


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_the_object_comes_before_the_meaning(api: Api, row: Row) -> None:
    refused(await ask(api, row, UNKNOWN_IDS), 404, "NotFound")


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_foreign_object_is_403_before_the_meaning_and_tells_nothing(
    api: Api, row: Row, ids: dict[str, str], outsider: Caller
) -> None:
    before = await state(api, ids)
    answer = await ask(outsider, row, ids)
    refused(answer, 403, "NotAllowed")
    assert not [found for found in ids.values() if found in answer.text]
    assert await state(api, ids) == before


@pytest.mark.parametrize("row", [row for row in ROWS if row.method != "GET" or row.path not in OPEN_LISTS], ids=str)
async def test_a_missing_permission_is_403_before_the_meaning(
    api: Api, row: Row, ids: dict[str, str], nobody: Caller
) -> None:
    before = await state(api, ids)
    refused(await ask(nobody, row, ids), 403, "NotAllowed")
    assert await state(api, ids) == before


@pytest.mark.parametrize("row", [row for row in ROWS if row.senseless is not None], ids=str)
async def test_what_makes_no_sense_is_400_for_who_may(api: Api, row: Row, ids: dict[str, str]) -> None:
    before = await state(api, ids)
    refused(await ask(api, row, ids), 400)
    assert await state(api, ids) == before


@pytest.mark.parametrize("row", READS, ids=str)
async def test_the_probe_itself_succeeds_for_who_may(api: Api, row: Row, ids: dict[str, str]) -> None:
    accepted(await ask(api, row, ids))
    reader = await api.member("Read: [/*]")
    accepted(await ask(reader, row, ids))


async def test_meaning_comes_before_conflict(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    refused(await api.post(f"instances/{instance}/fly", {}), 400, "UnknownWorkflow")
    refused(await api.post(f"instances/{instance}/fly/schedule", {"interval": 0}), 400, "UnknownWorkflow")
    refused(await api.post(f"instances/{instance}/echo", {}), 409, "InstanceBusy")
    nobody = await api.member()
    refused(await nobody.post(f"instances/{instance}/echo", {}), 403, "NotAllowed")
    accepted(await api.delete(f"instances/{instance}?force=1"))


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_an_id_of_another_form_is_404(api: Api, row: Row) -> None:
    for text in ("me", "0" * 23, "0" * 25, "Z" * 24, "5F" * 12, "%2e%2e"):
        refused(await ask(api, row, dict.fromkeys(UNKNOWN_IDS, text)), 404)


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "CONNECT", "BREW"])
async def test_a_method_that_nobody_has_is_405_with_those_that_are(api: Api, ids: dict[str, str], method: str) -> None:
    answer = await api.client.request(method, f"instances/{ids['instance']}")
    refused(answer, 405, "MethodNotAllowed")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"


async def test_whoever_has_no_valid_credentials_waits_for_the_refusal(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "REFUSAL_S", 0.2)
    begin_s = time.monotonic()
    refused(await api.caller(basic("nobody@example.org", "wrong")).get("organizations"), 401)
    assert time.monotonic() - begin_s >= 0.2
