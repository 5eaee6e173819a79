"""The audit log: every change is in it, in the same transaction, and no secret is (promises 10 and 14).

The rows of the endpoint table are the tests: whatever changes something must leave an entry, and where the entry cannot
be written, nothing else may be written either.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launchbay.app.features import ENDPOINTS
from launchbay.auth.audit import Audit
from launchbay.auth.secret_key import SecretKey
from launchbay.ids import new_id
from launchbay.limits import AUDIT_DOCUMENT_BYTES
from launchbay.usecases.organizations import AuditedChange, list_changes
from tests.support.changes import (
    CHANGES_NOTHING,
    MANIFEST,
    ONLY_NOTED,
    SCENARIOS,
    Stage,
    generate_token_with_second_factor,
)
from tests.support.databases import Databases
from tests.support.network import answer, loopback_server
from tests.support.service import (
    EMAIL,
    PERSON_PASSWORD,
    UNKNOWN,
    Api,
    Caller,
    accepted,
    fresh_email,
    fresh_name,
    join,
    person,
    refused,
    running_api,
)

CHANGING = [row.operation_id for row in ENDPOINTS if row.method != "GET"]
# What a server writes beside the changes of its callers.
# Attempts count even when what they lead to fails.
# Servers note who sends requests once a second, whatever they are, and now and then which key they have.
NOT_COMPARED = {"audit_entries", "alembic_version", "wrong_second_factors", "server_activity", "key_users"}


@pytest.fixture(scope="module")
async def stage(databases: Databases) -> AsyncIterator[Stage]:
    url = databases.create()
    async with (
        loopback_server() as source,
        running_api(url, engine=False, outgoing_allow="127.0.0.1") as api,
    ):
        source.routes["/m.yaml"] = answer(body=MANIFEST.encode())
        yield Stage(api, source)
    databases.drop(url)


async def entries(caller: Caller, organization: str, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = accepted(await caller.get(f"organizations/{organization}/audit", **query))
    return found


async def last_entry(stage: Stage, operation: str) -> dict[str, Any]:
    found = await entries(stage.api, stage.api.organization)
    return next(entry for entry in reversed(found) if entry["operation"] == operation)


async def content(api: Api) -> dict[str, str]:
    """Return a sum over each table, the queue's among them."""
    async with api.database.transaction() as connection:
        names = await connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition AND NOT relname = ANY (%s) ORDER BY 1",
            [list(NOT_COMPARED)],
        )
        sums = {}
        for (name,) in await names.fetchall():
            statement = f"SELECT md5(coalesce(string_agg(t::text, ';' ORDER BY t::text), '')) FROM {name} t"
            [sums[name]] = await (await connection.execute(statement.encode())).fetchone() or [""]
        return sums


@asynccontextmanager
async def broken_log(api: Api) -> AsyncIterator[None]:
    """Let no entry be written meanwhile."""
    async with api.database.connection() as connection:
        await connection.execute("ALTER TABLE audit_entries ADD CONSTRAINT nothing CHECK (false) NOT VALID")
    try:
        yield
    finally:
        async with api.database.connection() as connection:
            await connection.execute("ALTER TABLE audit_entries DROP CONSTRAINT nothing")


def test_every_row_that_may_change_something_has_a_scenario_or_a_reason() -> None:
    known = set(SCENARIOS) | set(CHANGES_NOTHING)
    assert set(CHANGING) <= known, "add a scenario to tests/support/changes.py, and desk.audit.record to the use case"
    assert set(SCENARIOS) <= set(CHANGING)
    assert not set(SCENARIOS) & set(CHANGES_NOTHING)


# Every way to sign in leaves the entry of the session that it opens, an object of a directory that of its kind, and
# the resumption of equal failures that of its bulk run. A promotion leaves that of its change set.
RECORDED_AS = {
    "import_organization_lines": "import_organization",
    "sign_in_with_form": "open_session",
    "put_directory_object": "create_service_account",
    "resume_failures": "create_bulk",
    "promote_version": "create_change_set",
}


