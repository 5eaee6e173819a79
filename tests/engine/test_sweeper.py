"""The sweep takes strays down, leaves every other machine alone, and is told of in the log and the audit log."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import structlog

from launchbay.clock import SystemClock
from launchbay.engine.sweeper import OFF, REMOVE, REPORT, Sweeper
from launchbay.ids import new_id
from launchbay.model.machine import Machine
from launchbay.runtime.state import ComponentState, InstanceState
from tests.support.clouds import Yard
from tests.support.engine import Bay

NOTHING = "launch: {steps: []}\n"


@pytest.fixture
def yard() -> Yard:
    return Yard()


def sweeper(bay: Bay, yard: Yard, *, mode: str = REMOVE, interval_s: float = 0.0, grace_s: float = 600.0) -> Sweeper:
    async def providers() -> list[Yard]:
        return [yard]

    return Sweeper(
        database=bay.database,
        providers=providers,
        clock=SystemClock(),
        mode=mode,
        interval_s=interval_s,
        grace_s=grace_s,
    )


async def recorded(bay: Bay, instance_id: str, machine: Machine) -> None:
    text = InstanceState({"web": ComponentState(machines=[machine])}).to_text()
    await bay.change("UPDATE instances SET state = %s WHERE id = %s", text, instance_id)


async def test_machines_of_unknown_and_destroyed_instances_are_taken_down(bay: Bay, yard: Yard) -> None:
    destroyed = await bay.instance(NOTHING, status="Destroyed")
    yard.add(new_id())
    yard.add(destroyed)
    await sweeper(bay, yard).sweep()
    assert yard.standing == {}


async def test_a_recorded_machine_of_a_living_instance_stays(bay: Bay, yard: Yard) -> None:
    instance_id = await bay.instance(NOTHING, status="Running")
    machine = yard.add(instance_id)
    await recorded(bay, instance_id, machine)
    await sweeper(bay, yard).sweep()
    assert list(yard.standing) == [machine.id]


async def test_a_machine_that_no_record_of_its_instance_tells_of_is_taken_down(bay: Bay, yard: Yard) -> None:
    instance_id = await bay.instance(NOTHING, status="Failed")
    kept, stray = yard.add(instance_id), yard.add(instance_id)
    await recorded(bay, instance_id, kept)
    await sweeper(bay, yard).sweep()
    assert stray.id not in yard.standing
    assert list(yard.standing) == [kept.id]


async def test_a_machine_may_belong_to_a_job_that_is_under_way(bay: Bay, yard: Yard) -> None:
    instance_id = await bay.instance(NOTHING)
    machine = yard.add(instance_id)
    await bay.launch(instance_id)
    await sweeper(bay, yard).sweep()
    assert list(yard.standing) == [machine.id]


async def test_a_young_machine_is_left_for_its_step_to_record(bay: Bay, yard: Yard) -> None:
    yard.add(new_id(), made_at=datetime.now(UTC) - timedelta(seconds=599))
    await sweeper(bay, yard).sweep()
    assert len(yard.standing) == 1
    await sweeper(bay, yard, grace_s=10).sweep()
    assert yard.standing == {}


async def test_one_that_cannot_be_taken_down_keeps_no_other_from_going(bay: Bay, yard: Yard) -> None:
    first, _ = yard.add(new_id()), yard.add(new_id())
    yard.stuck.add(first.id)
    with structlog.testing.capture_logs() as logs:
        await sweeper(bay, yard).sweep()
    assert list(yard.standing) == [first.id]
    assert [entry["event"] for entry in logs] == ["orphan.removal_failed", "orphan.removed"]


async def test_what_is_taken_down_stands_in_the_audit_log_of_its_organization(bay: Bay, yard: Yard) -> None:
    gone = new_id()
    machine = yard.add(gone, organization_id=bay.organization_id)
    await sweeper(bay, yard).sweep()
    [(organization_id, changed, before)] = await bay.rows("SELECT organization_id, object, before FROM audit_entries")
    assert (organization_id, changed) == (bay.organization_id, f"/instances/{gone}")
    assert msgspec.json.decode(before) == {
        "machine": machine.id,
        "provider": "yard",
        "instance": gone,
        "component": "web",
        "role": "web",
        "number": 1,
        "address": "192.0.2.1",
        "reason": "its instance is unknown",
    }


async def test_no_job_begins_while_a_machine_of_its_instance_is_taken_down(bay: Bay, yard: Yard) -> None:
    """The job might take the machine over: it finds it before the sweep decides, or after it has gone."""
    instance_id = await bay.instance(NOTHING)
    yard.add(instance_id)
    yard.open.clear()
    sweeping = asyncio.create_task(sweeper(bay, yard).sweep())
    here = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND "
    await bay.until(here + "state = 'idle in transaction'")
    launching = asyncio.create_task(bay.launch(instance_id))
    await bay.until(here + "wait_event_type = 'Lock'")
    assert not launching.done()
    yard.open.set()
    await asyncio.gather(sweeping, launching)
    assert yard.standing == {}


async def test_one_that_went_by_itself_since_it_was_found_is_not_told_of(bay: Bay, yard: Yard) -> None:
    yard.gone.add(yard.add(new_id()).id)
    with structlog.testing.capture_logs() as logs:
        await sweeper(bay, yard).sweep()
    assert logs == []
    assert await bay.rows("SELECT id FROM audit_entries") == []


async def test_a_report_names_strays_and_leaves_them(bay: Bay, yard: Yard) -> None:
    yard.add(new_id())
    with structlog.testing.capture_logs() as logs:
        await sweeper(bay, yard, mode=REPORT).sweep()
    assert [entry["event"] for entry in logs] == ["orphan.found"]
    assert len(yard.standing) == 1
    assert await bay.rows("SELECT id FROM audit_entries") == []


async def test_a_sweep_that_is_off_does_not_look(bay: Bay, yard: Yard) -> None:
    await sweeper(bay, yard, mode=OFF).sweep()
    assert yard.looks == 0


async def test_a_round_belongs_to_one_process_in_an_interval(bay: Bay, yard: Yard) -> None:
    for _ in range(3):
        await sweeper(bay, yard, interval_s=3600).sweep()
    assert yard.looks == 1
