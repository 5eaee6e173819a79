"""Checks of instances whose infrastructure somebody changed, with the real program."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from launchbay import limits
from launchbay.clock import to_ms
from tests.support.databases import Databases
from tests.support.drift import KEY, boxes, break_state, change_outside, checked, drift_of, open_findings, running_boxes
from tests.support.external_services import needs_tofu
from tests.support.service import Api, accepted, refused, running_api

pytestmark = [needs_tofu, pytest.mark.slow]
BOX = "terraform_data.box"
LATER = """
              - hook:
                  action: restcall
                  precedingPhases: [infra]
                  parameters: { command: "http://127.0.0.1:1/", ignoreFail: true }
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


async def ledger(api: Api, instance: str) -> Any:
    """Return all that a check could change, but its own report."""
    found: dict[str, Any] = {"instance": accepted(await api.get(f"instances/{instance}"))}
    where = {
        **dict.fromkeys(("jobs", "kept_documents", "instance_history", "log_lines", "generations"), "instance_id = %s"),
        "steps": "job_id IN (SELECT id FROM jobs WHERE instance_id = %s)",
        "plans": "%s <> ''",
    }
    async with api.database.connection() as connection:
        for table, condition in where.items():
            statement = f"SELECT {table}::text FROM {table} WHERE {condition} ORDER BY 1"
            found[table] = await (await connection.execute(statement, [instance])).fetchall()
    return found


async def test_a_check_finds_what_somebody_changed_and_changes_nothing(api: Api) -> None:
    instance = await running_boxes(api)
    quiet = await checked(api, instance, baseline=True)
    assert (quiet["status"], quiet["problem"], quiet["findings"]) == ("Checked", None, [])
    await change_outside(api, instance, box=5)
    before = await ledger(api, instance)

    found = await checked(api, instance)

    [finding] = found["findings"]
    assert (finding["state"], finding["kind"], finding["address"]) == ("new", "changed", BOX)
    assert (finding["from"], finding["to"]) == ({"input": 1}, {"input": 5})
    assert (finding["component"], finding["step"]) == ("web", "web#launch/infra")
    assert found["counts"] == {"new": 1, "ignored": 0}
    assert await ledger(api, instance) == before
    listed = accepted(await api.get(f"organizations/{api.organization}/drift"))
    assert [each["counts"] for each in listed if each["id"] == instance] == [{"new": 1, "ignored": 0}]


async def test_an_attribute_that_always_differs_is_no_drift_after_a_baseline(api: Api) -> None:
    instance = await running_boxes(api)

    first = await checked(api, instance)
    assert list(open_findings(first)) == ["terraform_data.clock"], "nobody has said yet that this is as it should be"
    await checked(api, instance, baseline=True)
    later = await checked(api, instance)

    assert open_findings(later) == {}
    await change_outside(api, instance, clock="long ago")
    assert list(open_findings(await checked(api, instance))) == ["terraform_data.clock"]


async def test_a_change_is_followed_by_a_baseline(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance)

    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await api.settled(instance)
    found = await drift_of(api, instance)

    assert found["checks"][0]["baseline"]
    assert BOX not in open_findings(found)
    accepted(await api.post(f"instances/{instance}/launch", {}))
    await api.settled(instance)
    found = await drift_of(api, instance)
    assert open_findings(found) == {}, "a launch has run all that would change what differs"
    assert [each["state"] for each in found["findings"]] == ["gone"]


async def test_what_somebody_changes_between_a_launch_and_its_baseline_is_found(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    async with api.database.transaction() as connection:  # as the trigger at the end of the launch does
        launched = (
            "UPDATE drift_reports SET waiting_since = now() + interval '1 h', learns = 'launch' WHERE instance_id = %s"
        )
        await connection.execute(launched, [instance])
        await connection.execute("UPDATE drift_reports SET lease_until = now() + interval '1 h'")

    await change_outside(api, instance, box=5)

    async with api.database.transaction() as connection:
        await connection.execute("UPDATE drift_reports SET lease_until = NULL")
    found = await drift_of(api, instance)
    assert found["checks"][0]["baseline"]
    assert list(open_findings(found)) == [BOX]


TWO = f"""{boxes()}
    db:
      type: workflow.Instance
      interfaces: {{ input: {{ size: configuration(int) }} }}
      configuration:
        configuration.triggers: {{ input.size: launch }}
        configuration.workflows: {{ launch: {{ steps: [] }} }}
""".replace("size: bind(web#input.size)", "size: bind(web#input.size), depth: bind(db#input.size)").replace(
    "input.size: 1 }", "input.size: 1, input.depth: 1 }", 1
)


async def test_a_change_of_another_component_hides_no_drift_that_no_check_has_found(api: Api) -> None:
    instance = await running_boxes(api, TWO)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box=5)

    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.depth": 2}}))
    await api.settled(instance)
    found = await drift_of(api, instance)

    assert found["checks"][0]["baseline"]
    assert list(open_findings(found)) == [BOX], "and the clock is still known"
    assert list(open_findings(await checked(api, instance))) == [BOX]