@pytest.mark.slow
@pytest.mark.parametrize("operation", [name for name in CHANGING if name in SCENARIOS])
async def test_a_change_leaves_one_entry_under_its_operation(stage: Stage, operation: str) -> None:
    call = await SCENARIOS[operation](stage)
    async with stage.api.database.connection() as connection:
        [last] = await (await connection.execute("SELECT coalesce(max(id), 0) FROM audit_entries")).fetchone() or [0]
        before = await content(stage.api)
        done = await call()
        assert done.status_code == 200, done.text
        # A policy that changes something would lock the other scenarios out.
        if operation != "write_sign_in_policy" and operation not in ONLY_NOTED:
            assert await content(stage.api) != before, "the scenario changes nothing, so it shows nothing"
        cursor = await connection.execute("SELECT operation, object FROM audit_entries WHERE id > %s", [last])
        *others, (recorded, touched) = await cursor.fetchall()
    assert [name for name, _ in others] == (["create_change_set"] if operation == "put_back_drift" else [])
    assert recorded == RECORDED_AS.get(operation, operation)
    assert touched.startswith("/")


@pytest.mark.slow
@pytest.mark.parametrize("operation", [name for name in CHANGING if name in SCENARIOS])
async def test_a_change_whose_entry_cannot_be_written_does_not_happen(stage: Stage, operation: str) -> None:
    call = await SCENARIOS[operation](stage)
    before = await content(stage.api)
    async with broken_log(stage.api):
        assert (await call()).status_code == 500
    assert await content(stage.api) == before
    assert (await call()).status_code == 200, "the same call succeeds when the entry can be written"


async def test_a_token_that_a_second_factor_allows_is_in_the_log(stage: Stage) -> None:
    call = await generate_token_with_second_factor(stage)
    assert (await call()).status_code == 200
    made = await last_entry(stage, "generate_token")
    assert made["object"].startswith(f"/users/{made['actor']['id']}")


async def test_an_entry_says_who_what_when_from_where_and_how_it_was_before_and_after(stage: Stage) -> None:
    role = await stage.role()
    name = accepted(await stage.api.get(f"roles/{role}"))["name"]
    accepted(await stage.api.put(f"roles/{role}", {"name": "renamed", "permissions": "- Read: [/*]"}))
    [me] = [row for row in accepted(await stage.api.get(f"{stage.organization}/users")) if row["email"] == EMAIL]
    entry = await last_entry(stage, "update_role")
    assert len(entry.pop("id")) == 24
    assert entry.pop("at") > 1_700_000_000_000
    assert entry == {
        "actor": {"id": me["id"], "email": EMAIL, "method": "basic", "name": me["name"]},
        "address": "127.0.0.1",
        "operation": "update_role",
        "object": f"/roles/{role}",
        "before": {"name": name, "permissions": ""},
        "after": {"name": "renamed", "permissions": "- Read: [/*]"},
        "names": {role: "renamed"},
        "changes": [
            {"field": "name", "before": name, "after": "renamed"},
            {"field": "permissions", "before": "", "after": "- Read: [/*]"},
        ],
    }


async def test_what_is_refused_leaves_no_entry(stage: Stage) -> None:
    reader = await stage.api.member("Read: [/*]")
    count = len(await entries(stage.api, stage.api.organization))
    refused(await stage.api.post(f"{stage.organization}/roles", {"name": "x", "permissions": "- Fly: [/*]"}), 400)
    refused(await reader.post(f"{stage.organization}/roles", {"name": "x", "permissions": ""}), 403)
    refused(await stage.api.delete(f"roles/{UNKNOWN}"), 404)
    refused(await stage.api.put(f"applications/{UNKNOWN}/manifest", {}), 400)
    assert len(await entries(stage.api, stage.api.organization)) == count


