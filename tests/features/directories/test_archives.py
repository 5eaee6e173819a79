"""Organizations as archives: out of one installation, into another (docs/howto/move-an-organization.md)."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from launchbay import limits
from launchbay.features.directories.values import Archive
from launchbay.service_types.registry import ServiceTypes
from tests.support.databases import Databases
from tests.support.service import EMAIL, Api, accepted, own_service, refused, running_api

api = own_service  # whose administrator administers the server

SECRET = "canary-4f1e8c-of-an-archive"
PLAIN = "launch:\n  steps: []\n"
OUTER = """
application:
  components:
    inner:
      type: reference.Submodule
      configuration: {{__locator.application-id: {inner}}}
"""
EMPTY: dict[str, Any] = {
    "format": "launchbay organization", "version": 1, "name": "Lab", "services": {}, "applications": {}, "roles": {},
    "environments": {"default": {"default": True}}, "users": {}, "mentions": {}, "holes": [],
}  # fmt: skip


# By the kind of their object and the last part of their path.
RULES: dict[str, Any] = {
    "environment lifetime": {"defaultMs": 7_200_000, "mayNever": False, "idleMs": 86_400_000},
    "environment sleep": {
        "windows": [{"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON"], "zone": "Europe/Berlin"}]
    },
    "environment concurrency": {"limits": [{"key": "lock:database", "limit": 2, "when": "refuse"}]},
    "environment audiences": {"audiences": ["vault", "https://sts.example.org"]},
    "application sleep": {"windows": []},
    "application lifetime": {"graceMs": 60_000, "mail": True},
}
GATES: dict[str, Any] = {"soak": 3_600_000, "workflows": ["go"], "approvals": 1, "automatic": False}


async def exported(api: Api, organization: str) -> dict[str, Any]:
    document: dict[str, Any] = accepted(await api.get(f"organizations/{organization}/archive"))
    return document


async def imported(api: Api, archive: Any, **more: Any) -> Any:
    return accepted(await api.post("archives", {"archive": archive, **more}))


def by_name(archive: dict[str, Any]) -> Any:
    """Return an archive with names in the place of the ids that its texts mention."""
    text = json.dumps({name: value for name, value in archive.items() if name not in {"mentions", "holes"}})
    for number, (kind, name) in archive["mentions"].items():
        text = text.replace(number, f"<{kind} {name}>")
    return json.loads(text)


async def rich_organization(api: Api) -> None:
    """Fill the first organization with something of everything, with secrets where secrets can be."""
    home = f"organizations/{api.organization}"
    inner = await api.application(PLAIN, "inner")
    outer = await api.application(OUTER.format(inner=inner), "outer")
    accepted(await api.put_yaml(f"applications/{inner}/manifest", PLAIN + "go: {steps: []}\n"))
    lab = accepted(await api.post(f"{home}/environments", {"name": "lab"}))["id"]
    accepted(await api.put_yaml(f"environments/{lab}", f"policies:\n  db.password: {SECRET}\n  wait.size: 3\n"))
    accepted(await api.put(f"environments/{lab}/markers", {"markers": [{"name": "blue"}]}))
    entries = [
        {"name": "mirrors", "type": "list<string>", "value": ["a", "b"]},
        {"name": "apiKey", "type": "string", "value": SECRET},
    ]
    accepted(await api.put(f"environments/{lab}/properties", {"properties": entries}))
    [vault] = [
        each["id"]
        for each in accepted(await api.get(f"{home}/services"))
        if each["name"].endswith("credentials service")
    ]
    accepted(await api.put(f"environments/{lab}/labels", {"tier": "test"}))
    accepted(await api.put(f"applications/{inner}/labels", {"team": "web", "cost.example/center": "7"}))
    for path, rules in RULES.items():
        owner = f"environments/{lab}" if path.startswith("environment") else f"applications/{inner}"
        accepted(await api.put(f"{owner}/{path.partition(' ')[2]}", rules))
    [default] = [each["id"] for each in accepted(await api.get(f"{home}/environments")) if each["id"] != lab]
    accepted(
        await api.put(
            f"{home}/promotion-order", {"stages": [{"environmentId": lab}, {"environmentId": default, **GATES}]}
        )
    )
    accepted(await api.put(f"applications/{outer}/promotion-order", {"stages": []}))
    arguments = {"name": "mail-password", "value": SECRET}
    accepted(await api.post(f"services/{vault}/set-secret", {"arguments": arguments}))
    accepted(await api.put(f"environments/{lab}/services", {"services": [vault]}))
    stable = {"name": "stable", "version": 2, "environmentId": lab}
    revision = accepted(await api.post(f"applications/{inner}/revisions", stable))["id"]
    submodules = {"inner": {"revisionId": revision}}
    body = {"name": "whole", "version": 2, "submodules": submodules}
    accepted(await api.post(f"applications/{outer}/revisions", body))
    text = f"- CreateInstance: [/applications/{inner}, /environments/{lab}]\n"
    accepted(await api.post(f"{home}/roles", {"name": "Developer", "permissions": text}))
    ann = {"email": "ann@example.org", "name": "Ann", "password": SECRET, "roles": ["Developer", "Guest"]}
    accepted(await api.post(f"{home}/users", ann))
    accepted(
        await api.post(
            f"{home}/webhooks", {"url": f"https://hooks.example/{SECRET}", "events": ["job"], "secret": SECRET}
        )
    )


async def test_an_organization_comes_out_of_the_other_installation_as_it_went_in(databases: Databases) -> None:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(running_api(databases.create(), engine=False))
        there = await stack.enter_async_context(running_api(databases.create(), engine=False))
        await rich_organization(here)
        archive = await exported(here, here.organization)
        assert SECRET not in json.dumps(archive)
        made = await imported(there, archive)
        assert made["created"] == {
            "services": 2, "environments": 2, "applications": 2, "manifests": 5, "revisions": 2, "roles": 2, "users": 2,
            "serviceAccounts": 0, "gitSources": 0, "schedules": 0,
        }  # fmt: skip
        assert by_name(await exported(there, made["id"])) == by_name(archive)

        # What could not come along is told, and what mentions others by id mentions the new ones.
        assert made["holes"] == archive["holes"]
        told = " ".join(made["holes"])
        for part in ("mail-password", "policy 'db.password'", "property 'apiKey'", "webhook to https://hooks.example"):
            assert part in told
        applications = accepted(await there.get(f"organizations/{made['id']}/applications"))
        [outer] = [each["id"] for each in applications if each["name"] == "outer"]
        [inner] = [each["id"] for each in applications if each["name"] == "inner"]
        labels = accepted(await there.get(f"applications/{inner}/labels"))
        assert labels == {"team": "web", "cost.example/center": "7"}
        environments = accepted(await there.get(f"organizations/{made['id']}/environments"))
        [lab] = [each["id"] for each in environments if each["name"] == "lab"]
        assert accepted(await there.get(f"environments/{lab}/labels")) == {"tier": "test"}
        for path, rules in RULES.items():
            owner = f"environments/{lab}" if path.startswith("environment") else f"applications/{inner}"
            found = accepted(await there.get(f"{owner}/{path.partition(' ')[2]}"))
            assert {name: found[name] for name in rules} == rules
        order = accepted(await there.get(f"organizations/{made['id']}/promotion-order"))["stages"]
        [default] = [each["id"] for each in environments if each["name"] == "default"]
        assert [each["environmentId"] for each in order] == [lab, default]
        assert {name: order[1][name] for name in GATES} == GATES
        own = accepted(await there.get(f"applications/{outer}/promotion-order"))
        assert (own["stages"], own["own"]) == ([], True)
        assert not accepted(await there.get(f"applications/{inner}/promotion-order"))["own"]
        # The order holds there, too: the version of the submodule has to be in the environment before.
        refused = await there.post(f"applications/{outer}/launch", {})
        assert (refused.status_code, refused.json()["code"]) == (403, "PromotionGate")
        await there.launch(inner, environmentId=lab)
        [invited] = made["invitations"]
        assert invited["email"] == "ann@example.org"
        assert "/invitation/" in invited["invitation"]


async def test_a_copy_in_the_same_installation_stands_for_itself(database_url: str) -> None:
    async with running_api(database_url, engine=False) as api:
        await rich_organization(api)
        archive = await exported(api, api.organization)
        made = await imported(api, archive, name="Copy")
        copy = await exported(api, made["id"])
        assert by_name({**copy, "name": archive["name"]}) == by_name(archive)
        assert not set(copy["mentions"]) & set(archive["mentions"])
        # Whoever has an account accepts the copy, with a link of its own.
        [invited] = made["invitations"]
        assert invited["email"] == "ann@example.org"
        assert "/console/invitations/" in invited["invitation"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "something"}, "The document isn't an archive"),
        (
            {"environments": {"default": {"default": True, "labels": {"a b": "x"}}}},
            "'a b' can't be the name of a label",
        ),
        (
            {"applications": {"a": {"manifests": [PLAIN], "labels": {"a": "-"}}}},
            "application 'a': The label a can't have",
        ),
        ({"version": 4}, "has format 4"),
        ({"applications": {"a": {"versions": 2}}}, "application 'a': Its manifests are missing"),
        ({"more": 1}, "The document isn't an archive"),
        ({"environments": {}}, "environments: exactly one must be the default, not 0"),
        (
            {"environments": {"a": {"default": True, "services": ["none"]}}},
            "environment 'a': The archive has no service",
        ),
        ({"services": {"s": {"typeId": "none"}}}, "service 's': There is no service type 'none'"),
        ({"applications": {"a": {"manifests": []}}}, "application 'a': It has no manifest"),
        ({"applications": {"a": {"manifests": ["launch: 3"]}}}, "application 'a': "),
        ({"applications": {"a": {"manifests": [PLAIN], "revisions": {"r": {"version": 7}}}}}, "revision 'a/r': "),
        (
            {"applications": {"a": {"manifests": [PLAIN], "revisions": {"r": {"version": 1, "submodules": {"x": 3}}}}}},
            "revision 'a/r': ",
        ),
        ({"promotion": [{"environment": "none"}]}, "organization: promotion: The archive has no environment 'none'."),
        (
            {"applications": {"a": {"manifests": [PLAIN], "promotion": [{"environment": "default", "approvals": 1}]}}},
            "application 'a': promotion: stages[0]: nothing is promoted to the first environment",
        ),
        ({"roles": {"r": {"permissions": "- Fly: [/*]"}}}, "role 'r': "),
        ({"users": {"no address": {"name": "x"}}}, "user 'no address': "),
        ({"users": {"bob@example.org": {"name": "Bob", "roles": ["None"]}}}, "user 'bob@example.org': "),
    ],
)
async def test_an_archive_with_anything_wrong_changes_nothing(api: Api, change: Any, sentence: str) -> None:
    before = accepted(await api.get("organizations"))
    answer = await api.post("archives", {"archive": {**EMPTY, **change}})
    assert sentence in refused(answer, 400, "InvalidArchive")
    assert accepted(await api.get("organizations")) == before
    async with api.database.connection() as connection:
        left = await connection.execute("SELECT count(*) FROM users WHERE email IN ('bob@example.org', 'no address')")
        assert await left.fetchone() == (0,)


VERSIONS, VERSION_BYTES = 4_200, 7_600
LINES = {"Content-Type": "application/x-ndjson"}


async def many_versions(api: Api) -> str:
    """Return an application with as many versions as a large one has after some years."""
    application = await api.application(PLAIN, "large")
    async with api.database.transaction() as connection:
        await connection.execute(
            """INSERT INTO manifests (application_id, version, content, author_id)
               SELECT %s, n + 2, rpad(%s || '# version ' || n || ' of ' || %s || ' ', %s, md5(n::text)) || chr(10), 'x'
               FROM generate_series(1, %s) AS n""",
            (application, PLAIN, application, VERSION_BYTES, VERSIONS),
        )
        await connection.execute(
            "UPDATE applications SET latest_version = %s WHERE id = %s", (VERSIONS + 2, application)
        )
    return application


async def into(file: Path, api: Api, organization: str) -> None:
    """Write the archive of an organization in lines, as it comes: httpx's own transport would hold all of it."""
    path = f"/api/1/organizations/{organization}/archive/lines"
    sign_in = api.client.headers["authorization"].encode()
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path, "query_string": b"",
        "headers": [(b"host", b"launchbay"), (b"authorization", sign_in)], "client": ("127.0.0.1", 1),
    }  # fmt: skip
    statuses: list[int] = []
    with file.open("wb") as opened:

        async def send(message: Message) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])
            opened.write(message.get("body", b""))

        async def receive() -> Message:
            await asyncio.Event().wait()  # the client stays
            raise AssertionError("nothing ends the wait")

        await api.parts.app(scope, receive, send)
    assert statuses == [200]


