"""Conditional requests: ETag, If-None-Match and If-Match, for every row of the endpoint table (decision 0110)."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from types import MethodType
from typing import Any

import httpx
import pytest

from launchbay.app.features import ENDPOINTS, FEATURES
from launchbay.limits import ANSWER_KEPT_BYTES
from launchbay.store.lookups import lock_of
from launchbay.usecases.instances import InstanceView
from launchbay.web.api import instances
from launchbay.web.conditions import Conditions, has_tag
from tests.support.changes import CHANGES_NOTHING, MANIFEST, SCENARIOS, Call, Stage
from tests.support.databases import Databases, Watch
from tests.support.network import answer, loopback_server
from tests.support.service import Api, Caller, accepted, fresh_name, refused, running_api

ROWS = {row.operation_id: row for row in ENDPOINTS}
CONDITIONS = Conditions(ENDPOINTS)
CONDITIONAL = [
    name for name in SCENARIOS if CONDITIONS.shown_by(ROWS[name]) is not None and name not in CHANGES_NOTHING
]
# They succeed, and the object that If-Match names reads as before.
SHOWS_NO_CHANGE = {
    "test_secret_provider": "it reads",
    "reset_second_factors": "the user is shown without them",
    "write_sign_in_policy": "the scenario writes the policy that holds already",
    "lift_sign_in_block": "blocks have a list of their own",
    "launch_application": "an instance is no part of its application",
    "adopt_instance": "an instance is no part of its application",
    "create_plan": "plans are no part of their organization",
    "clone_environment": "the copy is another object",
    "run_service_command": "the command of the scenario only reads",
    "schedule_workflow": "schedules have a list of their own",
    "reschedule_workflow": "schedules have a list of their own",
    "reveal_service_secret": "it only shows",
    "reveal_instance_secret": "it only shows",
    "test_webhook": "deliveries have a list of their own",
    "retry_deliveries": "deliveries have a list of their own",
    "resume_job": "the failed job stays as it is; another one begins",
}


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


@pytest.fixture(scope="module")
def watch(stage: Stage) -> Iterator[Watch]:
    with Watch.on(stage.api.settings.database_url) as watch:
        yield watch


def reading_path(operation: str, call: Call) -> tuple[str, str]:
    """Return the path of the GET that shows what a call changes, and the last segment of the call's own path."""
    assert isinstance(call, partial)
    path = call.args[0]
    row = ROWS[operation]
    shown_by = CONDITIONS.shown_by(row)
    assert shown_by is not None
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/?]+)", row.path.removeprefix("/api/1/"))
    found = re.match(pattern, path)
    assert found is not None, path
    return shown_by.path.removeprefix("/api/1/").format(**found.groupdict()), path.partition("?")[0].rpartition("/")[2]


def caller_of(call: Call) -> Caller:
    """Return who makes a call of a scenario."""
    assert isinstance(call, partial)
    assert isinstance(call.func, MethodType)
    assert isinstance(call.func.__self__, Caller)
    return call.func.__self__


async def read_tag(operation: str, call: Call) -> str | None:
    """Return the present tag of what a call changes, for who makes it; None if it is gone."""
    api = caller_of(call)
    path, last = reading_path(operation, call)
    shown_by = CONDITIONS.shown_by(ROWS[operation])
    assert shown_by is not None
    if not CONDITIONS.has_strong_items(shown_by) or ROWS[operation].path == shown_by.path:
        found = await api.get(path)
        return found.headers["etag"] if found.status_code == 200 else None
    listed = accepted(await api.client.get(path, headers={"Prefer": "etags"}))
    return next((item["etag"] for item in listed if last in {item.get("id"), item.get("host")}), None)


async def sent_if_match(call: Call, tag: str) -> httpx.Response:
    caller = caller_of(call)
    caller.client.headers["If-Match"] = tag
    try:
        return await call()
    finally:
        del caller.client.headers["If-Match"]


@pytest.mark.slow
@pytest.mark.parametrize("operation", CONDITIONAL)
async def test_every_change_is_made_for_the_present_tag_only(stage: Stage, watch: Watch, operation: str) -> None:
    call = await SCENARIOS[operation](stage)
    before = await read_tag(operation, call)
    assert before is not None
    assert await read_tag(operation, call) == before, "read twice, it has the same tag"
    watch.begin()
    stale = await sent_if_match(call, '"0123456789abcdef0123456789abcdef"')
    if not ROWS[operation].field_errors:
        refused(stale, 412, "PreconditionFailed")
    assert stale.status_code == 412
    assert stale.headers["etag"] == before
    assert watch.changed() == []
    made = await sent_if_match(call, f'"another", {before}')
    assert made.status_code == 200, made.text
    has_changed = await read_tag(operation, call) != before
    assert has_changed == (operation not in SHOWS_NO_CHANGE), "SHOWS_NO_CHANGE has the changes that no GET shows"


