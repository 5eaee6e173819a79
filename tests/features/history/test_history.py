"""The past of instances: `?at=`, the timeline, and differences (decision 0113)."""

import itertools
import time
from typing import Any

import pytest

from launchbay.clock import to_ms
from tests.support.databases import Databases
from tests.support.manifests import FAILING_LATE, WORKFLOWS
from tests.support.service import UNKNOWN, Api, accepted, refused, running_api


def now_ms() -> int:
    """Return a time after all that was answered, and before all that is asked from now on."""
    time.sleep(0.002)
    moment = int(time.time() * 1000)
    time.sleep(0.002)
    return moment


async def at(api: Api, instance: str, moment: int) -> Any:
    return accepted(await api.get(f"instances/{instance}", at=moment))


async def pages(api: Api, instance: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    path = f"instances/{instance}/timeline?limit={limit}"
    while path:
        answer = await api.client.get(path)
        found += accepted(answer)
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    return found


async def test_an_instance_is_shown_as_it_was(api: Api) -> None:
    application = await api.application(WORKFLOWS)
    instance = await api.launch(application, parameters={"label": "x"})
    created = accepted(await api.get(f"instances/{instance}"))["createdAt"]
    running = await api.settled(instance)
    first = now_ms()
    accepted(await api.put(f"instances/{instance}/userData", {"ticket": "OPS-1"}))
    accepted(await api.put(f"instances/{instance}/labels", {"team": "web"}))
    second = now_ms()
    accepted(await api.post(f"instances/{instance}/destroy"))
    destroyed = await api.settled(instance)
    assert destroyed["status"] == "Destroyed"

    then = await at(api, instance, first)
    assert {name: then[name] for name in running} == running
    assert then["at"] == first
    assert then["recordedSince"] <= created
    assert set(then["environment"]) == {"policies", "markers", "properties"}
    assert then["machines"] == {}
    later = await at(api, instance, second)
    assert (later["userData"], later["labels"]) == ({"ticket": "OPS-1"}, {"team": "web"})
    assert later["workflowHistory"] == running["workflowHistory"]
    present = await at(api, instance, now_ms())
    assert {name: present[name] for name in destroyed} == destroyed
    early = await at(api, instance, created)
    assert early["status"] in {"Requested", "Executing"}
    assert early["returnValues"] == {}


async def test_a_job_under_way_has_its_steps_as_they_were(api: Api) -> None:
    manifest = """
    launch:
      steps:
        - quick: { action: wait, parameters: { delay: "0" } }
        - slow: { action: wait, parameters: { delay: "1" } }
    destroy: { steps: [] }
    """
    instance = await api.launch(await api.application(manifest))
    document = accepted(await api.get(f"instances/{instance}"))
    while (
        document["workflowHistory"][0]["steps"][-1:] != [{"name": "slow", "status": "Executing", "percentComplete": 0}]
        and document["status"] != "Running"
    ):
        document = accepted(await api.get(f"instances/{instance}"))
    middle = now_ms()
    ended = await api.settled(instance)
    assert ended["status"] == "Running"
    then = await at(api, instance, middle)
    assert then["status"] == "Executing"
    assert then["workflow"]["status"] == "Executing"
    assert [(step["name"], step["status"]) for step in then["workflow"]["steps"]] == [
        ("quick", "Succeeded"),
        ("slow", "Executing"),
    ]
    assert (then["workflowHistory"][0]["finishedAt"], then["workflowHistory"][0]["errorMessage"]) == (None, None)


async def test_times_without_a_record_are_refused_and_say_since_when_there_is_one(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    created = accepted(await api.get(f"instances/{instance}"))["createdAt"]
    assert str(created) in refused(await api.get(f"instances/{instance}", at=created - 1000), 400, "NotRecorded")
    ahead = refused(await api.get(f"instances/{instance}", at=to_ms(api.clock.now()) + 60_000), 400, "NotRecorded")
    assert "Ask for a time until then." in ahead
    refused(await api.get(f"instances/{UNKNOWN}", at=created), 404)
    outsider = await api.member("CreateApplication: [/*]")
    refused(await outsider.get(f"instances/{instance}", at=created), 403)
    refused(await outsider.get(f"instances/{instance}/timeline"), 403)
    refused(await outsider.get(f"instances/{instance}/diff", to=created), 403)


async def test_the_timeline_has_every_change_in_order_whatever_the_page(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    accepted(await api.put(f"instances/{instance}/userData", {"a": 1, "b": 2}))
    accepted(await api.put(f"instances/{instance}/userData", {"a": 1, "b": 3}))
    entries = await pages(api, instance, 500)
    assert await pages(api, instance, 1) == entries
    assert entries[-1]["kind"] == "created"
    assert [entry["id"] for entry in entries] == sorted((entry["id"] for entry in entries), reverse=True)
    statuses = [
        (change["from"], change["to"])
        for entry in reversed(entries)
        for change in entry["changes"]
        if change["field"] == "status"
    ]
    assert statuses[0][0] is None
    assert all(before[1] == after[0] for before, after in itertools.pairwise(statuses))
    assert statuses[-1][1] == "Running"
    launched = next(e for e in entries if any(c["field"] == "status" and c["to"] == "Running" for c in e["changes"]))
    assert launched["workflow"] == "launch"
    assert entries[0]["changes"] == [{"field": "userData", "from": None, "to": None, "names": ["b"]}]
    assert entries[1]["changes"] == [{"field": "userData", "from": None, "to": None, "names": ["a", "b"]}]
    assert entries[0]["jobId"] is None


async def test_two_times_and_two_instances_are_compared(api: Api) -> None:
    application = await api.application(WORKFLOWS)
    instance = await api.launch(application, parameters={"label": "x"})
    await api.settled(instance)
    before = now_ms()
    accepted(await api.put(f"instances/{instance}/userData", {"ticket": "OPS-1"}))
    diff = accepted(await api.client.get(f"instances/{instance}/diff", params={"from": before}))
    assert diff["from"] == {"instanceId": instance, "at": before}
    assert diff["to"] == {"instanceId": instance, "at": None}
    assert diff["differences"] == [{"path": "userData.ticket", "change": "added", "from": None, "to": "OPS-1"}]
    back = accepted(await api.client.get(f"instances/{instance}/diff", params={"to": before}))
    assert [(each["path"], each["change"]) for each in back["differences"]] == [("userData.ticket", "removed")]
    other = await api.launch(application, parameters={"label": "y"})
    await api.settled(other)
    between = accepted(await api.get(f"instances/{instance}/diff", otherId=other))
    assert {"path": "parameters.label", "change": "changed", "from": "x", "to": "y"} in between["differences"]
    assert accepted(await api.get(f"instances/{instance}/diff"))["differences"] == []
    refused(await api.get(f"instances/{instance}/diff", otherId=UNKNOWN), 404)
    stranger, _, _ = await api.outsider()
    refused(await stranger.get(f"instances/{instance}/diff", otherId=other), 403)


_TWIN = """
application:
  interfaces:
    input: {note: bind(vm#input.note)}
    result: {me: bind(vm#result.me)}
    actions: {more: bind(vm#actions.more)}
  components:
    vm:
      type: workflow.Instance
      interfaces:
        input: {note: configuration(string)}
        result: {me: publish-signal(string)}
        actions: {more: receive-command()}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - who: {action: getInstanceContext, output: {it: instanceId}}
              - make: {action: provisionVms, precedingPhases: [who], parameters: {roleName: web, targetQuantity: 2}}
            return: {me: {value: "http://{$.it}.example"}}
          more: {steps: [{make: {action: provisionVms, parameters: {roleName: web, quantity: 1}}}]}
    inner: {type: reference.Submodule, configuration: {__locator.application-id: INNER}}
"""


async def test_twins_differ_in_nothing_but_what_is_their_own(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, machines="dry-run") as api:
        inner = await api.application("launch: {steps: []}")
        application = await api.application(_TWIN.replace("INNER", inner))
        one, other, third = [
            await api.launch(application, parameters={"input.note": note}, labels={"stage": "test"})
            for note in ("a", "a", "b")
        ]
        for instance in (one, other, third):
            await api.settled(instance)
        found = accepted(await api.get(f"instances/{one}/diff", otherId=other))
        assert found["differences"] == []
        assert {each["path"] for each in found["own"]} == {
            *("name", "destroyAt", "returnValues.result.me", "components.inner"),
            *("machines.vm.web[0]", "machines.vm.web[1]"),
        }
        # What they were given differs, whatever is their own.
        [note] = accepted(await api.get(f"instances/{one}/diff", otherId=third))["differences"]
        assert (note["path"], note["from"], note["to"]) == ("parameters.input.note", "a", "b")

        # A version that means the same is no other one; a changed one is.
        await api.put_yaml(f"applications/{application}/manifest", f"# why\n{_TWIN.replace('INNER', inner)}")
        renewed = await api.launch(application, parameters={"input.note": "a"}, labels={"stage": "test"})
        await api.put_yaml(f"applications/{inner}/manifest", "launch: {steps: []}\nmore: {steps: []}")
        later = await api.launch(application, parameters={"input.note": "a"}, labels={"stage": "test"})
        for instance in (renewed, later):
            await api.settled(instance)
        found = accepted(await api.get(f"instances/{one}/diff", otherId=renewed))
        assert (found["differences"], "version" in {each["path"] for each in found["own"]}) == ([], True)
        # The submodule of a later twin has another version, and one has more machines.
        [child] = accepted(await api.get(f"instances/{renewed}/diff", otherId=later))["differences"]
        assert (child["path"], child["to"]["applicationId"]) == ("components.inner", inner)
        assert child["to"]["version"] == child["from"]["version"] + 1
        await api.run(other, "actions.more")
        await api.settled(other)
        [machines] = accepted(await api.get(f"instances/{one}/diff", otherId=other))["differences"]
        assert (machines["path"], machines["from"], machines["to"]) == ("machines.vm.web", 2, 3)
    databases.drop(url)


async def test_twins_that_failed_with_other_words_differ_in_nothing(api: Api) -> None:
    """An error text names the instance, and times."""
    application = await api.application(FAILING_LATE)
    one, other = [await api.launch(application) for _ in range(2)]
    for instance in (one, other):
        await api.settled(instance)
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET error_message = 'at 12:00' WHERE id = %s", [one])
    found = accepted(await api.get(f"instances/{one}/diff", otherId=other))
    assert found["differences"] == []
    assert "errorMessage" in {each["path"] for each in found["own"]}


@pytest.mark.parametrize("name", ["timeline", "diff?to=1"])
async def test_who_may_not_read_the_instance_sees_none_of_its_past(api: Api, name: str) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    stranger, _, _ = await api.outsider()
    refused(await stranger.client.get(f"instances/{instance}/{name}"), 403)


async def test_machines_are_those_of_the_time(databases: Databases) -> None:
    manifest = """
    launch: {steps: [{make: {action: provisionVms, parameters: {roleName: web, targetQuantity: 1}}}]}
    more: {steps: [{make: {action: provisionVms, parameters: {roleName: web, quantity: 1}}}]}
    """
    url = databases.create()
    async with running_api(url, machines="dry-run") as api:
        instance = await api.running(manifest)
        before = now_ms()
        await api.run(instance, "more")
        await api.settled(instance)
        after = now_ms()
        [one] = (await at(api, instance, before))["machines"].values()
        [two] = (await at(api, instance, after))["machines"].values()
        assert (len(one), len(two)) == (1, 2)
        assert two[0] == one[0]
        [entry] = [
            entry
            for entry in await pages(api, instance, 500)
            if entry["workflow"] == "more" and any(change["field"] == "machines" for change in entry["changes"])
        ]
        assert entry["jobNumber"] == 2
        diff = accepted(await api.client.get(f"instances/{instance}/diff", params={"from": before, "to": after}))
        [added] = [each for each in diff["differences"] if each["path"].startswith("machines.")]
        assert (added["change"], added["from"]) == ("added", None)
    databases.drop(url)


async def test_values_from_a_vault_are_covered_in_the_record_itself(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.running(WORKFLOWS, parameters={"label": "x"})
        sealed = '{"greeting": "launchbay:sealed:c2VjcmV0;"}'
        async with api.database.connection() as connection:
            for values in (sealed, sealed.replace("c2VjcmV0", "YW5vdGhlcg"), '{"greeting": "later"}'):
                await connection.execute("UPDATE instances SET return_values = %s WHERE id = %s", [values, instance])
            rows = await (
                await connection.execute(
                    "SELECT former FROM instance_history WHERE instance_id = %s ORDER BY id DESC LIMIT 2", [instance]
                )
            ).fetchall()
        assert "********" in rows[0][0]
        assert "sealed" not in str(rows)
        assert "sealed" not in rows[1][0], "sealing with another key is no change"
    databases.drop(url)


async def test_a_deleted_instance_leaves_no_record(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.running(WORKFLOWS, parameters={"label": "x"})
        accepted(await api.delete(f"instances/{instance}?force=1"))
        await api.gone(instance)
        async with api.database.connection() as connection:
            row = await (await connection.execute("SELECT count(*) FROM instance_history")).fetchone()
        assert row == (0,)
    databases.drop(url)
