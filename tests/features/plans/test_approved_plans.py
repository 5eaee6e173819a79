"""Change sets with plans: approvals cover what steps do, and steps do exactly that or stop."""

from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from launchbay import limits
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu, tofu_manifest
from tests.support.service import Api, Caller, accepted, fresh_name, refused, running_api

pytestmark = [needs_tofu, pytest.mark.slow]
DESTROY = "destroy:\n  steps:\n    - down: {action: opentofu, parameters: {operation: destroy, name: shop}}\n"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
async def lab(api: Api) -> str:
    made = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("lab")})
    return str(accepted(made)["id"])


@pytest.fixture(scope="module")
async def approver(api: Api) -> Caller:
    return await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")


def shop(file: Path, more: str = "") -> str:
    """Return a manifest that makes the file, changes it with `grow`, and destroys it."""
    launch = tofu_manifest(file)
    return launch + launch.replace("launch:", "grow:").replace("size: 1", "size: 2") + more


async def begun(api: Api, environment: str, **body: Any) -> Any:
    """Make a change set with plans, which somebody else has to approve."""
    policy = f"environments/{environment}/changePolicy"
    accepted(await api.put(policy, {"approvals": 1, "roleId": None, "plansBeforeApproval": True}))
    found = accepted(await api.post(f"organizations/{api.organization}/change-sets", {"plan": True, **body}))
    accepted(await api.put(policy, {"approvals": 0, "roleId": None}))  # the tests act without change sets too
    return found


async def made(api: Api, environment: str, **body: Any) -> Any:
    """Make such a change set, and return it when its plans are made."""
    return await planned(api, await begun(api, environment, **body))


async def planned(api: Api, found: Any) -> Any:
    found = await eventually(
        lambda: api.read(f"change-sets/{found['id']}"),
        lambda found: not any(each["effects"]["status"] in {"Waiting", "Planning"} for each in found["plan"]),
        within_s=60,
    )
    return found


async def applied(api: Api, change_set: str) -> Any:
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    return await eventually(
        lambda: api.read(f"change-sets/{change_set}"), lambda found: found["finishedAt"] is not None, within_s=60
    )


async def kept(api: Api, found: Any) -> int:
    """Return how many artifacts the plans of a change set have."""
    statement = "SELECT count(*) FROM plan_artifacts JOIN plans ON plans.id = plan_id WHERE change_set_id = %s"
    async with api.database.connection() as connection:
        [[number]] = await (await connection.execute(statement, [found["id"]])).fetchall()
    return int(number)