def test_every_readable_row_has_a_tag_and_every_change_is_conditional_or_known_not_to_be() -> None:
    without = {row.operation_id for row in ENDPOINTS if row.method == "GET" and not row.public and not has_tag(row)}
    assert without == {"watch_instance"}
    unconditional = {
        row.operation_id
        for row in ENDPOINTS
        if row.method != "GET" and not row.public and CONDITIONS.shown_by(row) is None
    }
    created = {name for name in unconditional if name.startswith(("create_", "import_"))}
    assert unconditional - created == {
        *("validate_manifest", "change_password", "sign_out_everywhere"),
        *("preview_impact", "preview_environment_impact", "preview_revision_impact", "preview_service_impact"),
        *("accept_membership", "leave_organization", "compare_manifest_text", "resume_failures"),
        # They wait for launches, and those would wait for the lock.
        *("set_freeze", "replace_freeze_windows", "set_application_freeze", "replace_application_freeze_windows"),
    }


async def test_a_change_without_a_tag_to_compare_refuses_the_condition(api: Api) -> None:
    body = {"name": fresh_name("environment")}
    path = f"organizations/{api.organization}/environments"
    answer = await api.client.post(path, json=body, headers={"If-Match": '"x"'})
    refused(answer, 400, "ConditionNotSupported")
    assert body["name"] not in (await api.get(path)).text


@pytest.mark.parametrize("spoil", [lambda tag: tag[1:-1], lambda tag: f"W/{tag}", lambda _: "", lambda tag: f"{tag} x"])
async def test_what_is_no_strong_tag_is_refused_as_that(api: Api, spoil: Callable[[str], str]) -> None:
    path = f"environments/{api.environment}/markers"
    shown = await api.get(path)
    given = spoil(shown.headers["etag"])
    answer = await api.client.put(path, json={"markers": [{"name": "new"}]}, headers={"If-Match": given})
    assert "with its quotes" in refused(answer, 400, "InvalidCondition")
    assert (await api.get(path)).json() == shown.json()


