"""Machines of a cloud that really let us in: their addresses are those of SSH servers on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.errors import ActionFailed
from launchbay.model.machine import RemoteCommand
from tests.machines.clouds.bay import REGION, Keys, bay, spec
from tests.machines.clouds.gate import Gate
from tests.machines.clouds.moto import loopback_subnet
from tests.machines.hosts import LOGIN, Hosts, needs_sshd

NETWORK = 77
FIRST = 4  # the first address of a subnet that is a machine's


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(FIRST + 1, network=NETWORK) as started:
        yield started


@needs_sshd
async def test_a_machine_is_made_when_it_lets_us_in_and_does_what_it_is_told(
    gate: Gate, hosts: Hosts, tmp_path: Path
) -> None:
    lab = bay(gate.url, tmp_path, allow="127.0.0.0/8", keys=Keys(hosts.private_key, hosts.public_key))
    policies = {"machines.address": "private", "machines.ssh-port": hosts[0].port, "machines.start-timeout": 60}
    settings = {"subnetId": loopback_subnet(gate.upstream, REGION, NETWORK)}
    asked = lab.context(policies=policies)
    machines = await lab.provider.provision(asked, "web", [1, 2], spec(login=LOGIN, settings=settings))
    assert {machine.host for machine in machines} == {f"127.0.{NETWORK}.{FIRST}", f"127.0.{NETWORK}.{FIRST + 1}"}
    result = await lab.provider.run(asked, machines[0], RemoteCommand(line="echo $((6 * 7))"))
    assert (result.stdout, result.exit_code) == ("42\n", 0)
    await lab.provider.put_file(asked, machines[1], "motd", b"hello")
    assert await lab.provider.get_file(asked, machines[1], "motd") == b"hello"


@needs_sshd
async def test_a_machine_that_shows_no_ssh_server_in_time_is_taken_down(
    gate: Gate, hosts: Hosts, tmp_path: Path
) -> None:
    lab = bay(gate.url, tmp_path, allow="127.0.0.0/8", keys=Keys(hosts.private_key, hosts.public_key))
    policies = {"machines.address": "private", "machines.ssh-port": 1, "machines.start-timeout": 1}
    settings = {"subnetId": loopback_subnet(gate.upstream, REGION, NETWORK)}
    with pytest.raises(ActionFailed, match="cannot be reached"):
        await lab.provider.provision(lab.context(policies=policies), "web", [1], spec(login=LOGIN, settings=settings))
    assert await lab.standing() == []
