"""Dry-run machines through the API: switched on by a setting or a policy, shown in the status, told in the log."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launchbay.errors import CannotStart
from tests.support.databases import Databases
from tests.support.service import Api, accepted, running_api

MACHINES = """
    launch:
      steps:
        - web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}, output: {ips: ips}}
        - ask:
            action: execrun
            precedingPhases: [web]
            parameters: {roles: [web], command: [hostname]}
            output: {names: stdout}
      return:
        ips: {value: "{$.ips}"}
        names: {value: "{$.names[*]}"}
    more:
      steps:
        - web: {action: provisionVms, parameters: {roleName: web, quantity: 1}, output: {ips: ips}}
      return: {ips: {value: "{$.ips}"}}
"""
WITHOUT = "launch: {steps: []}"


@pytest.fixture(scope="module")
async def dry_api(databases: Databases) -> AsyncIterator[Api]:
    """A service whose machines are dry-run ones."""
    url = databases.create()
    async with running_api(url, machines="dry-run") as api:
        yield api
    databases.drop(url)


async def machines_of(api: Api, instance: str) -> list[str]:
    """The addresses in the instance's state."""
    async with api.database.connection() as connection:
        statement = "SELECT state FROM instances WHERE id = %s"
        [state] = await (await connection.execute(statement, [instance])).fetchone()  # type: ignore[misc]  # it is there
    found: dict[str, dict[str, Any]] = msgspec.json.decode(state)
    return [machine["publicIp"] for component in found.values() for machine in component["machines"]]


async def lines_of(api: Api, instance: str) -> list[str]:
    async with api.database.connection() as connection:
        statement = "SELECT text FROM log_lines WHERE instance_id = %s ORDER BY id"
        return [text for [text] in await (await connection.execute(statement, [instance])).fetchall()]


async def test_the_setting_makes_every_instance_a_dry_run(dry_api: Api) -> None:
    instance = await dry_api.running(MACHINES)
    document = await dry_api.document(instance)
    assert document["dryRun"] is True
    ips = document["returnValues"]["ips"]
    assert len(set(ips)) == 2
    assert all(ip.startswith("192.0.2.") for ip in ips)
    assert all(name.startswith("dry-run-") for name in document["returnValues"]["names"])
    assert await machines_of(dry_api, instance) == ips
    document = await dry_api.run(instance, "more")
    assert document["returnValues"]["ips"][:2] == ips
    assert len(await machines_of(dry_api, instance)) == 3
    assert (await dry_api.run(instance, "destroy"))["status"] == "Destroyed"
    assert await machines_of(dry_api, instance) == []


async def test_a_failure_by_a_made_up_answer_says_where_it_comes_from_and_how_to_set_it(dry_api: Api) -> None:
    sized = """
    launch:
      steps:
        - web: {action: provisionVms, parameters: {roleName: web}}
        - ask:
            action: execrun
            precedingPhases: [web]
            parameters: {roles: [web], command: [size]}
            output: {printed: stdout}
        - grow:
            action: provisionVms
            precedingPhases: [ask]
            parameters: {roleName: more, targetQuantity: "{$.printed[*][0]}"}
    """
    instance = await dry_api.launch(await dry_api.application(sized))
    document = await dry_api.until(instance, "Failed")
    error = document["errorMessage"]
    assert re.search(r" The value 'dry-run-[0-9a-f]{8}' is what a command prints in a dry run\.", error), error
    assert error.endswith("Set its answer with the policy dry-run.execrun.stdout or the setting dry_run_answers.")


async def test_a_policy_makes_the_instances_of_one_environment_dry_runs(api: Api) -> None:
    application = await api.application(MACHINES)
    failed = await api.settled(await api.launch(application))
    assert failed["status"] == "Failed"
    assert "'provisionVms' in step " in failed["errorMessage"]
    assert "needs machines, but no machine provider is set." in failed["errorMessage"]
    assert "dryRun" not in failed
    environment = await api.offer()
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {machines.provider: dry-run}"))
    document = await api.settled(await api.launch(application, environmentId=environment))
    assert (document["status"], document["dryRun"]) == ("Running", True)


async def test_lists_and_jobs_show_no_more_than_they_did(dry_api: Api) -> None:
    application = await dry_api.application(WITHOUT)
    instance = await dry_api.launch(application)
    await dry_api.settled(instance)
    [listed] = accepted(await dry_api.get(f"applications/{application}/instances"))
    assert "dryRun" not in listed
    assert "dryRun" not in (await dry_api.document(instance))["workflowHistory"][0]


async def test_the_log_says_what_would_have_been_done(dry_api: Api) -> None:
    instance = await dry_api.running(MACHINES)
    told = [line for line in await lines_of(dry_api, instance) if line.startswith("dry run: ")]
    assert len(told) == 3
    assert "provisionVms 2 machines for the role 'web'" in told[0]
    assert "execrun on 192.0.2." in told[1]
    assert "hostname" in told[1]


async def test_a_file_of_answers_is_read_at_the_start(databases: Databases, tmp_path: Path) -> None:
    path = tmp_path / "answers.yml"
    path.write_text("answers: [{step: ask, give: {stdout: bay}}]")
    url = databases.create()
    async with running_api(url, machines="dry-run", dry_run_answers=str(path)) as api:
        document = await api.document(await api.running(MACHINES))
        assert document["returnValues"]["names"] == ["bay", "bay"]
    databases.drop(url)


async def test_a_provider_that_is_not_there_ends_the_start(databases: Databases) -> None:
    url = databases.create()
    with pytest.raises(CannotStart, match="LAUNCHBAY_MACHINES is 'moon', but this installation has"):
        async with running_api(url, machines="moon"):
            pass
    databases.drop(url)