async def test_entries_are_found_by_actor_and_by_object(stage: Stage) -> None:
    who = await person(stage.api, "Administrator")
    application = accepted(await who.post(f"{stage.organization}/applications", {"name": fresh_name("app")}))["id"]
    instance = await stage.api.launch(application)
    accepted(await who.put(f"instances/{instance}/userData", {"a": "b"}))
    log = stage.api.organization

    async def operations(**query: str) -> list[str]:
        return [entry["operation"] for entry in await entries(stage.api, log, **query)]

    for actor in (who.id, who.email, who.email.upper()):
        assert await operations(actor=actor) == ["accept_invitation", "create_application", "put_user_data"]
    assert await operations(object=f"/applications/{application}") == [
        "create_application",
        "launch_application",
        "put_user_data",
    ]
    for found in (instance, f"/applications/{application}/instances/{instance}"):
        assert await operations(object=found) == ["launch_application", "put_user_data"]
    assert await operations(object=instance, actor=who.id) == ["put_user_data"]
    assert await operations(object=f"/applications/{application}", actor="nobody@example.org") == []
    assert await operations(object=f"/applications/{application[:-1]}") == []
    refused(await stage.api.get(f"organizations/{log}/audit", object="applications"), 400, "WrongField")


async def test_entries_come_in_pages_oldest_first_and_none_is_missed(stage: Stage) -> None:
    for _ in range(5):
        await stage.role()
    everything = await entries(stage.api, stage.api.organization)
    assert [entry["id"] for entry in everything] == sorted(entry["id"] for entry in everything)
    path, seen = f"organizations/{stage.api.organization}/audit?limit=3", []
    while path:
        page = await stage.api.get(path)
        seen += accepted(page)
        path = page.headers.get("link", "").partition(">")[0].removeprefix("</api/1/")
    assert seen == everything
    assert await entries(stage.api, stage.api.organization, after=everything[-2]["id"]) == everything[-1:]
    assert await entries(stage.api, stage.api.organization, after="f" * 24) == []
    for query in ({"limit": "0"}, {"limit": "x"}, {"after": "x"}):
        refused(await stage.api.get(f"organizations/{stage.api.organization}/audit", **query), 400)


async def test_entries_come_newest_first_in_pages_too(stage: Stage) -> None:
    who = await person(stage.api, "Administrator")
    application = accepted(await who.post(f"{stage.organization}/applications", {"name": fresh_name("app")}))["id"]
    for number in range(4):
        accepted(await who.put(f"applications/{application}", {"name": fresh_name(f"app-{number}")}))
    oldest_first = await entries(stage.api, stage.api.organization, object=application)
    for about in (application, f"/applications/{application}"):
        path: str | None = f"organizations/{stage.api.organization}/audit?sort=-at&limit=2&object={about}"
        found: list[dict[str, Any]] = []
        while path is not None:
            response = await stage.api.client.get(path)
            found += accepted(response)
            path = response.links["next"]["url"].partition("/api/1/")[2] if "next" in response.links else None
        assert found == oldest_first[::-1]


async def test_entries_are_found_by_action_and_time(stage: Stage) -> None:
    who = await person(stage.api, "Administrator")
    application = accepted(await who.post(f"{stage.organization}/applications", {"name": fresh_name("app")}))["id"]
    accepted(await who.put(f"applications/{application}", {"name": fresh_name("app")}))
    accepted(await who.delete(f"applications/{application}"))
    log = stage.api.organization
    all_of_it = await entries(stage.api, log, object=application)
    assert [entry["operation"] for entry in all_of_it] == [
        "create_application",
        "rename_application",
        "delete_application",
    ]
    chosen = await entries(stage.api, log, object=application, action="delete_application,create_application")
    assert chosen == [all_of_it[0], all_of_it[2]]
    assert await entries(stage.api, log, object=application, action="run_workflow") == []
    first, *_, last = (entry["at"] for entry in all_of_it)
    assert await entries(stage.api, log, object=application, since=last + 1) == []
    assert await entries(stage.api, log, object=application, until=first) == []
    assert await entries(stage.api, log, object=application, since=first, until=last + 1) == all_of_it


