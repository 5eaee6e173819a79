"""A whole manifest on containers, through the API: launched, commanded, given files, made smaller, destroyed."""

import base64
from collections.abc import AsyncIterator
from operator import not_
from textwrap import dedent
from typing import Any

import psycopg
import pytest

from launchbay.machines.containers.engine_api import EngineApi
from launchbay.machines.contract import INSTANCE, ProviderContext, Tags
from tests.support.containers import IMAGE, Podman, made_anew
from tests.support.contexts import context
from tests.support.databases import Databases
from tests.support.drift import applied, planned
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, running_api

MANIFEST = f"""
application:
  interfaces:
    result: {{hosts: bind(web#result.hosts), names: bind(web#result.names)}}
    actions: {{fewer: bind(web#actions.fewer), fail: bind(web#actions.fail)}}
    machine: {{'*': "bind(box#machine.*)"}}
  components:
    web:
      type: workflow.Instance
      interfaces:
        result: {{hosts: publish-signal(list<string>), names: publish-signal(list<string>)}}
        actions: {{fewer: receive-command(), fail: receive-command()}}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - machines:
                  action: provisionVms
                  parameters: {{roleName: web, targetQuantity: 3, imageId: {IMAGE}, hardwareId: 0.5x64m}}
                  output: {{hosts: ips}}
              - look:
                  action: execrun
                  precedingPhases: [machines]
                  parameters: {{roles: [web], command: ["echo begun; hostname"]}}
                  output: {{names: stdout}}
            return: {{hosts: {{value: "{{$.hosts}}"}}, names: {{value: "{{$.names[*]}}"}}}}
          fewer:
            steps:
              - machines:
                  action: destroyVms
                  parameters: {{roleName: web, quantity: 2}}
                  output: {{hosts: ips}}
            return: {{hosts: {{value: "{{$.hosts}}"}}}}
          fail: {{steps: [{{break: {{action: execrun, parameters: {{command: [sh, -c, "exit 3"]}}}}}}]}}
    box:
      type: compute.Instance
      interfaces:
        machine:
          exec: receive-command(string command, int timeout => string stdOut, string stdErr, int exitCode)
          put-file: receive-command(string filename, bytes payload)
          get-file: receive-command(string filename => bytes payload)
      configuration: {{configuration.imageId: {IMAGE}, configuration.login: ann}}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases, engine_of_session: Podman) -> AsyncIterator[Api]:
    url = databases.create()
    settings: dict[str, Any] = {
        "machines": "container",
        "container_socket": str(engine_of_session.socket),
        "container_networks": "none",
        "container_memory_mb": 128,
        "machines_sweep_interval_s": 0.3,
        "machines_sweep_grace_s": 0.1,
    }
    async with running_api(url, **settings) as running:
        yield running
    databases.drop(url)


async def of_instance(engine: EngineApi, instance: str) -> int:
    return len(await engine.labelled({INSTANCE: instance}))


async def test_a_manifest_runs_on_containers_from_launch_to_destruction(api: Api, engine: EngineApi) -> None:
    instance = await api.running(MANIFEST)
    document = await api.document(instance)
    names = document["returnValues"]["result.names"]
    assert len(set(names)) == 3
    assert all(name.startswith("begun\nweb-") for name in names)
    assert await of_instance(engine, instance) == 4

    document = await api.run(instance, "actions.fewer")
    assert document["returnValues"]["result.hosts"] == document["returnValues"]["result.hosts"][:1]
    assert await of_instance(engine, instance) == 2

    document = await api.run(instance, "actions.fail")
    assert "ended with exit code 3" in document["errorMessage"]

    document = await api.run(instance, "destroy")
    assert document["status"] == "Destroyed"
    assert await of_instance(engine, instance) == 0


async def test_a_machine_as_a_component_takes_commands_and_files(api: Api) -> None:
    instance = await api.running(MANIFEST)
    payload = base64.b64encode(b"hello\0there").decode()
    await api.run(instance, "machine.put-file", filename="note", payload=payload)
    document = await api.run(instance, "machine.exec", command="id -un; wc -c <note", timeout="20")
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    [job, *_] = accepted(await api.get(f"instances/{instance}/jobs"))
    [step] = accepted(await api.get(f"instances/{instance}/jobs/{job['id']}"))["steps"]
    assert step["outputs"]["stdOut"] == "ann\n11\n"
    await api.run(instance, "destroy")


async def test_an_environment_needs_the_operator_to_make_containers(
    databases: Databases, engine: EngineApi, engine_of_session: Podman
) -> None:
    url = databases.create()
    # Databases of tests are copies of one, and a sweep of another test takes a copy for its own installation.
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("UPDATE installation SET id = 'apart'")
    socket = str(engine_of_session.socket)
    async with running_api(url, container_socket=socket, container_networks="none") as api:
        created = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name()})
        environment = accepted(created)["id"]
        policies = dedent("""
            policies:
              machines.provider: container
        """)
        accepted(await api.put_yaml(f"environments/{environment}", policies))
        instance = await api.launch(await api.application(MANIFEST), environmentId=environment)
        document = await api.settled(instance)
        assert document["status"] == "Failed"
        assert "Containers are not allowed in this environment" in document["errorMessage"]
        assert await of_instance(engine, instance) == 0
    async with running_api(
        url, container_socket=socket, container_networks="none", container_environments=environment
    ) as api:
        instance = await api.launch(await api.application(MANIFEST), environmentId=environment)
        assert (await api.settled(instance))["status"] == "Running"
        await api.run(instance, "destroy")
    databases.drop(url)


async def test_the_sweep_removes_containers_of_nobody_and_leaves_those_of_others(api: Api, engine: EngineApi) -> None:
    instance = await api.running(MANIFEST)
    async with api.database.connection() as connection:
        [own] = await (await connection.execute("SELECT id FROM installation")).fetchone() or [""]
    stray, foreign = context(instance_id="5f00000000000000000000aa"), context(instance_id="5f00000000000000000000bb")
    for installation, asked in ((own, stray), ("another", foreign)):
        await planted(engine, installation, asked)
    await engine.create("plain", {"Image": IMAGE, "Cmd": ["true"]})
    await eventually(lambda: of_instance(engine, stray.instance_id), not_, within_s=60)
    assert await of_instance(engine, instance) == 4
    assert await of_instance(engine, foreign.instance_id) == 1
    assert len(await engine.labelled({})) == 6
    await api.run(instance, "destroy")


async def planted(engine: EngineApi, installation: str, asked: ProviderContext) -> None:
    labels = Tags.of(installation, asked, "web", 1).to_dict()
    await engine.create(f"planted-{installation}", {"Image": IMAGE, "Cmd": ["true"], "Labels": labels})


MIGRATION = """
application:
  configuration: {input.size: 1}
  interfaces: {input: {size: bind(web#input.size)}}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int)}}
      configuration:
        configuration.triggers: {input.size: migrate}
        configuration.workflows:
          launch: {steps: []}
          migrate:
            steps:
              - migration:
                  action: container.run
                  parameters:
                    image: localhost/launchbay-migration:latest
                    command: [echo, "to ${size}"]
                    size: 0.5x64m
"""


async def begun(api: Api, instance: str, size: int) -> str:
    """Make a change set with plans that gives the instance another size."""
    body = {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {"input.size": size}}}
    made = await api.post(f"organizations/{api.organization}/change-sets", {"plan": True, **body})
    return str(accepted(made)["id"])


async def test_a_change_set_shows_the_container_and_refuses_another_image(
    api: Api, engine: EngineApi, engine_of_session: Podman
) -> None:
    name = "localhost/launchbay-migration:latest"
    engine_of_session.run("tag", IMAGE, name)
    instance = await api.running(MIGRATION)
    first = await planned(api, await begun(api, instance, 2))
    [effect] = [each for step in first["plan"][0]["effects"]["steps"] for each in step["effects"]]
    image_id = effect["after"].pop("imageId")
    assert (effect["kind"], effect["address"], effect["certainty"]) == ("run", "web#migrate/migration", "estimated")
    assert effect["after"] == {"image": name, "command": ["echo", "to 2"], "size": "0.5x64m", "network": "none"}
    assert await of_instance(engine, instance) == 0

    assert (await applied(api, first["id"]))["status"] == "Succeeded"
    second = await planned(api, await begun(api, instance, 3))
    made_anew(engine_of_session, name)
    assert (await applied(api, second["id"]))["status"] == "Failed"
    assert f"instead of {image_id}" in (await api.document(instance))["errorMessage"]
