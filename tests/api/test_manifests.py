"""Manifest versions, and manifests that come from a URL (reference §4, Applications; conformance.md)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay import limits
from launchbay.store.database import Database
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server, redirect
from tests.support.service import UNKNOWN, Api, accepted, refused, running_api

FIRST = "launch:\n  steps: []   # kept as it was given: ä\n"
SECOND = "launch: {steps: []}\ndestroy: {steps: []}\n"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A running service that may reach this machine by its address."""
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def source() -> AsyncIterator[LoopbackServer]:
    """A web server with a manifest."""
    async with loopback_server() as server:
        server.routes["/m.yaml"] = answer(body=FIRST.encode())
        yield server


async def set_source(api: Api, application: str, url: str) -> Any:
    return await api.put(f"applications/{application}/manifestSource", {"url": url})


async def refresh(api: Api, application: str) -> Any:
    return await api.post(f"applications/{application}/manifestSource/refresh")


async def text_of(api: Api, application: str, **query: Any) -> str:
    found = await api.get(f"applications/{application}/manifest", **query)
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] == "application/x-yaml"
    return found.text


async def test_every_version_can_be_read_as_it_was_given(api: Api) -> None:
    application = await api.application()
    accepted(await api.put_yaml(f"applications/{application}/manifest", FIRST))
    accepted(await api.put_yaml(f"applications/{application}/manifest", SECOND))
    assert await text_of(api, application) == SECOND
    assert await text_of(api, application, version=2) == FIRST
    assert "launch" in await text_of(api, application, version=1)
    again = await api.put_yaml(f"applications/{application}/manifest", await text_of(api, application, version=2))
    assert accepted(again) == {"version": 4}


@pytest.mark.parametrize("version", ["0", "-1", "3", "2147483648", "99999999999999999999", "x", "1.5", ""])
async def test_an_unknown_version_is_400(api: Api, version: str) -> None:
    application = await api.application(FIRST)
    refused(await api.get(f"applications/{application}/manifest", version=version), 400)


async def test_versions_are_listed_with_their_authors_the_newest_first(api: Api) -> None:
    application = await api.application()
    editor = await api.member("EditApplication: [/*]")
    accepted(await editor.put_yaml(f"applications/{application}/manifest", FIRST))
    rows = accepted(await api.get(f"applications/{application}/manifests"))
    assert [row["version"] for row in rows] == [2, 1]
    assert all(set(row) == {"version", "createdAt", "authorId", "message"} for row in rows)
    assert rows[0]["createdAt"] >= rows[1]["createdAt"]
    assert rows[0]["authorId"] != rows[1]["authorId"]


async def test_reading_needs_permission(api: Api) -> None:
    application = await api.application()
    outsider, _, _ = await api.outsider()
    editor = await api.member("EditApplication: [/*]")
    for part in ("manifest", "manifests"):
        for caller in (outsider, editor):
            refused(await caller.get(f"applications/{application}/{part}"), 403, "NotAllowed")
        refused(await api.get(f"applications/{UNKNOWN}/{part}"), 404, "NotFound")


