"""`ansible` in instances on hosts that are there already, over real SSH."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from launchbay.machines.clouds.provider import CloudMachines
from launchbay.machines.contract import ProvidesSshAccess
from launchbay.machines.static import StaticMachines
from launchbay.processes.run import Programs
from tests.support.machines import ADOPT, LOGIN, Bench, Hosts, Keys, Lab, needs_sshd, on_lab, trust_only, workflow
from tests.support.runtime import SUCCEEDED

PLAY = (
    "configure: {action: ansible, parameters: {roles: [web], playbook: [{hosts: web, gather_facts: false, tasks:"
    " [{ansible.builtin.set_stats: {data: {answer: {is: 42}}}}]}]}, output: {stats: stats, data: data}}"
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=5) as started:
        yield started


@needs_sshd
@pytest.mark.slow
async def test_a_playbook_runs_on_the_machines_that_the_workflow_has_adopted(hosts: Hosts, tmp_path: Path) -> None:
    bench = Bench(hosts, tmp_path)
    live = bench.instance(workflow(ADOPT, PLAY, returns="{stats: {value: '{$.stats}'}, data: {value: '{$.data}'}}"))
    live.surroundings = replace(live.surroundings, programs=Programs(["ansible"]))

    assert await live.launch() == SUCCEEDED

    results = {name.rpartition(".")[2]: value for name, value in live.results.items()}
    assert set(results["stats"]) == {host.address for host in hosts.hosts}
    assert results["data"] == {"answer": {"is": 42}}
    assert any("PLAY RECAP" in text for text in live.disk.texts("info"))


@needs_sshd
@pytest.mark.slow
async def test_a_playbook_signs_in_with_a_certificate(tmp_path: Path) -> None:
    with Hosts.start(1, network=13) as hosts:
        authority = asyncssh.generate_private_key("ssh-ed25519")
        trust_only(hosts[0], authority.export_public_key().decode())
        bench = Bench(hosts, tmp_path)
        assert isinstance(bench.parts.keys, Keys)
        public = asyncssh.import_public_key(hosts.public_key)
        certificate = authority.generate_user_certificate(public, "job", principals=[LOGIN])
        bench.parts.keys.certificate = certificate.export_certificate().decode()
        live = bench.instance(workflow(ADOPT, PLAY, returns="{stats: {value: '{$.stats}'}}"))
        live.surroundings = replace(live.surroundings, programs=Programs(["ansible"]))

        assert await live.launch() == SUCCEEDED

        assert "ED25519-CERT" in (hosts[0].directory / "sshd.log").read_text()


async def test_machines_that_are_not_reached_by_ssh_are_told(tmp_path: Path) -> None:
    provision = "web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 1}}"
    live = on_lab(workflow(provision, PLAY), Lab())
    live.surroundings = replace(live.surroundings, programs=Programs(["ansible"]))

    assert "by SSH: it's a machine of" in str(await live.launch())


def test_the_providers_whose_machines_are_reached_by_ssh_give_the_way_in() -> None:
    assert issubclass(StaticMachines, ProvidesSshAccess)
    assert issubclass(CloudMachines, ProvidesSshAccess)