async def test_what_a_resumed_change_did_not_run_again_is_not_known(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await api.settled(instance)
    assert open_findings(await drift_of(api, instance)) == {}, "the step has run, so its noise is known"
    async with api.database.transaction() as connection:
        [[plan, job]] = await (
            await connection.execute(
                "SELECT plan, id FROM jobs WHERE instance_id = %s AND name = 'reconfigure'", [instance]
            )
        ).fetchall()
        resumed = msgspec.json.encode({**msgspec.json.decode(plan), "resumes": [job]}).decode()
        await connection.execute("UPDATE jobs SET plan = %s, status = 'Executing' WHERE id = %s", [resumed, job])
        await connection.execute("UPDATE jobs SET status = 'Succeeded' WHERE id = %s", [job])
        [[ran]] = await (
            await connection.execute("SELECT ran FROM drift_reports WHERE instance_id = %s", [instance])
        ).fetchall()
    assert ran == []


async def test_what_is_missing_is_found_and_what_came_back_is_gone(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box=None)

    [missing] = open_findings(await checked(api, instance)).values()

    assert (missing["kind"], missing["address"], missing["to"]) == ("missing", BOX, {})
    assert missing["from"]["input"] == 1


async def test_a_sensitive_value_is_in_no_answer_and_no_table(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, lock="canary-of-somebody")

    found = await checked(api, instance)

    lock = open_findings(found)["terraform_data.lock"]
    assert (lock["from"], lock["to"]) == ({"input": "********"}, {"input": "********"})
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT drift_reports::text FROM drift_reports")).fetchall()
    assert rows
    for canary in (KEY, "canary-of-somebody"):
        assert canary not in str(found)
        assert canary not in str(rows)


async def test_a_finding_is_ignored_with_a_reason_until_a_date(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box=5)
    [finding] = (await checked(api, instance))["findings"]
    path = f"instances/{instance}/drift/findings/{finding['id']}/ignored"
    now = api.clock.now()
    until = to_ms(now + timedelta(days=3))

    refused(await api.put(path, {"reason": " ", "until": until}), 400, "InvalidFinding")
    refused(await api.put(path, {"reason": "Why not.", "until": to_ms(now)}), 400, "InvalidFinding")
    refused(await api.put(path, {"reason": "Why not.", "until": 2**62}), 400, "InvalidFinding")
    refused(await api.put(path.replace(finding["id"], "0" * 24), {"reason": "So.", "until": until}), 404)
    accepted(await api.put(path, {"reason": "The autoscaler does that.", "until": until}))

    found = await checked(api, instance)
    [ignored] = found["findings"]
    assert (ignored["state"], ignored["reason"], ignored["until"]) == ("ignored", "The autoscaler does that.", until)
    assert found["counts"] == {"new": 0, "ignored": 1}
    accepted(await api.delete(path))
    assert (await drift_of(api, instance))["counts"] == {"new": 1, "ignored": 0}
    entries = (await api.get(f"organizations/{api.organization}/audit")).text
    assert "ignore_drift" in entries
    assert "watch_drift" in entries


async def test_a_step_that_cannot_be_planned_is_listed_and_hides_no_finding(api: Api) -> None:
    instance = await api.running(boxes(more=LATER))

    found = await checked(api, instance, baseline=True)

    [unchecked] = found["unchecked"]
    assert unchecked["step"].endswith("#launch/hook")
    assert "this action can't say what it would do" in unchecked["note"]


async def test_a_check_that_fails_says_what_to_do_and_the_last_findings_stay(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box=5)
    good = await checked(api, instance)
    monkeypatch.setattr(limits, "PLAN_S", 0.001)

    failed = await checked(api, instance)

    assert failed["status"] == "Failed"
    assert "takes more than 0.001 s" in failed["problem"]
    assert "shorter timeout" in failed["problem"]
    assert (failed["findings"], failed["checkedAt"]) == (good["findings"], good["checkedAt"])
    assert failed["checks"][0]["problem"] == failed["problem"]


async def test_a_state_that_cannot_be_read_is_a_problem_of_the_check(api: Api) -> None:
    instance = await running_boxes(api)
    await break_state(api, instance)

    failed = await checked(api, instance)

    assert failed["status"] == "Failed"
    assert "#launch/infra can't be planned" in failed["problem"]


async def test_an_instance_whose_last_change_failed_is_not_checked(api: Api) -> None:
    instance = await running_boxes(api)
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET status = 'Failed' WHERE instance_id = %s", [instance])

    failed = await checked(api, instance)

    assert "The last change of the instance failed" in failed["problem"]
    assert "Resume the job" in failed["problem"]


async def test_the_history_has_the_last_checks_only(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRIFT_CHECKS", 2)
    instance = await running_boxes(api)
    for _ in range(3):
        found = await checked(api, instance)

    assert len(found["checks"]) == 2


async def test_who_may_see_the_instance_sees_findings_and_only_who_may_edit_it_checks(api: Api) -> None:
    instance = await running_boxes(api)
    reader = await api.member("Read: [/*]")
    stranger = await api.member()

    refused(await reader.post(f"instances/{instance}/drift/check"), 403)
    accepted(await reader.get(f"instances/{instance}/drift/report"))
    refused(await stranger.get(f"instances/{instance}/drift/report"), 403)
    await checked(api, instance)
    listed = accepted(await reader.get(f"organizations/{api.organization}/drift"))
    assert instance in {each["id"] for each in listed}
    assert accepted(await stranger.get(f"organizations/{api.organization}/drift")) == []
