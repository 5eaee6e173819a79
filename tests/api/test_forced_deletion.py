"""DELETE with force=1 while much is going on: what the broken-off work had done is known, and nothing is left."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from launchbay.machines.registry import Providers
from tests.api.offered import environment, offer
from tests.api.running import Api, accepted, fresh_name, running_api
from tests.databases import Databases
from tests.machines.lab import Lab

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
async def bay(databases: Databases) -> AsyncIterator[tuple[Api, Lab]]:
    """A service whose machines stand in the lab, and whose forced destroys are soon broken off."""
    lab, url = Lab(), databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Providers, "load", lambda *_: Providers([("tests", lab)], "lab"))
        async with running_api(url, destroy_timeout_s=1.0) as api:
            yield api, lab
    databases.drop(url)


async def deleted(api: Api, instance: str) -> None:
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def until_made(api: Api, lab: Lab) -> None:
    """Wait until the only machine stands and its step is recorded."""
    async with asyncio.timeout(PATIENCE_S):
        while not lab.standing:
            await asyncio.sleep(0.01)
        [(_, instance, _)] = lab.standing.values()
        statement = "SELECT count(*) FROM steps JOIN jobs ON jobs.id = job_id WHERE instance_id = %s AND outputs <> ''"
        async with api.database.connection() as connection:
            while await (await connection.execute(statement, [instance])).fetchone() != (1,):
                await asyncio.sleep(0.01)


HOST = """
application:
  interfaces: {out: {made: bind(host#out.made)}}
  components:
    host:
      type: workflow.Instance
      interfaces: {out: {made: publish-signal(string)}}
      configuration:
        configuration.workflows:
          launch:
            steps: [{make: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}}}]
            return: {made: {value: made}}
          destroy:
            steps: [{hang: {action: wait, parameters: {delay: 60}}}]
"""
OVER = """
application:
  interfaces: {out: {made: bind(child#out.made)}}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces: {out: {made: publish-signal(string)}}
"""


async def test_no_machine_of_a_submodule_is_left_when_the_destroy_is_broken_off(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    await api.application(HOST, bottom)
    await api.application(OVER.replace("LOCATOR", bottom), middle)
    instance = await api.running(OVER.replace("LOCATOR", middle))
    assert len(lab.standing) == 2
    await deleted(api, instance)
    assert lab.standing == {}


HALF_LAUNCHED = """
application:
  components:
    first:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps: [{make: {action: provisionVms, parameters: {roleName: web}}}]
            return: {made: {value: what was made}}
          destroy:
            steps: [{tell: {action: execrun, parameters: {roles: [web], command: ["echo {$.made}"]}}}]
    second:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{hang: {action: wait, parameters: {delay: 60}}}]}
"""


async def test_the_destroy_knows_what_the_launch_had_done_that_it_put_an_end_to(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    instance = await api.launch(await api.application(HALF_LAUNCHED))
    await until_made(api, lab)
    await deleted(api, instance)
    assert lab.ran[-1][1] == "echo what was made"
    assert lab.standing == {}


async def test_a_launch_of_submodules_that_is_broken_off_leaves_nothing(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    name = fresh_name("half")
    await api.application(HALF_LAUNCHED, name)
    text = OVER.replace("LOCATOR", name).replace("{out: {made: publish-signal(string)}}", "{}")
    instance = await api.launch(await api.application(text.replace("{out: {made: bind(child#out.made)}}", "{}")))
    await until_made(api, lab)
    await deleted(api, instance)
    assert lab.ran[-1][1] == "echo what was made"
    assert lab.standing == {}


POOL = """
application:
  interfaces: {pool: {make: bind(pool#pool.make), use: bind(pool#pool.use), size: bind(pool#pool.size)}}
  components:
    pool:
      type: workflow.Instance
      interfaces: {pool: {make: receive-command(), use: receive-command(), size: publish-signal(int)}}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {size: {value: 0}}}
          make:
            steps:
              - make: {action: provisionVms, parameters: {roleName: pool}}
              - hang: {action: wait, precedingPhases: [make], parameters: {delay: 60}}
          use: {steps: [{use: {action: execrun, parameters: {roles: [pool], command: [uptime]}}}]}
"""
USER = """
application:
  bindings: [[user, pool]]
  components:
    pool:
      type: reference.Service
      interfaces: {pool: {make: receive-command(), size: publish-signal(int)}}
    user:
      type: workflow.Instance
      interfaces: {pool: {make: send-command()}}
      configuration:
        configuration.workflows: {launch: {steps: [{ask: {action: pool.make}}]}}
"""


async def test_what_a_service_had_done_for_a_caller_that_is_gone_stays_known_to_it(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    where = await environment(api)
    service = await api.running(POOL)
    await offer(api, service, where)
    caller = await api.launch(await api.application(USER), environmentId=where)
    await until_made(api, lab)
    await deleted(api, caller)
    document = await api.settled(service)
    assert document["status"] == "Running"
    assert document["workflowHistory"][0]["status"] == "Failed"
    document = await api.run(service, "pool.use")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert (await api.run(service, "destroy"))["status"] == "Destroyed"
    assert lab.standing == {}
