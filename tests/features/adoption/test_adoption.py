"""Instances that are only observed: what they refuse, and how they end. No program runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay import limits
from tests.support.adoption import STEADY, state_text
from tests.support.databases import Databases
from tests.support.drift import boxes
from tests.support.eventually import eventually
from tests.support.families import CHILD, child_application, links, parent, reconfigured, submodule
from tests.support.helm_cluster import HelmCluster
from tests.support.releases import manifest_of
from tests.support.service import Api, accepted, fresh_name, refused, running_api

HOUR_MS = 3_600_000
COMMANDS = """
          stop: { steps: [] }
          start: { steps: [] }
"""
MANIFEST = boxes(STEADY).replace(
    "  interfaces: { input: { size: bind(web#input.size) } }\n",
    "  interfaces: { input: { size: bind(web#input.size) }, actions: { stop: bind(web#actions.stop), "
    "start: bind(web#actions.start) } }\n",
).replace(
    "      interfaces: { input: { size: configuration(int) } }\n",
    "      interfaces: { input: { size: configuration(int) }, actions: { stop: receive-command(), "
    "start: receive-command() } }\n",
) + COMMANDS.strip("\n")
PLAIN = "launch: {steps: []}\n"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="") as api:
        yield api
    databases.drop(url)


def body(state: str | None = None, **launch: Any) -> dict[str, Any]:
    text = state_text(fresh_name("lineage")) if state is None else state
    return {"launch": launch, "states": [{"component": "web", "state": text}]}


async def observed(api: Api, application: str | None = None, **launch: Any) -> str:
    application = application or await api.application(MANIFEST)
    return str(accepted(await api.post(f"applications/{application}/adoptions", body(**launch)))["instanceId"])


async def status(api: Api, instance: str) -> str:
    return str((await api.settled(instance))["status"])


@pytest.mark.features("webhooks")
async def test_webhooks_say_that_what_is_adopted_runs_and_not_that_anybody_requested_it(api: Api) -> None:
    hook = {"url": "https://hooks.invalid/", "events": ["status"]}
    accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))
    launched = await api.launch(await api.application(PLAIN))
    await api.until(launched, "Running")
    adopted = await observed(api)
    statement = (
        "SELECT body::json ->> 'status' FROM webhook_deliveries WHERE body::json ->> 'instance' = %s ORDER BY id"
    )
    async with api.database.connection() as connection:
        said = [await (await connection.execute(statement, [each])).fetchall() for each in (launched, adopted)]
    assert said == [[("Requested",), ("Executing",), ("Running",)], [("Running",)]]


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ("not JSON", "isn't JSON"),
        ("[]", "no version, so it isn't a state"),
        (state_text("a", version=3), "the version 3. Launchbay reads version 4. Write it again with a newer program: "),
        (state_text("a", version=5), "the version 5. Launchbay reads version 4.$"),
        (state_text(""), "has no lineage"),
        (state_text("a", resources=7), "can't be read"),
        ('{"version": 4, "lineage": "\\ud800"}', "isn't JSON"),
        ('{"version": 4, "lineage": "\\ud83d"}', "isn't JSON"),
        ('{"version": 4, "lineage": "a\\u0000b"}', "control characters in its lineage"),
        (state_text("a" * 256), "at `$.lineage`"),
        (state_text("a", serial=-1), "at `$.serial`"),
        (state_text("a", serial=10**40), "can't be read"),
        (state_text("a", version="4"), 'the version "4", which isn\'t a whole number. A state has the number 4'),
        (state_text("a", version=4.0), "the version 4.0, which isn't a whole number"),
        (state_text("a", version=True), "the version true, which isn't"),
        ('{"version": 4, "lineage": "a", "lineage": "b"}', 'the key "lineage" twice'),
        ("[" * 200_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ('{"version": 4, "lineage": "a", "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ('{"version": ' + "9" * 5_000 + "}", "isn't"),
    ],
)
async def test_a_state_that_cannot_be_read_says_why_and_leaves_nothing(api: Api, state: str, what: str) -> None:
    application = await api.application(MANIFEST)

    answer = await api.post(f"applications/{application}/adoptions", body(state))

    assert what in refused(answer, 400, "InvalidState") + "$"
    assert accepted(await api.get(f"applications/{application}/instances")) == []


@pytest.mark.parametrize(
    ("states", "what"),
    [
        ([], "nothing to adopt"),
        ([{"component": "api", "state": state_text("a")}], "no step of 'api' keeps a state. Give it for one of: web"),
        ([{"component": "web", "name": "other", "state": state_text("a")}], "no state 'other'"),
        ([{"component": "web", "name": "x" * 1_000, "state": state_text("a")}], f"no state '{'x' * 80}'"),
        (
            [{"component": "web", "state": state_text("a")}, {"component": "web", "state": state_text("b")}],
            "2 are given",
        ),
    ],
)
async def test_a_state_without_a_place_names_the_places(api: Api, states: list[Any], what: str) -> None:
    application = await api.application(MANIFEST)

    answer = await api.post(f"applications/{application}/adoptions", {"states": states})

    assert what in refused(answer, 400)


@pytest.mark.parametrize("name", ["a/b", "", "x" * 101, "x" * 5_000, "a b"])
async def test_a_name_that_no_step_can_read_is_refused(api: Api, name: str) -> None:
    named = boxes(STEADY).replace("name: shop", 'name: "${size}"')
    application = await api.application(named)
    states = [{"component": "web", "name": name, "state": state_text(fresh_name("lineage"))}]

    answer = await api.post(f"applications/{application}/adoptions", {"states": states})

    assert "letters, digits" in refused(answer, 400, "InvalidState")
    states[0]["name"] = "1"
    accepted(await api.post(f"applications/{application}/adoptions", {"states": states}))


async def test_one_adoption_has_a_hundred_states(api: Api) -> None:
    application = await api.application(MANIFEST)
    states = [{"component": "web", "state": ""}] * 101

    answer = await api.post(f"applications/{application}/adoptions", {"states": states})

    assert "100" in refused(answer, 400)


async def test_a_manifest_that_keeps_no_state_can_adopt_none(api: Api) -> None:
    application = await api.application(PLAIN)

    assert "step opentofu" in refused(await api.post(f"applications/{application}/adoptions", body()), 400)


async def test_adoption_needs_what_a_launch_needs(api: Api) -> None:
    application = await api.application(MANIFEST)
    reader = await api.member("Read: [/*]")
    stranger, _, _ = await api.outsider()

    for caller in (reader, stranger):
        refused(await caller.post(f"applications/{application}/adoptions", body()), 403)
    maker = await api.member("Read: [/*]", "CreateInstance: [/*]")
    accepted(await maker.post(f"applications/{application}/adoptions", body()))


async def test_who_cannot_see_the_first_instance_does_not_learn_its_name(api: Api) -> None:
    application = await api.application(MANIFEST)
    state = state_text("one of all")
    first = accepted(await api.post(f"applications/{application}/adoptions", body(state, instanceName="hidden")))
    other = await api.application(MANIFEST)
    maker = await api.member(
        f"Read: [/applications/{other}]", f"CreateInstance: [/applications/{other}, /environments/*]"
    )

    told = refused(await maker.post(f"applications/{other}/adoptions", body(state)), 400, "AdoptedAlready")

    assert "an instance that you can't see" in told
    assert "hidden" not in told
    assert first["instanceId"] not in told


async def test_another_organization_may_have_the_same_state(api: Api) -> None:
    state = state_text("shared")
    application = await api.application(MANIFEST)
    accepted(await api.post(f"applications/{application}/adoptions", body(state)))
    outsider, organization, _ = await api.outsider()
    made = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "shop"}))["id"]
    accepted(await outsider.put_yaml(f"applications/{made}/manifest", MANIFEST))

    accepted(await outsider.post(f"applications/{made}/adoptions", body(state)))


async def test_all_doors_refuse_to_change_what_is_observed(api: Api) -> None:
    instance = await observed(api)
    sets = f"organizations/{api.organization}/change-sets"
    refusals = [
        await api.post(f"instances/{instance}/launch", {}),
        await api.post(f"instances/{instance}/actions.stop", {}),
        await api.post(f"instances/{instance}/actions.stop/schedule", {"interval": HOUR_MS}),
        await api.post(
            f"organizations/{api.organization}/recurring-schedules",
            {"name": "nightly", "instanceId": instance, "workflow": "actions.stop", "cron": "0 0 * * *"},
        ),
        await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}),
        await api.post(sets, {"act": "relaunch", "ids": [instance]}),
        await api.post(sets, {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {}}}),
        await api.put(f"instances/{instance}/environments", {"environments": [api.environment]}),
        await api.post(f"instances/{instance}/drift/findings/{instance}/take-over"),
    ]
    for answer in refusals:
        assert answer.status_code in {400, 403, 409}, answer.text
        assert "only observed" in answer.text
        assert "act manage" in answer.text
    assert await status(api, instance) == "Running"
    assert (await api.settled(instance))["workflowHistory"] == []


async def test_bulk_runs_and_rollouts_leave_it_out_and_say_so(api: Api) -> None:
    application = await api.application(MANIFEST)
    instance = await observed(api, application)
    accepted(
        await api.put_yaml(f"applications/{application}/manifest", MANIFEST.replace("input.size: 1", "input.size: 2"))
    )
    bulk = {"act": "run", "workflow": "actions.stop", "ids": [instance], "preview": True}
    assert "only observed" in (await api.post(f"organizations/{api.organization}/bulk", bulk)).text

    answer = await api.post(f"organizations/{api.organization}/rollouts", {"applicationId": application, "version": 3})

    rows = await api.get(f"rollouts/{answer.json()['id']}/instances") if answer.status_code == 200 else answer
    assert "only observed" in rows.text
    assert accepted(await api.get(f"instances/{instance}"))["version"] == 2


async def test_destroy_forgets_it_and_says_so(api: Api) -> None:
    instance = await observed(api)
    preview = accepted(await api.post(f"instances/{instance}/destroy/preview", {}))
    assert (preview["workflows"], preview["components"]) == ([], [])
    assert "forgotten" in preview["warnings"][0]

    accepted(await api.post(f"instances/{instance}/destroy", {}))

    document = await api.settled(instance)
    assert document["status"] == "Destroyed"
    assert [job["steps"] for job in document["workflowHistory"]] == [[]]
    assert "forgotten" in (await api.get(f"instances/{instance}/log")).text


async def test_a_forced_deletion_forgets_it_too(api: Api) -> None:
    instance = await observed(api)
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def test_it_lives_without_an_end_unless_the_launch_or_the_rules_give_one(api: Api) -> None:
    application = await api.application(MANIFEST)
    free = await observed(api, application)
    asked = await observed(api, application, destroyInterval=HOUR_MS)
    accepted(await api.put(f"applications/{application}/lifetime", {"greatestMs": 2 * HOUR_MS}))
    ruled = await observed(api, application)

    ends = [accepted(await api.get(f"instances/{each}"))["destroyAt"] for each in (free, asked, ruled)]
    assert [end is None for end in ends] == [True, False, False]


async def test_it_is_never_idle_and_never_sleeps(api: Api) -> None:
    application = await api.application(MANIFEST)
    instance = await observed(api, application)
    accepted(await api.put(f"applications/{application}/lifetime", {"idleMs": HOUR_MS}))
    accepted(await api.put(f"applications/{application}/sleep", {"windows": [{"sleepAt": "00:00", "wakeAt": "23:59"}]}))
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE idle_ends SET since = since - interval '3 hours', due_at = due_at - interval '3 hours'"
            " WHERE instance_id = %s",
            [instance],
        )
    await api.round_of("idle instances")
    await api.round_of("sleep windows")

    assert await status(api, instance) == "Running"
    assert accepted(await api.get(f"instances/{instance}"))["destroyAt"] is None
    sleep = accepted(await api.get(f"instances/{instance}/sleep"))
    assert "only observed" in sleep["message"]


async def test_one_that_was_launched_has_adopted_nothing(api: Api) -> None:
    instance = await api.running(PLAIN)
    found = accepted(await api.get(f"instances/{instance}/adoption"))
    assert (found["managed"], found["states"], found["adoptedAt"]) == ("full", [], None)
    answer = await api.post(f"organizations/{api.organization}/change-sets", {"act": "manage", "ids": [instance]})
    assert "manages it already" in refused(answer, 400)


async def test_a_policy_that_demands_change_sets_refuses_an_adoption_and_counts_approvals_of_a_take_over(
    api: Api,
) -> None:
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("env")}))
    environment = made["id"]
    application = await api.application(MANIFEST)
    instance = await observed(api, application, environmentId=environment)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))

    refusal = await api.post(f"applications/{application}/adoptions", body(environmentId=environment))

    assert "No change set can do this" in refused(refusal, 403, "ChangeSetRequired")
    trial = await api.post(f"applications/{application}/adoptions", {**body(environmentId=environment), "dryRun": True})
    assert "No change set can do this" in refused(trial, 403, "ChangeSetRequired")
    change = {"act": "manage", "ids": [instance]}
    assert accepted(await api.post(f"organizations/{api.organization}/change-sets", change))["status"] == "Pending"


async def test_a_release_on_a_server_without_the_program_says_what_the_operator_can_do(api: Api) -> None:
    manifest = manifest_of(HelmCluster(port=9), "https://charts.example.org/shop.tgz", "shop")
    application = await api.application(manifest)

    answer = await api.post(f"applications/{application}/adoptions", {"releases": [{"component": "web"}]})

    assert "LAUNCHBAY_SERVER_PROGRAMS=helm" in refused(answer, 400, "InvalidRelease")


async def test_a_dry_run_says_that_the_quota_is_full(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False, quota_instances=1) as api:
        application = await api.application(MANIFEST)
        trial = {**body(), "dryRun": True}
        accepted(await api.post(f"applications/{application}/adoptions", trial))
        accepted(await api.post(f"applications/{application}/adoptions", body()))

        refused(await api.post(f"applications/{application}/adoptions", trial), 400, "QuotaExceeded")
    databases.drop(url)


async def test_a_server_of_an_earlier_version_finds_it_busy(api: Api) -> None:
    instance = await observed(api)
    async with api.database.transaction() as connection:
        changed = await connection.execute(
            "UPDATE instances SET job_id = %s WHERE id = %s AND job_id IS NULL",
            ("5a" * 12, instance),
        )
        assert changed.rowcount == 0
    assert await status(api, instance) == "Running"


async def test_an_application_with_submodules_is_not_adopted_and_nothing_is_left(api: Api) -> None:
    child = await child_application(api, CHILD)
    application = await api.application(MANIFEST + submodule("db", child))

    told = refused(await api.post(f"applications/{application}/adoptions", body()), 400, "CannotAdopt")

    assert "Component 'db' is a submodule" in told
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_a_job_of_a_parent_changes_no_child_that_is_observed(api: Api) -> None:
    child = await child_application(api, CHILD)
    instance = await api.launch(await api.application(parent({"db": child})))
    inner = links(await api.settled(instance))["db"]
    async with api.database.transaction() as connection:  # neither an adoption nor an offer makes such a child
        await connection.execute("UPDATE instances SET is_observed = true WHERE id = %s", [inner])
    jobs = accepted(await api.get(f"instances/{inner}/jobs"))

    document = await reconfigured(api, instance, parameters={"db.wanted": 2})

    assert document["status"] == "Failed"
    assert "is only observed" in document["errorMessage"]
    assert accepted(await api.get(f"instances/{inner}/jobs")) == jobs
    assert await status(api, inner) == "Running"


async def plans_kept(api: Api) -> int:
    async with api.database.connection() as connection:
        return len(await (await connection.execute("SELECT FROM plans")).fetchall())


@pytest.mark.slow  # a server and a database of its own
async def test_looks_of_one_organization_leave_room_for_another(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        manifest = manifest_of(HelmCluster(port=9), "https://charts.example.org/shop.tgz", "shop")
        sent = {"releases": [{"component": "web"}]}
        path = f"applications/{await api.application(manifest)}/adoptions"
        other = accepted(await api.post("organizations", {"name": fresh_name("other")}))["id"]
        theirs = accepted(await api.post(f"organizations/{other}/applications", {"name": "shop"}))["id"]
        accepted(await api.put_yaml(f"applications/{theirs}/manifest", manifest))
        second = f"applications/{await api.application(manifest)}/adoptions"  # or it would join the first look
        looks = [asyncio.create_task(api.post(each, sent)) for each in (path, second)]
        await eventually(lambda: plans_kept(api), lambda found: found >= 2)
        monkeypatch.setattr(limits, "ADOPTED_LOOK_S", 0.0)

        assert "The organization already waits" in refused(await api.post(path, sent), 429, "TooManyRequests")
        refused(await api.post(f"applications/{theirs}/adoptions", sent), 503, "LookUnderWay")

        async with api.database.transaction() as connection:
            await connection.execute("DELETE FROM plans")
        # What somebody else ended would be looked at again, for which there is no time left.
        for answer in await asyncio.gather(*looks):
            refused(answer, 503, "LookUnderWay")
    databases.drop(url)