async def test_artifacts_have_a_limit_and_go_with_a_rejection(
    api: Api, lab: str, approver: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = await api.application(shop(tmp_path / "made"))
    found = await made(api, lab, act="launch", applicationId=application, launch={"environmentId": lab})
    assert await kept(api, found) == 1
    monkeypatch.setattr(limits, "PLANS_ARTIFACT_BYTES", 100)
    refused_one = await made(api, lab, act="launch", applicationId=application, launch={"environmentId": lab})
    assert "keep more than 100 bytes" in refused_one["plan"][0]["effects"]["problem"]

    accepted(await approver.post(f"change-sets/{found['id']}/reject"))

    assert await kept(api, found) == 0
    shown = accepted(await api.get(f"change-sets/{found['id']}"))
    assert shown["plan"][0]["effects"]["counts"]["create"] == 1


async def test_a_launch_does_what_was_approved(api: Api, lab: str, approver: Caller, tmp_path: Path) -> None:
    file = tmp_path / "made"
    application = await api.application(shop(file))

    found = await made(api, lab, act="launch", applicationId=application, launch={"environmentId": lab})

    assert found["plan"][0]["effects"]["counts"] == {"delete": 0, "create": 1, "change": 2, "run": 0, "unknown": 0}
    accepted(await approver.post(f"change-sets/{found['id']}/approve"))
    assert not file.exists()
    assert await kept(api, found) == 1
    assert (await applied(api, found["id"]))["status"] == "Succeeded"
    assert await kept(api, found) == 0, "the job needs no artifact anymore"
    assert file.read_text() == "1\n"
    entries = (await api.get(f"organizations/{api.organization}/audit")).text
    assert found["plan"][0]["effects"]["digest"] in entries


@pytest.mark.parametrize("more", ["", DESTROY], ids=["teardown", "step"])
async def test_a_deletion_needs_the_approval_to_say_so_and_stops_if_the_world_has_changed(
    api: Api, lab: str, approver: Caller, tmp_path: Path, more: str
) -> None:
    file = tmp_path / "made"
    instance = await api.running(shop(file, more), environmentId=lab)
    found = await made(api, lab, act="destroy", ids=[instance])
    [deleted] = found["plan"][0]["effects"]["deletes"]  # once, whatever deletes it
    assert deleted == "terraform_data.file", "each resource, also without a step that destroys it"
    assert found["plan"][0]["effects"]["counts"]["delete"] == 1
    approve = f"change-sets/{found['id']}/approve"

    told = refused(await approver.post(approve), 409, "DeletionsNotAllowed")
    assert deleted in told
    refused(await approver.post(approve, {"allowDeletes": ["other*"]}), 409, "DeletionsNotAllowed")
    accepted(await approver.post(approve, {"allowDeletes": ["terraform_data.*"]}))
    await api.run(instance, "grow")
    assert file.read_text() == "2\n"

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "Nothing was done" in stopped["plan"][0]["message"]
    assert file.read_text() == "2\n"

    again = await made(api, lab, act="destroy", ids=[instance])
    accepted(await approver.post(f"change-sets/{again['id']}/approve", {"allowDeletes": ["*"]}))
    done = await applied(api, again["id"])
    assert (done["status"], done["plan"][0]["differences"]) == ("Succeeded", [])
    assert not file.exists()


async def test_nothing_is_approved_or_applied_before_its_plans_are_made(
    api: Api, lab: str, approver: Caller, tmp_path: Path
) -> None:
    application = await api.application(shop(tmp_path / "made"))
    found = await begun(api, lab, act="launch", applicationId=application, launch={"environmentId": lab})

    refused(await approver.post(f"change-sets/{found['id']}/approve"), 409, "PlanUnderWay")

    accepted(await approver.post(f"change-sets/{found['id']}/reject"))


async def test_who_applies_without_an_approval_allows_the_deletions(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "made"
    instance = await api.running(shop(file))
    body = {"act": "destroy", "ids": [instance], "plan": True}
    found = await planned(api, accepted(await api.post(f"organizations/{api.organization}/change-sets", body)))
    assert found["status"] == "Ready"

    refused(await api.post(f"change-sets/{found['id']}/apply"), 409, "DeletionsNotAllowed")
    assert file.exists()

    accepted(await api.post(f"change-sets/{found['id']}/apply", {"allowDeletes": ["*"]}))
    await api.settled(instance)
    assert not file.exists()


NOWHERE = '{action: restcall, parameters: {url: "http://127.0.0.1:1/", ignoreFail: true}'


async def test_a_step_after_a_failure_runs_since_the_plan_leaves_it_open(api: Api, lab: str, approver: Caller) -> None:
    fails = NOWHERE.replace("ignoreFail: true", "ignoreFail: false")
    text = f"launch: {{steps: []}}\ndestroy:\n  steps: [{{go: {fails}}}}}]\n  onFailure: [{{report: {fails}}}}}]\n"
    instance = await api.running(text, environmentId=lab)
    found = await made(api, lab, act="destroy", ids=[instance])
    accepted(await approver.post(f"change-sets/{found['id']}/approve"))

    message = (await applied(api, found["id"]))["plan"][0]["message"]

    assert "step 'report' failed" in message
    assert "approved" not in message


async def test_a_step_that_would_not_run_is_refused_when_it_does_also_if_its_failure_is_ignored(
    api: Api, lab: str, approver: Caller
) -> None:
    fails = NOWHERE.replace("ignoreFail: true", "ignoreFail: false")
    text = f"""
        application:
          configuration: {{input.size: 1}}
          interfaces: {{input: {{size: bind(web#input.size)}}}}
          components:
            web:
              type: workflow.Instance
              interfaces: {{input: {{size: configuration(int)}}}}
              configuration:
                configuration.workflows:
                  launch:
                    steps:
                      - first: {fails}, when: $.size == 1}}
                      - never: {NOWHERE}, when: $.size > 1}}
    """
    application = await api.application(text)
    found = await made(api, lab, act="launch", applicationId=application, launch={"environmentId": lab})
    assert [each["path"] for each in found["plan"][0]["effects"]["steps"]] == ["web#launch/first"]
    accepted(await approver.post(f"change-sets/{found['id']}/approve"))
    [stopped] = (await applied(api, found["id"]))["plan"]

    body = {"parameters": {"input.size": 2}}
    accepted(await api.post(f"instances/{stopped['instanceId']}/jobs/{stopped['jobId']}/resume", body))

    resumed = await api.settled(stopped["instanceId"])
    assert resumed["status"] == "Failed"
    assert "step 'never' failed: This step isn't in the plan that was approved" in resumed["errorMessage"]


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "expired"])
async def test_a_resumed_job_is_held_to_the_plan_that_its_change_set_had(
    api: Api, lab: str, approver: Caller, tmp_path: Path, is_deleted: bool
) -> None:
    file = tmp_path / "made"
    instance = await api.running(shop(file, DESTROY), environmentId=lab)
    found = await made(api, lab, act="destroy", ids=[instance])
    accepted(await approver.post(f"change-sets/{found['id']}/approve", {"allowDeletes": ["*"]}))
    await api.run(instance, "grow")
    job = (await applied(api, found["id"]))["plan"][0]["jobId"]
    if is_deleted:
        accepted(await api.delete(f"change-sets/{found['id']}"))
    else:
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE plans SET expires_at = now() - interval '1 day'")
        await api.round_of("plans")

    accepted(await api.post(f"instances/{instance}/jobs/{job}/resume", {}))

    resumed = await api.settled(instance)
    assert ("was deleted" if is_deleted else "the state changed") in resumed["errorMessage"]
    assert file.read_text() == "2\n"


