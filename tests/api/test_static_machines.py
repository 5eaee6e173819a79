"""Instances on hosts that are there already, through the API: the whole service, real SSH, a real database."""

import base64
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.machines import Hosts, needs_sshd, needs_sudo
from tests.support.service import accepted, refused
from tests.support.services import Fleet, running_fleet

pytestmark = needs_sshd

MINE = os.getpid()  # makes what sleeps here different from what sleeps in another run of the tests
COMPUTE = """
application:
  interfaces:
    actions: {run: "bind(web#actions.run)", copy: "bind(web#actions.copy)"}
    result: {"*": "bind(web#result.*)"}
  bindings: [[web, vm]]
  components:
    vm: {type: compute.Instance}
    web:
      type: workflow.Instance
      required: [compute]
      interfaces:
        compute:
          networks: consume-signal(map<string, map<string, string>>)
          exec: send-command(string command, int timeout => string stdOut, string stdErr, int exitCode)
          put-file: send-command(string filename, bytes payload)
          get-file: "send-command(string filename => bytes payload)"
        actions: {run: "receive-command(string line)", copy: receive-command(string name)}
        result: {ip: publish-signal(string), said: publish-signal(object), got: publish-signal(object)}
      configuration:
        configuration.workflows:
          launch:
            steps: [look: {action: getSignals, output: {s: result}}]
            return: {ip: {value: "{$.s.compute.networks.public.ip}"}}
          run:
            steps:
              - ask:
                  action: compute.exec
                  parameters: {command: "{$.line}", timeout: 20}
                  output: {o: stdOut, e: stdErr, c: exitCode}
            return: {said: {value: ["{$.o}", "{$.e}", "{$.c}"]}}
          copy:
            steps:
              - put: {action: compute.put-file, parameters: {filename: "{$.name}", payload: aGVsbG8A}}
              - get:
                  action: compute.get-file
                  precedingPhases: [put]
                  parameters: {filename: "{$.name}"}
                  output: {p: payload}
            return: {got: {value: "{$.p}"}}
"""
POOLED = """
launch:
  steps:
    - web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}, output: {ips: ips}}
  return: {ips: {value: "{$.ips}"}}
more:
  steps:
    - web: {action: provisionVms, parameters: {roleName: web, quantity: 1}, output: {ips: ips}}
  return: {ips: {value: "{$.ips}"}}
same:
  steps:
    - web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 3}, output: {ips: ips}}
  return: {ips: {value: "{$.ips}"}}
less:
  parameters: [ips: {default: []}]
  steps:
    - one: {action: destroyVms, parameters: {roleName: web, quantity: 1}}
    - two: {action: destroyVms, precedingPhases: [one], parameters: {ips: "{$.ips}"}, output: {left: ips}}
  return: {ips: {value: "{$.left}"}}
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(3, network=5) as started:
        yield started


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts) -> AsyncIterator[Fleet]:
    url = databases.create()
    async with running_fleet(url, hosts) as fleet:
        yield fleet
    databases.drop(url)


async def test_a_compute_instance_runs_commands_and_keeps_files(fleet: Fleet) -> None:
    instance = await fleet.api.running(COMPUTE)
    [address] = await fleet.held()
    assert (await fleet.api.document(instance))["returnValues"]["result.ip"] == address
    document = await fleet.api.run(instance, "actions.run", line="echo $HOME | wc -l; echo no >&2; exit 7")
    assert document["returnValues"]["result.said"] == ["1\n", "no\n", 7]
    name = str(fleet.hosts[0].work / "compute-file")
    document = await fleet.api.run(instance, "actions.copy", name=name)
    assert base64.b64decode(document["returnValues"]["result.got"]) == b"hello\0"
    assert Path(name).read_bytes() == b"hello\0"
    await fleet.api.run(instance, "destroy")
    assert await fleet.held() == set()


async def test_hosts_of_a_pool_are_counted_released_by_number_and_address_and_go_back_at_the_end(fleet: Fleet) -> None:
    instance = await fleet.api.running(POOLED)
    assert len(await fleet.held()) == 2
    document = await fleet.api.run(instance, "more")
    everyone = document["returnValues"]["ips"]
    assert set(everyone) == await fleet.held() == {host.address for host in fleet.hosts.hosts}
    assert (await fleet.api.run(instance, "same"))["returnValues"]["ips"] == everyone
    document = await fleet.api.run(instance, "less", ips=everyone[:1])
    assert document["returnValues"]["ips"] == everyone[1:2]
    assert await fleet.held() == {everyone[1]}
    await fleet.api.run(instance, "destroy")
    assert await fleet.held() == set()


async def test_a_job_without_free_hosts_names_the_pool(fleet: Fleet) -> None:
    everyone = len(fleet.hosts.hosts)
    vms = f"{{action: provisionVms, parameters: {{roleName: web, targetQuantity: {everyone}}}}}"
    manifest = f"launch: {{steps: [{{web: {vms}}}]}}"
    first = await fleet.api.running(manifest, instanceName="owner of all")
    second = await fleet.api.launch(await fleet.api.application(manifest))
    said = (
        await eventually(lambda: fleet.api.document(second), lambda found: "are held" in found.get("waitingFor", ""))
    ).get("waitingFor", "")
    assert said.endswith(f": all {everyone} are held.")
    await fleet.api.run(first, "destroy")
    assert (await fleet.api.settled(second))["status"] == "Running"
    await fleet.api.run(second, "destroy")


@pytest.mark.parametrize(("sudo", "seconds"), [("false", 301), pytest.param("true", 302, marks=needs_sudo)])
async def test_cancelling_a_job_kills_the_process_group_on_the_host(fleet: Fleet, sudo: str, seconds: int) -> None:
    mark = fleet.hosts[0].work / f"cancelled-{sudo}"
    manifest = f"""
        launch:
          steps:
            - hosts: {{action: provisionVms, parameters: {{staticIps: ["{fleet.hosts[0].address}"]}}}}
            - run:
                action: execrun
                precedingPhases: [hosts]
                parameters:
                  isSudo: {sudo}
                  command: ["sleep {seconds}.{MINE} & echo $! $$$$ > {mark}; chmod a+r {mark}; wait"]
    """
    instance = await fleet.api.launch(await fleet.api.application(manifest))
    await eventually(lambda: mark.exists() and len(mark.read_text().split()) == 2)
    await eventually(lambda: len(_sleepers(seconds)) == 1)  # the shell goes on before its child has become `sleep`
    [job] = accepted(await fleet.api.get(f"instances/{instance}/jobs"))
    accepted(await fleet.api.delete(f"instances/{instance}/jobs/{job['id']}"))
    document = await fleet.api.settled(instance)
    assert document["status"] == "Failed"
    await eventually(lambda: not _sleepers(seconds))


@pytest.mark.slow
async def test_a_command_call_that_takes_too_long_leaves_nothing_running(fleet: Fleet) -> None:
    instance = await fleet.api.running(COMPUTE)
    mark = fleet.hosts[0].work / "too-long"
    slow = COMPUTE.replace("timeout: 20", "commandCallTimeout: 2")
    late = await fleet.api.running(slow)
    document = await fleet.api.run(late, "actions.run", line=f"touch {mark}; sleep 303.{MINE}")
    assert "exceeded its timeout of 2 s" in document["errorMessage"]
    assert mark.exists()
    await eventually(lambda: not _sleepers(303))
    for each in (instance, late):
        await fleet.api.run(each, "destroy")


@pytest.mark.slow
async def test_a_host_key_that_changed_fails_the_launch_and_the_policy_accepts_it(
    databases: Databases,
) -> None:
    url = databases.create()
    with Hosts.start(1, network=6) as hosts:
        manifest = f"launch: {{steps: [a: {{action: provisionVms, parameters: {{staticIps: [{hosts[0].address}]}}}}]}}"
        async with running_fleet(url, hosts) as fleet:
            await fleet.api.running(manifest)
            hosts[0].new_host_key()
            application = await fleet.api.application(manifest)
            document = await fleet.api.settled(await fleet.api.launch(application))
            assert document["status"] == "Failed"
            assert "has changed" in document["errorMessage"]
            accepting = document["errorMessage"].partition("of the environment to ")[2].partition(" and ")[0]
            text = accepted_policies(await fleet.api.get(f"environments/{fleet.api.environment}"), accepting)
            accepted(await fleet.api.put_yaml(f"environments/{fleet.api.environment}", text))
            document = await fleet.api.settled(await fleet.api.launch(application))
            assert document["status"] == "Running", document["errorMessage"]
    databases.drop(url)


@pytest.mark.slow
async def test_a_pinned_key_is_listed_and_forgotten_so_that_the_next_one_counts(databases: Databases) -> None:
    url = databases.create()
    with Hosts.start(1, network=8) as hosts:
        manifest = f"launch: {{steps: [a: {{action: provisionVms, parameters: {{staticIps: [{hosts[0].address}]}}}}]}}"
        async with running_fleet(url, hosts) as fleet:
            pinned = f"organizations/{fleet.api.organization}/hostKeys"
            await fleet.api.running(manifest)
            [before] = accepted(await fleet.api.get(pinned))
            assert (before["id"], before["algorithm"]) == (hosts[0].static_ip, "ssh-ed25519")
            hosts[0].new_host_key()
            accepted(await fleet.api.delete(f"{pinned}/{hosts[0].static_ip}"))
            assert accepted(await fleet.api.get(pinned)) == []
            refused(await fleet.api.delete(f"{pinned}/{hosts[0].static_ip}"), 404, "NotFound")
            await fleet.api.running(manifest)
            [after] = accepted(await fleet.api.get(pinned))
            assert after["fingerprint"] != before["fingerprint"]
    databases.drop(url)


def accepted_policies(answer: object, accepting: str) -> str:
    text = getattr(answer, "text", "")
    assert text.startswith("policies:")
    return f"{text}  machines.host-keys: {accepting}\n"


def _sleepers(seconds: int) -> list[str]:
    """Return the processes that sleep so long on hosts of this test, seen from outside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("cmdline").read_bytes() == f"sleep\0{seconds}.{MINE}\0".encode():
                found.append(process.name)
        except OSError:
            continue
    return found
