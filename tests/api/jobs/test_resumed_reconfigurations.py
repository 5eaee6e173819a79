"""A reconfiguration that failed is resumed: what is left of it runs, and nothing else."""

import re

import pytest

from tests.support.applications import Ledger, child_of, job_of, until_step
from tests.support.eventually import eventually
from tests.support.service import Api, accepted

SIZED = """
application:
  configuration: {input.size: 1}
  interfaces:
    input: {size: bind(web#input.size)}
    result: {size: bind(web#result.size)}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int)}
      configuration:
        configuration.triggers: {input.size: resize}
        configuration.propagateStatus: PROPAGATED
        configuration.workflows:
          launch: {steps: [], return: {size: {value: "{$.size}"}}}
          resize:
            steps:
              - one: {action: restcall, parameters: {command: "LEDGER/one"}}
              - two: {action: restcall, precedingPhases: [one], parameters: {command: "LEDGER/two"}}
            return: {size: {value: "{$.size}"}}
"""
# The parts that the second version has not, or with another type.
PARTS = """
application:
  components:
    web: {type: workflow.Instance, configuration: {configuration.workflows: {launch: {steps: []}}}}
"""
PART = """
    NAME:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{up: {action: restcall, parameters: {command: "LEDGER/NAME/up"}}}]}
          destroy: {steps: [{down: {action: restcall, parameters: {command: "LEDGER/NAME/down"}}}]}
"""


def sized(ledger: Ledger, propagated: str = "[resize]") -> str:
    return SIZED.replace("LEDGER", ledger.server.url("")).replace("PROPAGATED", propagated)


def with_parts(ledger: Ledger, *names: str) -> str:
    parts = "".join(PART.replace("NAME", name) for name in names)
    return PARTS + parts.replace("LEDGER", ledger.server.url(""))


async def failed_resize(api: Api, ledger: Ledger, propagated: str = "[resize]") -> str:
    """Return an instance whose reconfiguration failed at the second step of what it triggers."""
    instance = await api.running(sized(ledger, propagated))
    ledger.fail("/two")
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    failed = await api.settled(instance)
    assert "step 'two' failed" in failed["errorMessage"]
    ledger.mend("/two")
    return instance


async def upload(api: Api, application: str, manifest: str) -> int:
    version: int = accepted(await api.put_yaml(f"applications/{application}/manifest", manifest))["version"]
    return version


async def resume(api: Api, instance: str) -> None:
    job = await job_of(api, instance)
    accepted(await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {}))
    await api.settled(instance)


@pytest.mark.parametrize("propagated", ["[resize]", "[]"])
async def test_what_a_trigger_ran_goes_on_at_the_step_that_failed(api: Api, ledger: Ledger, propagated: str) -> None:
    instance = await failed_resize(api, ledger, propagated)

    await resume(api, instance)

    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert (ledger.counts()["/one"], ledger.counts()["/two"]) == (1, 2)
    assert (await api.document(instance))["returnValues"] == {"result.size": 2}


async def test_it_is_resumed_until_it_succeeds_and_no_longer(api: Api, ledger: Ledger) -> None:
    instance = await failed_resize(api, ledger)
    ledger.fail("/two")
    await resume(api, instance)
    assert (await job_of(api, instance))["status"] == "Failed"
    ledger.mend("/two")

    await resume(api, instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await api.settled(instance)

    assert (ledger.counts()["/one"], ledger.counts()["/two"]) == (1, 3)


async def test_what_it_came_from_is_kept_for_no_longer_than_it_can_be_resumed(api: Api, ledger: Ledger) -> None:
    instance = await failed_resize(api, ledger)
    statement = "SELECT count(*) FROM jobs WHERE instance_id = %s AND former IS NOT NULL"
    async with api.database.connection() as connection:
        [[before]] = await (await connection.execute(statement, [instance])).fetchall()

    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 3}}))
    await api.settled(instance)

    async with api.database.connection() as connection:
        [[after]] = await (await connection.execute(statement, [instance])).fetchall()
    assert (before, after) == (1, 0)