def resizable(file: Path) -> str:
    """Return a manifest whose infrastructure follows a parameter, and which a command can change behind its back."""
    apply = indent(shop(file).partition("steps:\n")[2].partition("grow:")[0], " " * 8)
    step = f"steps:\n{apply}"
    return f"""
application:
  configuration: {{input.size: 1}}
  interfaces: {{input: {{size: bind(infra#input.size)}}, actions: {{tweak: bind(infra#actions.tweak)}}}}
  components:
    infra:
      type: workflow.Instance
      interfaces: {{input: {{size: configuration(int)}}, actions: {{tweak: receive-command()}}}}
      configuration:
        configuration.triggers: {{input.size: update}}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch:
            {step.replace("size: 1", 'size: "{$.size}"')}
          update:
            {step.replace("size: 1", 'size: "{$.size}"')}
          tweak:
            {step.replace("size: 1", "size: 9")}
"""


async def test_what_a_plan_refused_is_in_the_next_plan_of_the_same_configuration(
    api: Api, lab: str, approver: Caller, tmp_path: Path
) -> None:
    file = tmp_path / "made"
    instance = await api.running(resizable(file), environmentId=lab)
    change: dict[str, Any] = {
        "act": "reconfigure",
        "ids": [instance],
        "configuration": {"parameters": {"input.size": 2}},
    }
    found = await made(api, lab, **change)
    accepted(await approver.post(f"change-sets/{found['id']}/approve", {"allowDeletes": ["*"]}))
    await api.run(instance, "actions.tweak")
    stopped = await applied(api, found["id"])
    assert "This isn't what was approved" in stopped["plan"][0]["message"]
    assert file.read_text() == "9\n"
    accepted(await api.post(f"instances/{instance}/jobs/{stopped['plan'][0]['jobId']}/resume", {}))
    assert "This isn't what was approved" in (await api.settled(instance))["errorMessage"]
    await api.run(instance, "actions.tweak")  # what is owed outlasts other workflows
    back = {"parameters": {"input.size": 1}}
    preview = accepted(await api.post(f"instances/{instance}/configuration/preview", back))
    assert preview["workflows"] == ["infra#update"]

    again = await made(api, lab, **change)

    assert again["plan"][0]["effects"]["counts"]["delete"] == 1, again["plan"][0]
    assert [each["name"] for each in again["plan"][0]["workflows"]] == ["infra#update"]
    accepted(await approver.post(f"change-sets/{again['id']}/approve", {"allowDeletes": ["*"]}))
    assert (await applied(api, again["id"]))["status"] == "Succeeded"
    assert file.read_text() == "2\n"
    once_more = await made(api, lab, **change)
    assert once_more["plan"][0]["workflows"] == []
