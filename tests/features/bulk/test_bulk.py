"""Bulk runs: a turn and an outcome for each instance, pause, cancellation, limits, permissions at each turn."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from launchbay import limits
from launchbay.auth.secret_key import read_secret_key
from launchbay.errors import Unavailable
from launchbay.features.bulk import rows as bulk_store
from launchbay.features.bulk.usecases import seal_acts
from launchbay.model.failures import failure_id, shared_reason
from tests.support.applications import NEEDY, launched, offered
from tests.support.databases import Databases, until_locked
from tests.support.eventually import eventually
from tests.support.manifests import PAUSING
from tests.support.service import Api, Caller, accepted, refused, running_api
from tests.support.services import everything_stored

# Its command fails while the machine's file says so: a resume after the repair succeeds.
FRAGILE = """
launch: {steps: []}
check:
  parameters: [{fails: {default: false}}]
  steps:
    - look: {action: restcall, parameters: {command: "not a URL"}}
destroy: {steps: []}
"""
CRACKED = """
launch: {steps: [{lay: {action: restcall, parameters: {command: "not a URL"}}}]}
backup: {steps: [{save: {action: restcall, parameters: {command: "not a URL"}}}]}
"""


@pytest.fixture(scope="module")
async def own(databases: Databases) -> AsyncIterator[Api]:
    """A service of this file alone."""
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


async def family(api: Api, manifest: str, count: int, **body: Any) -> tuple[str, list[str]]:
    """Return an application and settled instances of it."""
    application = await api.application(manifest)
    made = [await api.launch(application, destroyInterval=-1, **body) for _ in range(count)]
    for instance in made:
        await api.settled(instance)
    return application, sorted(made)  # in the order of lists


async def begin(api: Api, caller: Caller | None = None, **body: Any) -> Any:
    return accepted(await (caller or api).post(f"organizations/{api.organization}/bulk", body))


async def ended(api: Api, bulk: str, timeout_s: float = 30.0) -> Any:
    """Wait until a bulk run has ended, and return it."""
    return await eventually(
        lambda: api.read(f"bulk/{bulk}"), lambda document: document["finishedAt"] is not None, within_s=timeout_s
    )


async def outcomes(api: Api, bulk: str) -> dict[str, str]:
    rows = accepted(await api.get(f"bulk/{bulk}/instances"))
    return {each["instanceId"]: each["status"] for each in rows}


async def test_a_workflow_runs_on_all_that_a_filter_finds(own: Api) -> None:
    application, made = await family(own, PAUSING, 5)
    begun = await begin(
        own,
        act="run",
        workflow="pause",
        parameters={"seconds": "0"},
        select={"application": application},
        maxParallel=2,
    )
    assert (begun["status"], sum(begun["counts"].values())) == ("Running", 5)
    document = await ended(own, begun["id"])
    assert document["status"] == "Finished"
    assert document["counts"] == {
        "waiting": 0, "running": 0, "succeeded": 5, "failed": 0, "refused": 0, "cancelled": 0
    }  # fmt: skip
    rows = accepted(await own.get(f"bulk/{begun['id']}/instances"))
    assert [each["instanceId"] for each in rows] == made
    for each in rows:
        job = (await own.document(each["instanceId"]))["workflowHistory"][0]
        assert (job["id"], job["name"], job["status"]) == (each["jobId"], "pause", "Succeeded")
    assert begun["id"] in [each["id"] for each in accepted(await own.get(f"organizations/{own.organization}/bulk"))]
    page = await own.get(f"bulk/{begun['id']}/instances", limit=2)
    following = await own.get(page.links["next"]["url"].removeprefix("/api/1/"))
    assert [each["instanceId"] for each in accepted(page) + accepted(following)] == made[:4]


async def test_failed_instances_are_resumed_by_one_call(own: Api) -> None:
    application, made = await family(own, FRAGILE, 4)
    for instance in made[:3]:
        accepted(await own.post(f"instances/{instance}/check", {}))
    for instance in made[:3]:
        await own.settled(instance)
    begun = await begin(own, act="resume", select={"application": application, "lastStatus": "Failed"})
    document = await ended(own, begun["id"])
    # They fail again, each with a job of its own that continues the one before.
    assert document["counts"]["failed"] == 3
    for each in accepted(await own.get(f"bulk/{begun['id']}/instances", status="Failed")):
        detail = accepted(await own.get(f"instances/{each['instanceId']}/jobs/{each['jobId']}"))
        assert detail["resumes"] is not None
        assert each["message"] == detail["errorMessage"]
    assert made[3] not in await outcomes(own, begun["id"])


async def test_a_failure_is_resumed_only_where_no_other_job_has_failed_since(own: Api) -> None:
    application, made = await family(own, CRACKED, 4)
    for instance in made[:2]:
        assert (await own.run(instance, "backup"))["status"] == "Failed"
    failures = f"organizations/{own.organization}/failures"
    [group] = accepted(await own.get(f"{failures}?application={application}"))
    assert (group["place"], group["count"]) == ("lay", 4)
    histories = [(await own.document(instance))["workflowHistory"] for instance in made]
    launched = [job["finishedAt"] for jobs in histories for job in jobs if job["name"] == "launch"]
    # When the named launches failed, not when `backup` did.
    assert (group["firstAt"], group["lastAt"]) == (min(launched), max(launched))
    assert sorted(each["failedAt"] for each in group["instances"]) == sorted(launched)
    begun = await own.post(f"{failures}/{group['id']}/resume?application={application}")
    said = "Left out: 2 of the 4 instances. Another job has ended on them since."
    assert said in begun.headers["launchbay-warnings"]
    await ended(own, accepted(begun)["id"])
    assert sorted(await outcomes(own, accepted(begun)["id"])) == made[2:]
    for instance in made[:2]:
        text = refused(await own.post(f"{failures}/{group['id']}/resume?instance={instance}"), 400, "NotNewestJob")
        assert "Another job has failed since: on '" in text
        assert "' it is 'backup' (ID " in text
        assert [job["name"] for job in (await own.document(instance))["workflowHistory"]] == ["backup", "launch"]
    # The last failure of instances that are named, as a list of runs has it: of `backup`, though they failed at launch.
    reason = shared_reason((await own.document(made[0]))["errorMessage"])
    assert reason.place == "save"
    begun = await own.post(f"{failures}/{failure_id(reason)}/resume?instance={','.join(made)}")
    assert "launchbay-warnings" not in begun.headers
    await ended(own, accepted(begun)["id"])
    assert sorted(await outcomes(own, accepted(begun)["id"])) == made[:2]
    # Others haven't asked for it: the list of failures has nothing with that reason.
    text = refused(await own.post(f"{failures}/{failure_id(reason)}/resume?application={application}"), 404)
    assert "No instance has this failure now." in text


@pytest.mark.slow
async def test_no_more_than_the_limit_run_at_once_and_a_pause_begins_none(own: Api) -> None:
    application, made = await family(own, PAUSING, 5)
    begun = await begin(
        own,
        act="run",
        workflow="pause",
        parameters={"seconds": "600"},
        select={"application": application},
        maxParallel=2,
    )
    path = f"bulk/{begun['id']}"
    await eventually(lambda: own.read(path), lambda found: found["counts"]["running"] >= 2)
    accepted(await own.post(f"{path}/pause"))
    assert list((await outcomes(own, begun["id"])).values()).count("Running") == 2
    rows = accepted(await own.get(f"{path}/instances", status="Running"))
    accepted(await own.delete(f"instances/{rows[0]['instanceId']}/jobs/{rows[0]['jobId']}"))
    await eventually(lambda: own.read(path), lambda found: found["counts"]["failed"] >= 1)
    paused = accepted(await own.get(path))
    assert paused["waitingFor"] == "Paused: the instances that wait get their turns when somebody continues it."
    assert (paused["status"], paused["counts"]["running"], paused["counts"]["waiting"]) == ("Paused", 1, 3)
    accepted(await own.post(f"{path}/continue"))
    await eventually(lambda: own.read(path), lambda found: found["counts"]["running"] >= 2)
    accepted(await own.post(f"{path}/cancel"))
    cancelled = accepted(await own.get(path))
    assert cancelled["waitingFor"] == "Waiting for 2 jobs under way."
    assert (cancelled["status"], cancelled["counts"]["cancelled"], cancelled["finishedAt"]) == ("Cancelled", 2, None)
    for row in accepted(await own.get(f"{path}/instances", status="Running")):
        accepted(await own.delete(f"instances/{row['instanceId']}/jobs/{row['jobId']}"))
    assert (await ended(own, begun["id"]))["status"] == "Cancelled"
    refused(await own.post(f"{path}/continue"), 409, "BulkEnded")
    assert len(made) == 5


async def test_a_paused_run_whose_last_job_ends_is_finished(own: Api) -> None:
    application, _ = await family(own, PAUSING, 1)
    begun = await begin(
        own, act="run", workflow="pause", parameters={"seconds": "600"}, select={"application": application}
    )
    await eventually(lambda: own.read(f"bulk/{begun['id']}"), lambda found: found["counts"]["running"] >= 1)
    accepted(await own.post(f"bulk/{begun['id']}/pause"))
    [row] = accepted(await own.get(f"bulk/{begun['id']}/instances"))
    accepted(await own.delete(f"instances/{row['instanceId']}/jobs/{row['jobId']}"))
    assert (await ended(own, begun["id"]))["status"] == "Finished"
    refused(await own.post(f"bulk/{begun['id']}/continue"), 409, "BulkEnded")


@pytest.mark.slow
async def test_it_stops_after_so_many_failures(own: Api) -> None:
    application, _ = await family(own, FRAGILE, 5)
    begun = await begin(
        own, act="run", workflow="check", select={"application": application}, maxParallel=1, stopAfterFailures=2
    )
    document = await ended(own, begun["id"])
    assert document["status"] == "Stopped"
    assert (document["counts"]["failed"], document["counts"]["cancelled"]) == (2, 3)


async def test_a_preview_says_what_would_be_refused_and_changes_nothing(own: Api) -> None:
    application, made = await family(own, PAUSING, 2)
    await own.run(made[0], "destroy")
    shown = await begin(own, act="run", workflow="pause", select={"application": application}, preview=True)
    assert (shown["id"], shown["status"]) == (None, "Preview")
    assert [(each["instanceId"], each["status"]) for each in shown["instances"]] == [
        (made[0], "Refused"),
        (made[1], "Waiting"),
    ]
    assert (await own.document(made[1]))["status"] == "Running"
    assert len((await own.document(made[1]))["workflowHistory"]) == 1


@pytest.mark.slow
async def test_other_acts_extend_label_reconfigure_and_destroy(own: Api) -> None:
    application, made = await family(own, PAUSING, 2)
    select = {"application": application}
    await ended(own, (await begin(own, act="extend", select=select, expiresIn=3_600_000))["id"])
    documents = [await own.document(instance) for instance in made]
    assert all(each["destroyAt"] > each["createdAt"] + 3_000_000 for each in documents)
    accepted(await own.put(f"instances/{made[0]}/labels", {"old": "1", "kept": "1"}))
    labels = {"team": "web", "old": None}
    await ended(own, (await begin(own, act="label", select=select, labels=labels))["id"])
    assert (await own.document(made[0]))["labels"] == {"kept": "1", "team": "web"}
    assert (await own.document(made[1]))["labels"] == {"team": "web"}
    accepted(await own.put_yaml(f"applications/{application}/manifest", PAUSING + "more: {steps: []}\n"))
    await ended(own, (await begin(own, act="reconfigure", select=select, version=3))["id"])
    assert [(await own.document(instance))["version"] for instance in made] == [3, 3]
    await ended(own, (await begin(own, act="destroy", ids=made))["id"])
    assert [(await own.document(instance))["status"] for instance in made] == ["Destroyed", "Destroyed"]


@pytest.mark.slow
async def test_permission_is_needed_before_and_at_the_turn(own: Api) -> None:
    application, made = await family(own, PAUSING, 3)
    runs = f"RunInstanceWorkflow: [/applications/{application}/instances/{made[0]}/workflows/*]"
    member = await own.member("Read: [/*]", runs)
    begun = await begin(own, member, act="run", workflow="pause", parameters={"seconds": "0"}, ids=made)
    assert begun["counts"]["refused"] == 2
    document = await ended(own, begun["id"])
    assert (document["counts"]["succeeded"], document["counts"]["refused"]) == (1, 2)
    rows = accepted(await own.get(f"bulk/{begun['id']}/instances", status="Refused"))
    assert all("You need the permission RunInstanceWorkflow" in each["message"] for each in rows)
    # A role that is taken away between two turns.
    everything = await own.member("Read: [/*]", "RunInstanceWorkflow: [/*]")
    begun = await begin(
        own, everything, act="run", workflow="pause", parameters={"seconds": "600"}, ids=made, maxParallel=1
    )
    await eventually(lambda: own.read(f"bulk/{begun['id']}"), lambda found: found["counts"]["running"] >= 1)
    accepted(await own.delete(f"organizations/{own.organization}/users/{begun['ownerId']}"))
    [row] = accepted(await own.get(f"bulk/{begun['id']}/instances", status="Running"))
    accepted(await own.delete(f"instances/{row['instanceId']}/jobs/{row['jobId']}"))
    assert (await ended(own, begun["id"]))["counts"]["refused"] == 2


@pytest.mark.slow
async def test_a_busy_instance_gets_its_turn_when_it_is_free(own: Api) -> None:
    _, [instance] = await family(own, PAUSING, 1)
    accepted(await own.post(f"instances/{instance}/pause", {"seconds": "600"}))
    begun = await begin(own, act="run", workflow="pause", parameters={"seconds": "0"}, ids=[instance])
    await eventually(lambda: own.read(f"bulk/{begun['id']}/instances"), lambda found: found[0]["message"] is not None)
    said = "Waiting for 1 busy instance, which gets its turn when other work allows it."
    held_up = accepted(await own.get(f"bulk/{begun['id']}"))
    assert (held_up["waitingFor"], held_up["counts"]["waiting"]) == (said, 1)
    [row] = accepted(await own.get(f"bulk/{begun['id']}/instances"))
    assert re.fullmatch(r"The instance '.+' runs job 2, 'pause' \(ID \w+\)\.", row["message"])  # and no advice to retry
    [job] = [each for each in (await own.document(instance))["workflowHistory"] if each["status"] == "Executing"]
    accepted(await own.delete(f"instances/{instance}/jobs/{job['id']}"))
    assert (await ended(own, begun["id"]))["counts"]["succeeded"] == 1


async def test_who_did_not_begin_it_needs_all_instances_to_stop_it(own: Api) -> None:
    application, made = await family(own, PAUSING, 1)
    begun = await begin(own, act="run", workflow="pause", parameters={"seconds": "600"}, ids=made)
    one = await own.member("Read: [/*]", f"EditInstance: [/applications/{application}/*]")
    refused(await one.post(f"bulk/{begun['id']}/cancel"), 403)
    everything = await own.member("EditInstance: [/*]")
    accepted(await everything.post(f"bulk/{begun['id']}/cancel"))
    stranger, _, _ = await own.outsider()
    refused(await stranger.get(f"bulk/{begun['id']}"), 403)
    reader = await own.member()
    refused(await reader.get(f"bulk/{begun['id']}/instances"), 403, "NotAllowed")


async def test_what_makes_no_sense_is_refused(own: Api) -> None:
    _, made = await family(own, PAUSING, 1)
    path = f"organizations/{own.organization}/bulk"
    refused(await own.post(path, {"act": "run", "ids": made}), 400, "InvalidAct")
    refused(await own.post(path, {"act": "destroy", "ids": made, "workflow": "pause"}), 400, "InvalidAct")
    expiring = {"act": "destroy", "ids": made, "expiresIn": 1000}
    assert refused(await own.post(path, expiring), 400, "InvalidAct") == "The act destroy has no expiresIn."
    refused(await own.post(path, {"act": "destroy"}), 400, "InvalidAct")
    for preview in (False, True):
        refused(
            await own.post(path, {"act": "run", "workflow": "", "ids": made, "preview": preview}), 400, "InvalidAct"
        )
        for version in (-1, 2**31):
            body = {"act": "reconfigure", "version": version, "ids": made, "preview": preview}
            refused(await own.post(path, body), 400, "InvalidAct")
    refused(await own.post(path, {"act": "destroy", "ids": ["00" * 12]}), 400, "UnknownId")
    refused(await own.post(path, {"act": "destroy", "select": {"lables": "a=b"}}), 400)
    refused(await own.post(path, {"act": "destroy", "select": {"name": "nobody has this name"}}), 400, "NothingChosen")
    refused(await own.post(path, {"act": "explode", "ids": made}), 400)
    refused(await own.post(path, {"act": "destroy", "ids": made, "stopAfterFailures": 10**12}), 400)
    refused(await own.post(path, {"act": "destroy", "select": {"name": "a\0b"}}), 400)
    for select in ({"labels": ""}, {"labels": "team notin ()"}, {"labels": "team!="}, {"namePart": ""}, {"q": " "},
                   {"name": ""}, {"status": ""}, {"owner": ""}):  # fmt: skip
        for act in ({"act": "destroy"}, {"act": "label", "labels": {"a": "1"}, "preview": True}):
            refused(await own.post(path, {**act, "select": select}), 400, "InvalidFilter")


async def test_labels_that_change_at_the_same_time_are_kept(own: Api) -> None:
    _, [instance] = await family(own, PAUSING, 1)
    change = "UPDATE instances SET labels = labels || %s::jsonb WHERE id = %s"
    async with await psycopg.AsyncConnection.connect(own.database.url) as other:
        await other.execute(change, ['{"first": "1"}', instance])
        begun = await begin(own, act="label", labels={"second": "2"}, ids=[instance])
        await until_locked(own.database.url)
    assert (await ended(own, begun["id"]))["counts"]["succeeded"] == 1
    assert (await own.document(instance))["labels"] == {"first": "1", "second": "2"}
    async with await psycopg.AsyncConnection.connect(own.database.url) as other:
        await other.execute(change, ['{"third": "3"}', instance])
        put = asyncio.create_task(own.put(f"instances/{instance}/labels", {"all": "new"}))
        await until_locked(own.database.url)
    accepted(await put)
    assert (await own.document(instance))["labels"] == {"all": "new"}
    rows = accepted(await own.get(f"organizations/{own.organization}/audit", action="put_instance_labels"))
    assert {"first": "1", "second": "2", "third": "3"} in [each["before"] for each in rows], rows


async def test_a_token_whose_scope_edits_nothing_can_not_control_what_its_owner_began(own: Api) -> None:
    _, [instance] = await family(own, PAUSING, 1)
    tokens = f"organizations/{own.organization}/accessTokens"

    async def token(*scope: str) -> Caller:
        created = accepted(await own.post(tokens, {"name": "program", "scope": list(scope)}))
        return own.caller(f"Bearer {created['token']}")

    reader, runner = await token("Read: [/*]"), await token("Read: [/*]", "RunInstanceWorkflow: [/*]")
    pausing: dict[str, Any] = {"act": "run", "workflow": "pause", "parameters": {"seconds": "600"}, "ids": [instance]}
    by_owner, by_runner = await begin(own, **pausing), await begin(own, runner, **pausing)
    for begun, may in ((by_owner, await token("EditInstance: [/*]")), (by_runner, runner)):
        for control in ("pause", "continue", "cancel"):
            refused(await reader.post(f"bulk/{begun['id']}/{control}"), 403, "NotAllowed")
            accepted(await may.post(f"bulk/{begun['id']}/{control}"))
    refused(await runner.post(f"bulk/{by_owner['id']}/cancel"), 403, "NotAllowed")


async def test_an_unknown_workflow_or_version_is_refused_at_once(own: Api) -> None:
    path = f"organizations/{own.organization}/bulk"
    _, made = await family(own, PAUSING, 2)
    for preview in (True, False):
        body: dict[str, Any] = {"act": "run", "workflow": "fly", "ids": made, "preview": preview}
        told = refused(await own.post(path, body), 400, "UnknownWorkflow")
        assert "Available: launch, pause, destroy." in told
        body = {"act": "reconfigure", "version": 77, "ids": made, "preview": preview}
        assert "no manifest version 77" in refused(await own.post(path, body), 400, "InvalidManifestVersion")
    _, others = await family(own, PAUSING + "fly: {steps: []}\n", 1)
    shown = await begin(own, act="run", workflow="fly", ids=[*made, *others], preview=True)
    assert [each["status"] for each in shown["instances"]] == ["Refused", "Refused", "Waiting"]
    begun = await begin(own, act="run", workflow="fly", ids=[*made, *others])
    assert (await ended(own, begun["id"]))["counts"]["refused"] == 2
    assert (await outcomes(own, begun["id"]))[others[0]] == "Succeeded"


@pytest.mark.slow
async def test_a_provider_is_destroyed_after_its_users(own: Api) -> None:
    provider, where = await offered(own)
    user = await launched(own, NEEDY, where)
    assert user["status"] == "Running", user["errorMessage"]
    alone = await begin(own, act="destroy", ids=[provider])
    assert (await ended(own, alone["id"]))["counts"]["refused"] == 1
    begun = await begin(own, act="destroy", ids=[provider, user["id"]], maxParallel=1)
    document = await ended(own, begun["id"])
    assert (document["status"], document["counts"]["succeeded"]) == ("Finished", 2)
    rows = {each["instanceId"]: each for each in accepted(await own.get(f"bulk/{begun['id']}/instances"))}
    assert rows[user["id"]]["finishedAt"] <= rows[provider]["startedAt"]


async def test_an_instance_that_stays_busy_is_given_up(own: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BULK_BUSY_S", 0.2)
    monkeypatch.setattr(limits, "BULK_BUSY_PAUSE_S", 0.05)
    _, made = await family(own, PAUSING, 1)
    accepted(await own.post(f"instances/{made[0]}/pause", {}))
    begun = await begin(own, act="run", workflow="pause", ids=made)
    assert (await ended(own, begun["id"]))["counts"]["refused"] == 1
    [row] = accepted(await own.get(f"bulk/{begun['id']}/instances"))
    assert "runs job" in row["message"]
    await cancel_all(own, made)


async def test_a_run_that_fails_does_not_keep_others_from_their_turns(
    own: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, made = await family(own, PAUSING, 2)
    real, broken = bulk_store.take, ""

    async def take(connection: Any, *, bulk_id: str) -> Any:
        if bulk_id == broken:
            raise Unavailable("The row of this run is locked.")
        return await real(connection, bulk_id=bulk_id)

    monkeypatch.setattr(bulk_store, "take", take)
    broken = (await begin(own, act="label", ids=made[:1], labels={"a": "1"}))["id"]
    if (await own.get(f"bulk/{broken}")).json()["finishedAt"] is not None:
        pytest.skip("The first run had its turn before it could fail.")
    second = await begin(own, act="label", ids=made[1:], labels={"a": "1"})
    assert (await ended(own, second["id"]))["counts"]["succeeded"] == 1
    stuck, broken = broken, ""
    assert (await ended(own, stuck))["counts"]["succeeded"] == 1


PASSWORD, NOTE = "hunter2 of a bulk run", "a note of a bulk run"
USING = f"{PAUSING}use:\n  parameters: [{{password: {{default: none}}}}, {{note: {{default: none}}}}]\n  steps: []\n"


async def begin_behind_another_job(api: Api) -> tuple[str, str]:
    """Begin a bulk run with secrets on an instance that is busy; return both."""
    _, [instance] = await family(api, USING, 1)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "600"}))
    given = {"password": PASSWORD, "note": NOTE}
    begun = await begin(api, act="run", workflow="use", parameters=given, ids=[instance])
    return begun["id"], instance


async def assert_used(api: Api, bulk: str, instance: str) -> None:
    """Let the instance have its turn, and check that it got the parameters."""
    [job] = [each for each in (await api.document(instance))["workflowHistory"] if each["status"] == "Executing"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    assert (await ended(api, bulk))["counts"]["succeeded"] == 1
    [row] = accepted(await api.get(f"bulk/{bulk}/instances"))
    detail = accepted(await api.get(f"instances/{instance}/jobs/{row['jobId']}"))
    assert detail["parameters"] == {"password": "********", "note": NOTE}


@pytest.mark.slow
async def test_no_dump_of_the_database_shows_its_parameters(own: Api) -> None:
    bulk, instance = await begin_behind_another_job(own)
    stored = await everything_stored(own)
    assert PASSWORD not in stored
    assert NOTE not in stored
    await assert_used(own, bulk, instance)
    # The job itself has parameters in the clear, as any other job (docs/howto/secrets.md).
    stored = await everything_stored(own, but={"jobs"})
    assert PASSWORD not in stored
    assert NOTE not in stored
    for path in (f"bulk/{bulk}", f"organizations/{own.organization}/bulk", f"organizations/{own.organization}/audit"):
        assert PASSWORD not in (await own.get(path)).text


@pytest.mark.slow
@pytest.mark.parametrize("sealed_by", ["a start", "its turn"])
async def test_what_an_older_server_began_is_sealed_and_continues(own: Api, sealed_by: str) -> None:
    bulk, instance = await begin_behind_another_job(own)
    act = {"act": "run", "workflow": "use", "parameters": {"password": PASSWORD, "note": NOTE}}
    async with own.database.transaction() as connection:
        await connection.execute(
            "UPDATE bulk_runs SET act = %s, sealed_act = NULL, status = 'Paused' WHERE id = %s", [json.dumps(act), bulk]
        )
        await connection.execute("UPDATE bulk_instances SET not_before = DEFAULT WHERE bulk_id = %s", [bulk])
    if sealed_by == "a start":
        await seal_acts(own.database, read_secret_key(own.settings.key_file()))
    accepted(await own.post(f"bulk/{bulk}/continue"))
    await eventually(lambda: everything_stored(own, but={"jobs"}), lambda found: PASSWORD not in found)
    await assert_used(own, bulk, instance)


@pytest.mark.slow
async def test_an_older_server_gives_no_turns_without_the_parameters(own: Api) -> None:
    bulk, instance = await begin_behind_another_job(own)
    older = "SELECT count(*) FROM bulk_instances WHERE bulk_id = %s AND status = 'Waiting' AND not_before <= now()"
    # a newer one has tried
    await eventually(lambda: own.read(f"bulk/{bulk}/instances"), lambda found: found[0]["message"] is not None)
    async with own.database.connection() as connection:
        assert await (await connection.execute(older, [bulk])).fetchone() == (0,)
    await assert_used(own, bulk, instance)


async def test_runs_that_begin_at_the_same_time_count_each_other(own: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = await family(own, PAUSING, 1)
    accepted(await own.post(f"instances/{made[0]}/pause", {}))  # so that none of them ends
    listed = accepted(await own.get(f"organizations/{own.organization}/bulk"))
    under_way = sum(each["finishedAt"] is None for each in listed)
    monkeypatch.setattr(limits, "BULKS_OPEN", under_way + 2)
    body = {"act": "run", "workflow": "pause", "ids": made}
    answers = await asyncio.gather(
        *(own.post(f"organizations/{own.organization}/bulk", body) for _ in range(6)),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
    for answer in answers:
        if answer.status_code == 200:
            accepted(await own.post(f"bulk/{answer.json()['id']}/cancel"))
    await cancel_all(own, made)


async def cancel_all(api: Api, instances: list[str]) -> None:
    for instance in instances:
        newest = accepted(await api.get(f"instances/{instance}/jobs?limit=1"))[0]["id"]
        accepted(await api.delete(f"instances/{instance}/jobs/{newest}"))
        await api.settled(instance)


@pytest.mark.slow  # 200 instances
async def test_20_failures_among_200_are_found_by_one_call_and_resumed_by_one(own: Api) -> None:
    application = await own.application(FRAGILE_LAUNCH)
    launches = []
    for number in range(200):
        body = {"parameters": {"rest": "whenever" if number % 10 == 3 else "0"}, "labels": {"case": "many"}}
        launches.append(own.launch(application, destroyInterval=-1, **body))
    made = [await each for each in launches]
    for instance in made:
        await own.settled(instance, timeout_s=120)
    answer = await own.get(
        f"organizations/{own.organization}/instances", lastStatus="Failed", labels="case=many", limit=200, count="true"
    )
    failed = [each["id"] for each in accepted(answer)]
    assert (len(failed), answer.headers["launchbay-total-count"]) == (20, "20")
    assert set(failed) == {instance for number, instance in enumerate(made) if number % 10 == 3}
    select = {"lastStatus": "Failed", "labels": "case=many"}
    begun = await begin(own, act="resume", select=select, parameters={"rest": "0"})
    document = await ended(own, begun["id"], timeout_s=120)
    assert (document["status"], document["counts"]["succeeded"]) == ("Finished", 20)
    again = await own.get(f"organizations/{own.organization}/instances", lastStatus="Failed", labels="case=many")
    assert accepted(again) == []


FRAGILE_LAUNCH = """
launch:
  parameters: [{rest: {default: "0"}}]
  steps: [{rest: {action: wait, parameters: {delay: "{$.rest}"}}}]
"""
