"""Many hosts and much output: how long it takes, how much memory it costs. The figures are printed (`-s`)."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.databases import Databases
from tests.support.machines import Hosts, needs_sshd
from tests.support.service import accepted
from tests.support.services import Fleet, running_fleet

pytestmark = [pytest.mark.load, pytest.mark.timeout(300), needs_sshd]
COUNT = 50
SLOWEST_S = 5.0
MEGABYTES = 100
GROWTH_MB = 20.0
RUN = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}}
  return: {o: {value: none}}
run:
  parameters: [line: {}, batch: {default: 50}]
  steps:
    - run:
        action: execrun
        parameters: {roles: [web], command: ["{$.line}"], batchSize: "{$.batch}"}
        output: {o: stdout}
  return: {o: {value: "{$.o}"}}
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(COUNT, network=9) as started:
        yield started


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts) -> AsyncIterator[Fleet]:
    url = databases.create()
    async with running_fleet(url, hosts) as fleet:
        yield fleet
    databases.drop(url)


async def launched(fleet: Fleet, count: int) -> str:
    """Return an instance that has adopted so many hosts."""
    addresses = ", ".join(f'"{host.address}"' for host in fleet.hosts.hosts[:count])
    instance = await fleet.api.launch(await fleet.api.application(RUN.replace("HOSTS", addresses)))
    document = await fleet.api.settled(instance, 120)
    assert document["status"] == "Running", document["errorMessage"]
    return instance


async def run(fleet: Fleet, instance: str, line: str, batch: int = COUNT) -> tuple[float, dict[str, str]]:
    """Run a command on all hosts; return how long it took, and its outputs."""
    begun = time.monotonic()
    accepted(await fleet.api.post(f"instances/{instance}/run", {"line": line, "batch": batch}))
    document = await fleet.api.settled(instance, 200)
    assert document["errorMessage"] in (None, ""), document["errorMessage"]
    return time.monotonic() - begun, document["returnValues"]["o"]


async def test_fifty_hosts_take_about_as_long_as_the_slowest_and_are_heard_meanwhile(fleet: Fleet) -> None:
    begun = time.monotonic()
    instance = await launched(fleet, COUNT)
    print(f"\n{COUNT} hosts adopted: {time.monotonic() - begun:.1f} s")
    quick_s, outputs = await run(fleet, instance, "echo hi")
    assert list(outputs.values()) == ["hi"] * COUNT
    ledger = fleet.hosts[0].work / "slowest"
    slow = f"echo begin; [ $HOME != {fleet.hosts[0].home} ] || sleep {SLOWEST_S}; echo x >> {ledger}"
    slow_s, _ = await run(fleet, instance, slow)
    print(f"one command on each: {quick_s:.1f} s; with one host of {SLOWEST_S} s: {slow_s:.1f} s")
    assert ledger.read_text() == "x\n" * COUNT
    lines = await fleet.log(instance)
    assert sum("] begin" in line for line in lines) == COUNT


async def test_a_batch_bounds_how_many_hosts_work_at_the_same_time(fleet: Fleet) -> None:
    instance = await launched(fleet, 20)
    ledger = fleet.hosts[0].work / "batches"
    took_s, _ = await run(fleet, instance, f"echo 1 >> {ledger}; sleep 0.5; echo -1 >> {ledger}", batch=5)
    at_once = most = 0
    for step in map(int, ledger.read_text().split()):
        at_once += step
        most = max(most, at_once)
    print(f"\n20 hosts by 5, each 0.5 s: {took_s:.1f} s; most at once: {most}")
    assert 1 < most <= 5


async def test_much_output_costs_no_memory(fleet: Fleet) -> None:
    instance = await launched(fleet, 1)
    await run(fleet, instance, "echo warm")
    before = _resident_mb()
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    line = "seq 1 1000000000 | head -c " + str(MEGABYTES * 1_000_000)
    took_s, outputs = await run(fleet, instance, line)
    growth = _resident_mb("VmHWM") - before
    print(f"\n{MEGABYTES} MB of output: {took_s:.1f} s, memory grew by {growth:.1f} MB at most from {before:.0f} MB")
    [output] = outputs.values()
    assert output.startswith("1\n2\n")
    assert "bytes are left out here" in output
    assert growth <= GROWTH_MB


def _resident_mb(name: str = "VmRSS") -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) / 1024
