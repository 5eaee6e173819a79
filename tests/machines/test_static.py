"""Instances on hosts that are there already, from launch to destroy, over real SSH."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay import limits
from launchbay.machines.static import StaticMachines
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_destroy, plan_launch
from tests.support.machines import (
    ADOPT,
    LOGIN,
    Bench,
    Hosts,
    Keys,
    needs_sshd,
    needs_sudo,
    parts,
    roles,
    workflow,
)
from tests.support.runtime import SUCCEEDED, Instance

pytestmark = needs_sshd
LAUNCH = plan_launch({}, InstanceStatus.REQUESTED)
DESTROY = plan_destroy(InstanceStatus.RUNNING)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(3, network=2) as started:
        yield started


@pytest.fixture
def bench(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(limits, "MACHINE_ADOPT_S", 0.0)
    found = Bench(hosts, tmp_path)
    found.forget_runs()
    return found


async def failure(live: Instance) -> str:
    """Launch an instance that cannot be, and return why."""
    error = await live.run(LAUNCH)
    assert error is not None
    return error


async def test_a_command_runs_on_every_host_of_a_role_and_outputs_are_by_host(bench: Bench) -> None:
    live = bench.instance(
        workflow(
            ADOPT,
            """run: {action: execrun, parameters: {roles: [web], command: ["echo '{\\"pid\\": 1}'; echo e >&2"]},"""
            " output: {out: stdout, err: stderr, code: exitCode}}",
            returns="{ips: {value: '{$.ips}'}, out: {value: '{$.out}'}, err: {value: '{$.err}'},"
            " code: {value: '{$.code}'}}",
        )
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    addresses = [host.address for host in bench.hosts.hosts]
    results = {name.rpartition(".")[2]: value for name, value in live.results.items()}
    assert results == {
        "ips": addresses,
        "out": {address: {"pid": 1} for address in addresses},
        "err": dict.fromkeys(addresses, "e"),
        "code": dict.fromkeys(addresses, 0),
    }


async def test_several_elements_are_a_program_with_arguments_that_no_shell_reads(bench: Bench) -> None:
    live = bench.instance(
        workflow(
            ADOPT,
            "run: {action: execrun, parameters: {roles: [web],"
            " command: [printf, '%s|', 'a b', '$(id)', \"it's\", '*']}, output: {out: stdout}}",
            returns="{out: {value: '{$.out}'}}",
        )
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    [out] = live.results.values()
    assert list(out.values()) == ["a b|$(id)|it's|*|"] * 3


@pytest.mark.slow
async def test_a_batch_waits_for_the_one_before_and_a_failure_ends_the_row(bench: Bench) -> None:
    work = bench.hosts[0].work
    ledger = work / "batches"
    line = f"echo begin >> {ledger}; sleep 0.2; echo end >> {ledger}"
    text = workflow(ADOPT, "run: {action: execrun, parameters: {roles: [web], batchSize: 1, command: ['LINE']}}")
    assert await bench.instance(text.replace("LINE", line)).run(LAUNCH) == SUCCEEDED
    assert ledger.read_text().split() == ["begin", "end"] * 3
    ledger.unlink()
    bench.forget_runs()
    error = await failure(bench.instance(text.replace("LINE", f"{line}; exit 9")))
    assert "The command on 127.0.2.1 ended with exit code 9" in error
    assert ledger.read_text().split() == ["begin", "end"]


async def test_a_further_attempt_runs_the_command_again(bench: Bench) -> None:
    ledger = bench.hosts[0].work / "attempts"
    line = f"echo x >> {ledger}; [ $(wc -l < {ledger}) -gt 1 ]"
    more = f"retryCount: 1, command: ['{line}']"
    text = workflow(
        "a: {action: provisionVms, parameters: {staticIps: [127.0.2.1]}}",
        f"run: {{action: execrun, parameters: {{{more}}}}}",
    )
    assert await bench.instance(text).run(LAUNCH) == SUCCEEDED
    assert ledger.read_text() == "x\nx\n"


async def test_the_output_is_in_the_steps_log_with_its_host(bench: Bench) -> None:
    line = "echo one; sleep 0.3; echo two >&2"
    live = bench.instance(
        workflow(ADOPT, f"run: {{action: execrun, parameters: {{roles: [web], command: ['{line}']}}}}")
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    lines = [text for _, _, text in live.disk.lines]
    assert [text for text in lines if "127.0.2.2" in text] == ["[127.0.2.2] one", "[127.0.2.2 stderr] two"]


@needs_sudo
async def test_sudo_counts_for_the_step_that_asks_for_it(bench: Bench) -> None:
    live = bench.instance(
        workflow(
            ADOPT,
            "root: {action: execrun, parameters: {roles: [web], isSudo: true, command: [id, -un]},"
            " output: {out: stdout}}",
            returns="{out: {value: '{$.out}'}}",
        )
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    [out] = live.results.values()
    assert set(out.values()) == {"root"}


async def test_entries_say_login_and_port_and_a_host_that_is_adopted_stays_so(bench: Bench) -> None:
    entry = f"{LOGIN}@{bench.hosts[0].static_ip}"
    take = f"{{staticIps: ['{entry}'], vmIdentity: nobody-here}}"
    live = bench.instance(
        workflow(
            f"a: {{action: provisionVms, parameters: {take}, output: {{ips: ips}}}}",
            f"b: {{action: provisionVms, parameters: {take}, output: {{ips: ips}}}}",
            "run: {action: execrun, parameters: {command: [id, -un]}, output: {out: stdout}}",
            returns="{ips: {value: '{$.ips}'}}",
        ),
        **{"machines__ssh-port": 1},
    )
    assert await live.run(LAUNCH) == SUCCEEDED
    assert list(live.results.values()) == [["127.0.2.1"]]
    assert roles(live) == {"default": ["127.0.2.1"]}
    assert await live.run(DESTROY) == SUCCEEDED
    assert roles(live) == {}


async def test_a_host_that_does_not_answer_fails_the_step_with_its_name(bench: Bench) -> None:
    text = workflow("a: {action: provisionVms, parameters: {staticIps: [127.0.2.1, '127.0.2.200:1', 'no host']}}")
    assert "Invalid host 'no host'" in await failure(bench.instance(text))
    text = workflow("a: {action: provisionVms, parameters: {staticIps: [127.0.2.1, '127.0.2.200:1']}}")
    live = bench.instance(text)
    assert "127.0.2.200:1 is unreachable" in await failure(live)
    assert roles(live) == {}
    text = workflow("a: {action: provisionVms, parameters: {staticIps: [127.0.2.1, '127.0.2.1:1']}}")
    assert "contains 127.0.2.1 twice" in await failure(bench.instance(text))


async def test_an_address_that_the_rules_forbid_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    bench = Bench(hosts, tmp_path)
    bench.parts = parts(hosts, tmp_path, allowed="127.0.2.3")
    bench.provider = StaticMachines(bench.parts)
    live = bench.instance(workflow(ADOPT))
    assert "The address 127.0.2.1 is refused: it is a loopback address." in await failure(live)


async def test_the_key_pair_of_the_step_lets_in(bench: Bench) -> None:
    text = workflow("a: {action: provisionVms, parameters: {staticIps: [127.0.2.1], publicKeyId: NAME}}")
    assert await bench.instance(text.replace("NAME", "deploy")).run(LAUNCH) == SUCCEEDED
    assert isinstance(bench.parts.keys, Keys)
    assert set(bench.parts.keys.asked) == {"deploy"}
    assert "There is no key pair 'other'" in await failure(bench.instance(text.replace("NAME", "other")))


POOLED = workflow(
    "web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}, output: {ips: ips}}",
    "same: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}, output: {ips: ips}}",
    "run: {action: execrun, parameters: {roles: [web], command: [hostname]}}",
    returns="{ips: {value: '{$.ips}'}}",
    more="""
less:
  steps:
    - one: {action: destroyVms, parameters: {roleName: web, quantity: 1}}
more:
  steps:
    - two: {action: provisionVms, parameters: {roleName: web, quantity: 2}}
""",
)


async def test_hosts_of_a_pool_are_held_until_they_are_released(bench: Bench) -> None:
    bench.pools.free = {
        f"h{n}": {"address": host.address, "port": host.port} for n, host in enumerate(bench.hosts.hosts)
    }
    live = bench.instance(POOLED)
    assert await live.run(LAUNCH) == SUCCEEDED
    assert len(roles(live)["web"]) == 2
    assert len(bench.pools.free) == 1
    assert await live.run(DESTROY) == SUCCEEDED
    assert len(bench.pools.free) == 3


async def test_where_a_host_of_the_pool_does_not_answer_all_go_back(bench: Bench) -> None:
    bench.pools.free = {"a": "127.0.2.1", "b": {"host": "127.0.2.200", "port": 1}}
    live = bench.instance(POOLED)
    assert "127.0.2.200:1 is unreachable" in await failure(live)
    assert set(bench.pools.free) == {"a", "b"}
    bench.pools.free = {"a": "127.0.2.1"}
    assert "The pool has no 2 hosts" in await failure(bench.instance(POOLED))