def test_changes_name_nested_fields_and_skip_equal_ones() -> None:
    before = '{"name": "a", "parameters": {"x": 1, "y": 2}, "old": null}'
    after = '{"name": "a", "parameters": {"x": 1, "y": 3, "z": []}}'
    assert list_changes(before, after) == [
        AuditedChange("parameters.y", 2, 3),
        AuditedChange("old", None, None),
        AuditedChange("parameters.z", None, []),
    ]
    assert list_changes(None, '{"name": "a"}') == [AuditedChange("name", None, "a")]
    assert list_changes(None, None) == []


async def test_only_who_may_view_it_sees_the_log_and_nobody_sees_another_organizations(stage: Stage) -> None:
    outsider, organization, _ = await stage.api.outsider()
    accepted(await outsider.put(f"organizations/{organization}", {"name": "hidden"}))
    path = f"{stage.organization}/audit"
    refused(await (await stage.api.member("Read: [/*]")).get(path), 403, "NotAllowed")
    refused(await (await stage.api.member("ViewAudit: [/applications/*]")).get(path), 403, "NotAllowed")
    viewer = await stage.api.member("ViewAudit: [/*]")
    assert await entries(viewer, stage.api.organization) == await entries(stage.api, stage.api.organization)
    refused(await outsider.get(path), 403, "NotAllowed")
    refused(await stage.api.get(f"organizations/{organization}/audit"), 403, "NotAllowed")
    refused(await stage.api.get(f"organizations/{UNKNOWN}/audit"), 404, "NotFound")
    assert [entry["operation"] for entry in await entries(outsider, organization)] == ["rename_organization"]
    assert "hidden" not in str(await entries(stage.api, stage.api.organization))


async def test_what_a_person_does_to_the_own_account_is_seen_by_the_organization_that_made_it(stage: Stage) -> None:
    outsider, organization, _ = await stage.api.outsider()
    who = await person(stage.api)
    await join(outsider, organization, who)
    accepted(
        await who.put("users/me/password", {"currentPassword": PERSON_PASSWORD, "newPassword": "another one of theirs"})
    )
    for caller, log, operation in (
        (stage.api, stage.api.organization, "change_password"),
        (outsider, organization, "accept_membership"),
    ):
        entry = (await entries(caller, log, actor=who.id))[-1]
        assert (entry["operation"], entry["object"]) == (operation, f"/users/{who.id}")


async def test_no_secret_is_in_the_log(stage: Stage) -> None:
    secret = "s3cret-of-the-test"
    api = stage.api
    user = {"email": fresh_email(), "name": "Ann", "password": secret}
    accepted(await api.post(f"{stage.organization}/users", user))
    application = await api.application(MANIFEST)
    instance = await api.launch(application, parameters={"password": secret})
    accepted(await api.put(f"instances/{instance}/userData", {"password": secret, "list": [secret]}))
    settled = await stage.settled()
    accepted(await api.post(f"instances/{settled}/greet/schedule", {"interval": "9", "parameters": {"p": secret}}))
    accepted(await api.post(f"instances/{settled}/greet/reschedule", {"interval": "9", "parameters": {"p": secret}}))
    accepted(await api.post(f"instances/{settled}/greet", {"password": secret}))
    for operation in ("accept_invitation", "generate_token", "exchange_token"):
        await (await SCENARIOS[operation](stage))()
    text = str(await entries(api, api.organization))
    assert secret not in text
    assert "lbr_" not in text
    assert PERSON_PASSWORD not in text
    assert "$argon2" not in text
    [launched] = await entries(api, api.organization, object=instance, actor=EMAIL, limit=1)
    assert launched["after"]["parameters"]["password"].startswith("fingerprint:")