async def test_a_manifest_from_a_url_becomes_a_version_and_runs(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    assert accepted(await set_source(api, application, f" {source.url('/m.yaml')} ")) == {"version": 2}
    assert await text_of(api, application) == FIRST
    assert accepted(await api.get(f"applications/{application}"))["sourceUrl"] == source.url("/m.yaml")
    document = await api.settled(await api.launch(application))
    assert (document["version"], document["status"]) == (2, "Running")
    [request] = source.received
    assert (request.method, request.target) == ("GET", "/m.yaml")
    assert "authorization" not in request.headers


async def test_a_manifest_from_a_url_cannot_be_replaced_by_an_upload(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml")))
    refused(await api.put_yaml(f"applications/{application}/manifest", SECOND), 401, "ManifestSourceLocked")
    assert await text_of(api, application) == FIRST


async def test_an_upload_while_the_source_is_being_set_never_lands_on_top(api: Api, source: LoopbackServer) -> None:
    for _ in range(5):
        application = await api.application()
        set_answer, *uploads = await asyncio.gather(
            set_source(api, application, source.url("/m.yaml")),
            *(api.put_yaml(f"applications/{application}/manifest", SECOND) for _ in range(3)),
        )
        assert set_answer.status_code == 200
        assert {upload.status_code for upload in uploads} <= {200, 401}
        assert await text_of(api, application) == FIRST
        rows = accepted(await api.get(f"applications/{application}/manifests"))
        assert [row["version"] for row in rows] == list(range(len(rows), 0, -1))


async def test_a_refresh_makes_a_version_only_of_what_has_changed(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml")))
    assert accepted(await refresh(api, application)) == {"version": 2, "changed": False}
    source.routes["/m.yaml"] = answer(body=SECOND.encode())
    assert accepted(await refresh(api, application)) == {"version": 3, "changed": True}
    assert accepted(await refresh(api, application)) == {"version": 3, "changed": False}
    assert await text_of(api, application) == SECOND


async def test_refreshes_at_the_same_moment_make_one_version(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml")))
    source.routes["/m.yaml"] = answer(body=SECOND.encode())
    answers = [accepted(found) for found in await asyncio.gather(*(refresh(api, application) for _ in range(6)))]
    assert {found["version"] for found in answers} == {3}
    assert [found["changed"] for found in answers].count(True) == 1


async def test_a_refresh_without_a_source_says_so(api: Api) -> None:
    application = await api.application()
    assert "is uploaded" in refused(await refresh(api, application), 400, "NoManifestSource")


async def test_another_source_replaces_the_first(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml")))
    source.routes["/n.yaml"] = answer(body=SECOND.encode())
    assert accepted(await set_source(api, application, source.url("/n.yaml"))) == {"version": 3}
    assert accepted(await refresh(api, application)) == {"version": 3, "changed": False}


async def test_the_query_of_a_source_is_sent_and_never_shown(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml?token=hunter2#part")))
    assert source.received[-1].target == "/m.yaml?token=hunter2"
    shown = await api.get(f"applications/{application}")
    assert accepted(shown)["sourceUrl"] == source.url("/m.yaml")
    source.routes["/m.yaml"] = answer(500)
    assert "hunter2" not in shown.text + refused(await refresh(api, application), 400)


async def test_a_redirect_is_followed(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    source.routes["/old"] = redirect(source.url("/m.yaml"))
    assert accepted(await set_source(api, application, source.url("/old"))) == {"version": 2}


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "OutgoingFailed"),
        ("m.yaml", "OutgoingFailed"),
        ("file:///etc/passwd", "OutgoingFailed"),
        ("ftp://127.0.0.1/m.yaml", "OutgoingFailed"),
        ("http://", "OutgoingFailed"),
        ("http://[", "OutgoingFailed"),
        ("http://127.0.0.1:99999/", "OutgoingFailed"),
        ("http://127.0.0.1:1/m.yaml", "OutgoingFailed"),
        ("http://a b/", "OutgoingFailed"),
        ("http://127.0.0.1/" + "x" * 10_000, "OutgoingFailed"),
        ("http://10.0.0.1/m.yaml", "AddressRefused"),
        ("http://169.254.169.254/latest/meta-data", "AddressRefused"),
        ("http://[::1]/m.yaml", "AddressRefused"),
        ("http://user:hunter2@127.0.0.1/m.yaml", "CredentialsInUrl"),
        ("http://user@127.0.0.1/m.yaml", "CredentialsInUrl"),
        ("http://\u0000/", "MalformedBody"),
        (5, "WrongField"),
        (None, "WrongField"),
    ],
)
async def test_a_url_that_cannot_be_used_is_400_and_changes_nothing(api: Api, url: Any, code: str) -> None:
    application = await api.application(FIRST)
    assert "hunter2" not in refused(await set_source(api, application, url), 400, code)
    found = accepted(await api.get(f"applications/{application}"))
    assert (found["version"], found["sourceUrl"]) == (2, None)
    assert accepted(await api.put_yaml(f"applications/{application}/manifest", SECOND)) == {"version": 3}


@pytest.mark.parametrize(
    ("status", "body", "code", "says"),
    [
        (404, b"gone", "ManifestSourceFailed", "returned status 404 instead of 200"),
        (500, b"", "ManifestSourceFailed", "returned status 500 instead of 200"),
        (204, b"", "ManifestSourceFailed", "returned status 204 instead of 200"),
        (200, b"", "InvalidManifest", "is empty"),
        (200, b"<html><body>Sign in</body></html>", "InvalidManifest", "Line 1, column 1"),
        (200, b"launch: [", "InvalidManifest", "Invalid YAML"),
        (200, b"launch: \xff", "InvalidManifest", "0xff is not valid UTF-8"),
        (200, b'launch: "\\0"', "InvalidManifest", "Line 1"),
        (200, b"#" * (limits.MANIFEST_BYTES + 1), "OutgoingFailed", str(limits.MANIFEST_BYTES)),
        (200, b"launch: {steps: [{a: {action: noSuchAction}}]}", "InvalidManifest", "noSuchAction"),
    ],
)
async def test_what_is_no_manifest_is_refused_like_an_upload_and_changes_nothing(
    api: Api, source: LoopbackServer, status: int, body: bytes, code: str, says: str
) -> None:
    application = await api.application()
    source.routes["/bad"] = answer(status, body)
    assert says in refused(await set_source(api, application, source.url("/bad")), 400, code)
    accepted(await set_source(api, application, source.url("/m.yaml")))
    source.routes["/m.yaml"] = answer(status, body)
    assert says in refused(await refresh(api, application), 400, code)
    assert await text_of(api, application) == FIRST


async def test_a_source_that_redirects_to_a_forbidden_address_is_refused(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    source.routes["/trap"] = redirect("http://169.254.169.254/latest/meta-data")
    refused(await set_source(api, application, source.url("/trap")), 400, "AddressRefused")


async def test_nobody_sets_or_refreshes_a_source_without_permission_and_nothing_is_loaded(
    api: Api, source: LoopbackServer
) -> None:
    application = await api.application()
    outsider, _, _ = await api.outsider()
    reader = await api.member("Read: [/*]")
    for caller in (outsider, reader):
        body = {"url": source.url("/m.yaml")}
        refused(await caller.put(f"applications/{application}/manifestSource", body), 403, "NotAllowed")
        refused(await caller.post(f"applications/{application}/manifestSource/refresh"), 403, "NotAllowed")
    refused(await set_source(api, UNKNOWN, source.url("/m.yaml")), 404, "NotFound")
    refused(await refresh(api, UNKNOWN), 404, "NotFound")
    assert source.received == []


async def test_a_source_changed_while_a_refresh_loads_wins(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    accepted(await set_source(api, application, source.url("/m.yaml")))
    loading, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(received: Any, writer: asyncio.StreamWriter) -> None:
        loading.set()
        await go_on.wait()
        await answer(body=SECOND.encode())(received, writer)

    source.routes["/m.yaml"] = slowly
    refreshing = asyncio.create_task(refresh(api, application))
    await loading.wait()
    source.routes["/n.yaml"] = answer(body=FIRST.encode())
    accepted(await set_source(api, application, source.url("/n.yaml")))
    go_on.set()
    refused(await refreshing, 409, "Conflict")
    assert await text_of(api, application) == FIRST


async def test_no_connection_to_the_database_is_held_while_a_manifest_loads(api: Api, source: LoopbackServer) -> None:
    application = await api.application()
    go_on = asyncio.Event()
    loading = 0

    async def slowly(received: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal loading
        loading += 1
        await go_on.wait()
        await answer(body=FIRST.encode())(received, writer)

    source.routes["/slow"] = slowly
    database: Database = api.database
    count = database.pool.most + 5
    tasks = [asyncio.create_task(set_source(api, application, source.url("/slow"))) for _ in range(count)]
    async with asyncio.timeout(10):
        await eventually(lambda: loading >= count)
        accepted(await api.get(f"applications/{application}"))
    go_on.set()
    versions = sorted(accepted(found)["version"] for found in await asyncio.gather(*tasks))
    assert versions == list(range(2, count + 2))