async def test_of_simultaneous_changes_for_the_same_tag_one_is_made(api: Api) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    path = f"environments/{environment}/markers"
    tag = (await api.get(path)).headers["etag"]

    async def write(number: int) -> httpx.Response:
        body = {"markers": [{"name": f"m{number}"}]}
        return await api.client.put(path, json=body, headers={"If-Match": tag})

    answers = await asyncio.gather(*(write(number) for number in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9
    [made] = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    shown = await api.get(path)
    assert shown.json() == {"markers": [{"name": f"m{made}"}]}
    assert {answer.headers["etag"] for answer in answers if answer.status_code == 412} == {shown.headers["etag"]}


@pytest.mark.features("git_sources")
async def test_of_simultaneous_changes_of_a_git_source_one_is_made(api: Api) -> None:
    account = accepted(
        await api.post(
            f"organizations/{api.organization}/serviceAccounts", {"name": fresh_name("account"), "roles": []}
        )
    )["id"]
    body = {"name": fresh_name("source"), "accountId": account, "url": "https://git.example.org/a.git", "paused": True}
    source = accepted(await api.post(f"organizations/{api.organization}/git-sources", body))["id"]
    path = f"git-sources/{source}"
    tag = (await api.get(path)).headers["etag"]

    async def write(number: int) -> httpx.Response:
        return await api.client.put(path, json={**body, "branch": f"b{number}"}, headers={"If-Match": tag})

    answers = await asyncio.gather(*(write(number) for number in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9
    [made] = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    assert accepted(await api.get(path))["branch"] == f"b{made}"


def test_every_conditional_change_locks_what_its_path_begins_with() -> None:
    roots = {row.path.split("/")[3] for row in ENDPOINTS if row.method != "GET" and CONDITIONS.shown_by(row)}
    assert roots - {"tokens"} <= {*FEATURES.locks(lock_of)}, "tokens are locked as those of their user"


async def test_an_answer_that_the_client_has_is_304_without_a_body(api: Api) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    path = f"environments/{environment}/name"
    first = await api.get(path)
    tag = first.headers["etag"]
    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        known = await api.client.get(path, headers={"If-None-Match": condition})
        assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
    other = await api.client.get(path, headers={"If-None-Match": '"other"'})
    assert (other.json(), other.headers["etag"]) == (first.json(), tag)
    refused(await api.client.get("environments/" + "00" * 12 + "/name", headers={"If-None-Match": "*"}), 404)


async def test_who_may_not_read_learns_no_tag(api: Api) -> None:
    editor = await api.member("EditEnvironment: [/*]")
    path = f"environments/{api.environment}/markers"
    refused(await editor.client.put(path, json={"markers": []}, headers={"If-Match": '"x"'}), 403)


async def test_items_of_a_list_have_tags_when_the_client_prefers_it(api: Api) -> None:
    application = await api.application(MANIFEST)
    path = f"organizations/{api.organization}/applications"
    plain = accepted(await api.get(path))
    answer = await api.client.get(path, headers={"Prefer": "etags"})
    tagged = accepted(answer)
    assert answer.headers["preference-applied"] == "etags"
    assert [{name: value for name, value in item.items() if name != "etag"} for item in tagged] == plain
    assert all(set(item) == {"id", "name"} for item in plain), "other clients get exactly the fields of the reference"

    async def tags() -> dict[str, str]:
        items = accepted(await api.client.get(path, headers={"Prefer": "etags"}))
        return {item["id"]: item["etag"] for item in items}

    before = await tags()
    accepted(await api.put(f"applications/{application}", {"name": fresh_name("app")}))
    after = await tags()
    assert {each for each in after if after[each] != before[each]} == {application}
    assert all(tag.startswith('W/"') for tag in after.values())


async def test_a_page_of_a_list_is_304_until_it_or_the_rest_changes(api: Api) -> None:
    await api.application(MANIFEST)
    path = f"organizations/{api.organization}/applications?limit=1"
    first = await api.get(path)
    again = await api.client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_tag_of_an_instance_follows_all_that_it_shows(api: Api) -> None:
    instance = await api.running(MANIFEST)
    path = f"instances/{instance}"

    async def tag() -> str:
        return str((await api.get(path)).headers["etag"])

    tags = [await tag()]
    for change in (
        lambda: api.put(f"{path}/userData", {"a": 1}),
        lambda: api.put(f"{path}/labels", {"team": "web"}),
        lambda: api.run(instance, "greet"),
    ):
        await change()
        await api.settled(instance)
        assert await tag() not in tags
        tags.append(await tag())
        assert (await api.client.get(path, headers={"If-None-Match": tags[-1]})).status_code == 304


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the instances whose documents are made."""
    found: list[str] = []
    document = instances.instance_document

    def noting(view: InstanceView) -> dict[str, Any]:
        found.append(view.detail.id)
        return document(view)

    monkeypatch.setattr(instances, "instance_document", noting)
    return found


async def put_large_data(api: Api, instance: str) -> None:
    accepted(await api.put(f"instances/{instance}/userData", {"text": "x" * ANSWER_KEPT_BYTES}))


async def test_a_304_of_an_instance_costs_no_more_statements_and_makes_no_document(
    api: Api, exchanges: ContextVar[list[list[bytes]]], made: list[str]
) -> None:
    instance = await api.running(MANIFEST)
    await put_large_data(api, instance)
    path = f"instances/{instance}"
    exchanges.set([])
    tag = (await api.get(path)).headers["etag"]
    whole = len(exchanges.get())
    made.clear()
    exchanges.set([])
    known = await api.client.get(path, headers={"If-None-Match": tag})
    assert (known.status_code, len(exchanges.get()), made) == (304, whole, [])


async def test_the_document_of_an_instance_is_made_again_only_after_a_change(api: Api, made: list[str]) -> None:
    instance = await api.running(MANIFEST)
    path = f"instances/{instance}"
    made.clear()
    accepted(await api.put(f"{path}/userData", {"a": 1}))
    first, second = [await api.get(path) for _ in range(2)]
    assert made == [instance]
    assert (second.content, second.headers["etag"]) == (first.content, first.headers["etag"])
    accepted(await api.put(f"{path}/userData", {"a": 2}))
    assert accepted(await api.get(path))["userData"] == {"a": 2}
    assert made == [instance] * 2


async def test_who_may_not_read_an_instance_gets_nothing_of_what_others_have_read(api: Api) -> None:
    instance = await api.running(MANIFEST)
    for _ in range(2):
        accepted(await api.get(f"instances/{instance}"))
    stranger = await api.member("Read: [/environments/*]")
    refused(await stranger.get(f"instances/{instance}"), 403)


async def test_a_large_instance_takes_no_memory_from_others(api: Api, made: list[str]) -> None:
    instance = await api.running(MANIFEST)
    await put_large_data(api, instance)
    made.clear()
    bodies = [(await api.get(f"instances/{instance}")).content for _ in range(2)]
    assert made == [instance] * 2
    assert bodies[0] == bodies[1]


async def test_two_people_who_see_different_things_have_different_tags(api: Api) -> None:
    reader = await api.member("Read: [/*]")
    path = f"organizations/{api.organization}/applications"
    mine: Any = await api.get(path)
    theirs = await reader.get(path)
    assert (mine.content == theirs.content) == (mine.headers["etag"] == theirs.headers["etag"])
    restricted = await api.member("Read: [/environments/*]")
    fewer = await restricted.get(path)
    assert fewer.content != mine.content
    assert fewer.headers["etag"] != mine.headers["etag"]


async def test_a_repeated_request_with_its_key_gets_its_answer_though_the_tag_is_old(api: Api) -> None:
    instance = await api.running(MANIFEST)
    tag = (await api.get(f"instances/{instance}")).headers["etag"]
    headers = {"If-Match": tag, "Idempotency-Key": fresh_name("key")}
    first = await api.client.post(f"instances/{instance}/greet", headers=headers)
    again = await api.client.post(f"instances/{instance}/greet", headers=headers)
    assert accepted(first) == accepted(again)
    assert again.headers["idempotency-replayed"] == "true"