async def out_of(file: Path, api: Api, **query: Any) -> httpx.Response:
    """Import the archive of a file piece by piece."""

    async def pieces() -> AsyncIterator[bytes]:
        with file.open("rb") as opened:
            while piece := opened.read(65_536):
                yield piece

    return await api.client.post("archives/lines", content=pieces(), headers=LINES, params=query or None)


async def digests_of(api: Api, application: str) -> Any:
    """Return what tells all versions of an application, with its own ID left out."""
    async with api.database.connection() as connection:
        found = await connection.execute(
            "SELECT version, md5(replace(content, application_id, '')) FROM manifests"
            " WHERE application_id = %s ORDER BY version",
            (application,),
        )
        return await found.fetchall()


@pytest.fixture
async def own(database_url: str) -> AsyncIterator[Api]:
    """A service whose first organization is empty."""
    async with running_api(database_url, engine=False) as running:
        yield running


@pytest.mark.slow  # 32 MB of manifests go out and in, with every allocation counted
@pytest.mark.timeout(240)
async def test_thousands_of_versions_go_out_and_in_through_little_memory(own: Api, tmp_path: Path) -> None:
    application = await many_versions(own)
    assert "in lines" in refused(await own.get(f"organizations/{own.organization}/archive"), 400, "ArchiveTooLarge")
    file = tmp_path / "archive"
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await into(file, own, own.organization)
        made = accepted(await out_of(file, own, name="Copy"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.stat().st_size > VERSIONS * VERSION_BYTES
    # Both directions, with client and server in this process: a few chunks of manifests, not all of them.
    assert peak - before < 12 * limits.ARCHIVE_CHUNK_BYTES
    assert made["created"]["manifests"] == VERSIONS + 2
    copies = accepted(await own.get(f"organizations/{made['id']}/applications"))
    assert await digests_of(own, copies[0]["id"]) == await digests_of(own, application)
    await own.launch(copies[0]["id"])


async def test_lines_hold_what_a_document_holds(own: Api, tmp_path: Path) -> None:
    await rich_organization(own)
    document = await exported(own, own.organization)
    await into(tmp_path / "archive", own, own.organization)
    first, *lines = [json.loads(line) for line in (tmp_path / "archive").read_bytes().splitlines()]
    manifests: dict[str, list[str]] = {}
    for line in lines:
        manifests.setdefault(line["application"], []).append(line["manifest"])
        assert len(manifests[line["application"]]) == line["version"]
    for name, each in first["applications"].items():
        assert each.pop("versions") == len(manifests[name])
        each["manifests"] = manifests[name]
    assert {**first, "version": 2} == document

    made = accepted(await out_of(tmp_path / "archive", own, name="Copy"))
    copy = await exported(own, made["id"])
    assert by_name({**copy, "name": document["name"]}) == by_name(document)
    planned = accepted(await out_of(tmp_path / "archive", own, plan=1))
    assert (planned["id"], planned["created"]) == (None, made["created"])


async def test_lines_that_are_cut_off_or_out_of_order_change_nothing(own: Api, tmp_path: Path) -> None:
    await rich_organization(own)
    file = tmp_path / "archive"
    await into(file, own, own.organization)
    whole = file.read_bytes()
    before = accepted(await own.get("organizations"))

    async def refuses(content: bytes, sentence: str) -> None:
        file.write_bytes(content)
        assert sentence in refused(await out_of(file, own, name="Half"), 400, "InvalidArchive")

    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    assert len(ends) == 6
    for begin, end in pairwise([0, *ends]):
        sentence = "the archive is cut off" if begin else "line 1: the archive is cut off"
        for place in (begin, (begin + end) // 2, end - 1):
            await refuses(whole[:place], sentence)
    first, *lines = whole.splitlines(keepends=True)
    await refuses(whole + lines[-1], "line 7: more lines follow")
    await refuses(first + b"".join(reversed(lines)), "comes instead of version 1")
    await refuses(first + b"[]\n" + b"".join(lines[1:]), "line 2: it isn't a version of a manifest")
    await refuses(b"[]\n", "this isn't the first line")
    assert accepted(await own.get("organizations")) == before
    file.write_bytes(whole)
    accepted(await out_of(file, own, name="Whole"))


async def test_an_upload_is_not_taken_from_those_who_may_not_import(api: Api) -> None:
    who = await api.member()
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield b"x" * 65_536

    refused(await who.client.post("archives/lines", content=endless(), headers=LINES), 403)
    assert asked * 65_536 <= limits.LEFTOVER_BYTES + 65_536  # read away, so that the refusal arrives
    too_long = {**LINES, "Content-Length": str(limits.ARCHIVE_LINES_BYTES + 1)}
    refused(await api.client.post("archives/lines", content=b"{}", headers=too_long), 413, "TooLarge")


async def test_a_plan_tells_what_would_be_made_and_makes_nothing(api: Api) -> None:
    before = accepted(await api.get("organizations"))
    users = {"carol@example.org": {"name": "Carol"}}
    planned = await imported(api, {**EMPTY, "users": users}, plan=True)
    assert (planned["id"], planned["created"]["users"], planned["invitations"]) == (None, 1, [])
    assert accepted(await api.get("organizations")) == before
    refused(await api.post("archives", {"archive": {**EMPTY, "environments": {}}, "plan": True}), 400, "InvalidArchive")


async def test_secrets_are_not_taken_from_an_archive(api: Api) -> None:
    [kind, secret] = next(
        [kind.id, name]
        for kind in ServiceTypes.load().all()
        for name, parameter in kind.parameters.items()
        if parameter.secret
    )
    services = {"s": {"typeId": kind, "parameters": {secret: "x"}}}
    answer = await api.post("archives", {"archive": {**EMPTY, "services": services}})
    assert "An archive holds no secrets" in refused(answer, 400, "InvalidArchive")


@pytest.mark.parametrize(
    ("kind", "field", "given", "hole"),
    [
        ("openbao", "configuration.address", {"configuration.role": "shop"}, ""),
        (
            "openbao",
            "configuration.address",
            {"configuration.sign-in": "approle", "configuration.role-id": "shop"},
            "configuration.secret-id",
        ),
        (
            "aws_secrets_manager",
            "configuration.endpoint-url",
            {"configuration.region": "eu-central-1", "configuration.access-key-id": "AKIA"},
            "configuration.secret-access-key",
        ),
    ],
)
async def test_an_address_to_which_secrets_would_go_over_plain_http_is_not_taken(
    api: Api, kind: str, field: str, given: dict[str, str], hole: str
) -> None:
    async def sent(address: str) -> httpx.Response:
        services = {"safe": {"typeId": f"builtin:{kind}", "parameters": {field: address, **given}}}
        holes = [f"service 'safe': the secret parameter '{hole}'"] if hole else []
        return await api.post("archives", {"archive": {**EMPTY, "services": services, "holes": holes}, "plan": True})

    assert accepted(await sent("https://vault.example:8200"))["created"]["services"] == 1
    said = refused(await sent("http://vault.example:8200"), 400, "InvalidArchive")
    assert f"service 'safe': {field}: " in said
    assert "would go to vault.example over plain HTTP" in said


async def test_exporting_takes_the_right_to_manage_users_and_roles(api: Api) -> None:
    path = f"organizations/{api.organization}/archive"
    for permissions in (["ManageUsers: [/*]", "Read: [/*]"], ["ManageRoles: [/*]", "Read: [/*]"]):
        refused(await (await api.member(*permissions)).get(path), 403, "NotAllowed")
    accepted(await (await api.member("ManageUsers: [/*]", "ManageRoles: [/*]")).get(path))
    refused(await (await api.member("ManageRoles: [/*]")).post("archives", {"archive": EMPTY}), 403, "NotAllowed")


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
values = st.one_of(st.integers(-9, 9), st.booleans(), st.sampled_from(["plain", "two-words", "a:b"]))


@st.composite
def archives(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an organization, with references between its parts."""
    environments = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    roles = draw(st.lists(names.filter(lambda name: name != "Administrator"), max_size=2, unique=True))
    applications = draw(st.lists(names, max_size=3, unique=True))
    strings = st.sampled_from(["a", "b c"])
    return {
        **EMPTY,
        "name": draw(names),
        "services": {
            name: {"typeId": "builtin:static_resource_pool", "parameters": {"configuration.resources": ["x", "y"]}}
            for name in draw(st.lists(names, max_size=2, unique=True))
        },
        "environments": {
            name: {
                "default": place == 0,
                "policies": draw(st.dictionaries(st.sampled_from(["a.b", "c.size"]), values)),
                "markers": draw(st.lists(names, max_size=2, unique=True)),
                "properties": [
                    {"name": key, "type": "list<string>", "value": draw(st.lists(strings, max_size=2))}
                    for key in draw(st.lists(st.sampled_from(["one", "two"]), unique=True))
                ],
            }
            for place, name in enumerate(environments)
        },
        "applications": {
            name: {
                "manifests": draw(
                    st.lists(st.sampled_from([PLAIN, PLAIN + "go: {steps: []}\n"]), min_size=1, max_size=3)
                ),
                "revisions": {"r": {"version": 1, "environment": draw(st.sampled_from(environments))}},
            }
            for name in applications
        },
        "roles": {name: {"permissions": draw(st.sampled_from(["", "- Read: [/*]\n"]))} for name in roles},
        "users": {
            # An account that is there already keeps its name, so it is the same in all examples.
            f"user{number}@example.org": {"name": f"User {number}", "roles": roles[:number]}
            for number in range(draw(st.integers(0, 2)))
        },
    }


def whole(document: dict[str, Any]) -> Archive:
    """Return an archive in which it makes no difference what is left out."""
    archive = msgspec.convert(document, Archive)
    archive.version = 0  # format 1 is imported too, and exported as the newest
    archive.users.pop(EMAIL, None)  # who imports is an administrator there, whoever they were here
    for each in archive.environments.values():
        each.policies, each.markers = each.policies or {}, each.markers or []
        each.properties, each.services = each.properties or [], each.services or []
    return archive


@pytest.mark.slow
def test_whatever_is_imported_is_exported_again(databases: Databases) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        api = runner.run(stack.enter_async_context(running_api(databases.create(), engine=False)))

        async def there_and_back(archive: dict[str, Any]) -> dict[str, Any]:
            return await exported(api, (await imported(api, archive))["id"])

        # Half of the usual number: an example is two passes through the whole service.
        @settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
        @given(archives())
        def property_of_all(archive: dict[str, Any]) -> None:
            assert whole(runner.run(there_and_back(archive))) == whole(archive)

        try:
            property_of_all()
        finally:
            runner.run(stack.aclose())