def test_fingerprints_tell_same_from_different_and_depend_on_the_servers_key() -> None:
    audit, other = Audit(SecretKey(b"k" * 32)), Audit(SecretKey(b"l" * 32))
    assert audit.fingerprint({"a": 1, "b": 2}) == audit.fingerprint({"b": 2, "a": 1})
    assert audit.fingerprint("1") != audit.fingerprint(1)
    assert audit.fingerprint("x") != other.fingerprint("x")
    assert audit.fingerprints({"p": "x"}) == {"p": audit.fingerprint("x")}


async def test_large_documents_are_replaced_by_their_fingerprint(stage: Stage) -> None:
    role = await stage.role()
    long = "# " + "x" * (AUDIT_DOCUMENT_BYTES - 10) + "\n"
    accepted(await stage.api.put(f"roles/{role}", {"name": fresh_name("role"), "permissions": long}))
    after = (await last_entry(stage, "update_role"))["after"]
    assert set(after) == {"bytes", "fingerprint"}
    assert after["bytes"] > AUDIT_DOCUMENT_BYTES


async def test_an_entry_is_there_as_soon_as_the_change_is(stage: Stage) -> None:
    async def change() -> None:
        role = await stage.role()
        [entry] = await entries(stage.api, stage.api.organization, object=role)
        assert entry["operation"] == "create_role"

    await asyncio.gather(*(change() for _ in range(10)))


async def test_entries_of_a_time_are_found_by_halving(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        await _halved(api)
    databases.drop(url)


async def _halved(api: Api) -> None:
    path = f"organizations/{api.organization}/audit"
    for number in range(8):
        await api.application(name=f"audited {number}")
    entries = accepted(await api.get(path))
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE audit_entries SET at = now() - (%s::bigint - id) * interval '1 hour' WHERE organization_id = %s",
            [int(entries[-1]["id"]), api.organization],
        )
    entries = accepted(await api.get(path))
    times = [entry["at"] for entry in entries]
    assert times == sorted(times)
    for order in ("at", "-at"):
        for first, last in ((0, 3), (2, 6), (5, len(entries)), (len(entries) - 1, len(entries))):
            until = {} if last == len(entries) else {"until": times[last]}
            found = accepted(await api.get(path, since=times[first], sort=order, **until))
            wanted = [entry["id"] for entry in entries[first:last]]
            assert [entry["id"] for entry in found] == (wanted if order == "at" else wanted[::-1])
            on = accepted(await api.get(path, since=times[first], sort=order, limit=1, **until))
            on += accepted(await api.get(path, since=times[first], sort=order, after=on[0]["id"], **until))
            assert on == found, "the next page stays within the times"
    assert accepted(await api.get(path, since=times[-1] + 60_000)) == []
    assert accepted(await api.get(path, since=0, until=253_402_300_799_999)) == entries  # the last moment of a date
    assert accepted(await api.get(path, until=times[0])) == []


async def test_entries_of_an_actor_are_found_by_id_and_address_whatever_name_they_have(api: Api) -> None:
    someone, removed = await person(api, "Guest"), new_id()
    made = [
        (someone.id, someone.email.title()),
        (someone.id, "engine/sleep"),
        (someone.id, ""),
        (removed, someone.email),
        (removed, "gone@example.org"),
        (removed, "engine/idle"),
        ("operator", "the server's command line"),
    ]
    async with api.database.transaction() as connection:
        for actor_id, email in made:
            await connection.execute(
                "INSERT INTO audit_entries (organization_id, actor_id, actor_email, method, address, operation, object,"
                " object_id) VALUES (%s, %s, %s, '', '', 'probe', '/probe', '')",
                [api.organization, actor_id, email],
            )
    for asked in (someone.id, someone.email.upper(), removed, "gone@example.org", "operator", "engine/sleep", new_id()):
        for sort in ("at", "-at"):
            query = {"action": "probe", "actor": asked, "sort": sort}
            listed = accepted(await api.get(f"organizations/{api.organization}/audit", **query))
            found = [(each["actor"]["id"], each["actor"]["email"]) for each in listed]
            wanted = [(each, email) for each, email in made if asked == each or asked.lower() == email.lower()]
            assert found == (wanted if sort == "at" else wanted[::-1]), asked