@pytest.mark.parametrize("way", ["bulk", "failures"])
async def test_a_bulk_run_resumes_it(api: Api, ledger: Ledger, way: str) -> None:
    instance = await failed_resize(api, ledger)
    organization = f"organizations/{api.organization}"
    if way == "bulk":
        body = {"act": "resume", "ids": [instance]}
        begun = accepted(await api.post(f"{organization}/bulk", body))
    else:
        found = accepted(await api.get(f"{organization}/failures"))
        [failure] = [each for each in found if instance in str(each["instances"])]
        begun = accepted(await api.post(f"{organization}/failures/{failure['id']}/resume?instance={instance}"))
    await eventually(lambda: api.read(f"bulk/{begun['id']}"), lambda found: found["finishedAt"] is not None)

    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert ledger.counts()["/two"] == 2


async def test_what_was_cancelled_before_its_end_goes_on(api: Api, ledger: Ledger) -> None:
    text = sized(ledger).replace("action: restcall, precedingPhases", "action: wait, precedingPhases")
    instance = await api.running(re.sub('command: ".*/two"', "delay: 60", text))
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await until_step(api, instance, "two", "Executing")
    job = await job_of(api, instance)
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)

    accepted(await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {}))

    await until_step(api, instance, "two", "Executing")
    assert ledger.counts()["/one"] == 1
    again = await job_of(api, instance)
    accepted(await api.delete(f"instances/{instance}/jobs/{again['id']}"))
    await api.settled(instance)


async def test_a_component_that_could_not_be_destroyed_is_and_no_other_one(api: Api, ledger: Ledger) -> None:
    application = await api.application(with_parts(ledger, "first", "second"))
    instance = await api.launch(application)
    await api.settled(instance)
    ledger.fail("/first/down")
    version = await upload(api, application, with_parts(ledger))
    accepted(await api.put(f"instances/{instance}/configuration", {"manifestVersion": version}))
    await api.settled(instance)
    ledger.mend("/first/down")

    await resume(api, instance)

    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert (ledger.counts()["/first/down"], ledger.counts()["/second/down"]) == (2, 1)


AROUND = """
application:
  interfaces:
    input: {size: bind(child#input.size)}
    result: {size: bind(child#result.size)}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces: {input: {size: configuration(int)}, result: {size: publish-signal(int)}}
"""


async def test_a_submodule_goes_on_although_its_failure_left_its_status(api: Api, ledger: Ledger) -> None:
    inner = await api.application(sized(ledger, "[]"))
    instance = await api.running(AROUND.replace("LOCATOR", inner))
    ledger.fail("/two")
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    document = await api.settled(instance)
    assert (await api.document(child_of(document)))["status"] == "Running"
    ledger.mend("/two")

    await resume(api, instance)

    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert (ledger.counts()["/one"], ledger.counts()["/two"]) == (1, 2)
    assert (await api.document(instance))["returnValues"] == {"result.size": 2}


async def test_what_took_the_place_of_another_component_stays(api: Api, ledger: Ledger) -> None:
    plain = "application:\n  components:" + PART.replace("LEDGER", ledger.server.url(""))
    old, new = [await api.application(plain.replace("NAME", name)) for name in ("old", "new")]
    child = "{type: reference.Submodule, configuration: {__locator.application-id: LOCATOR}}"
    around = f"application: {{components: {{child: {child}}}}}"
    application = await api.application(around.replace("LOCATOR", old))
    instance = await api.launch(application)
    await api.settled(instance)
    version = await upload(api, application, around.replace("LOCATOR", new))
    ledger.fail("/new/up")
    accepted(await api.put(f"instances/{instance}/configuration", {"manifestVersion": version}))
    failed = await api.settled(instance)
    assert failed["status"] == "Failed"
    ledger.mend("/new/up")

    await resume(api, instance)

    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert ledger.counts() == {"/old/up": 1, "/old/down": 1, "/new/up": 2}
