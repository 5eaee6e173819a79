"""What the engine changes by itself is in the audit log, in the transaction of the change (promise 14)."""

import json
from typing import Any

import psycopg
import pytest

from launchbay.engine.worker import Engine
from tests.support.engine import Bay

COMMANDS = """
    application:
      interfaces: {act: {go: "bind(w#act.go)"}}
      components:
        w:
          type: workflow.Instance
          interfaces: {act: {go: "receive-command(=> )"}}
          configuration:
            configuration.workflows:
              go: {steps: []}
              destroy: {steps: []}
"""
DUTIES = {
    "workflow": "engine/schedules",
    "cron": "engine/cron",
    "trigger": "engine/triggers",
    "expiry": "engine/expiry",
}
REFUSE_ENTRIES = """
CREATE FUNCTION refuse_entries() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the log is full'; END $$;
CREATE TRIGGER refuse_entries BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION refuse_entries();
"""


async def due(bay: Bay, kind: str) -> tuple[str, str, str]:
    """Put something of this kind on an idle instance; return the instance, the schedule, and the workflow."""
    instance = await bay.instance(COMMANDS, "Running")
    workflow = "destroy" if kind == "expiry" else "go" if kind in {"cron", "trigger"} else "act.go"
    schedule = await bay.schedule(instance, workflow, kind=kind)
    if kind in {"cron", "trigger"}:
        await bay.change("UPDATE schedules SET component = 'w' WHERE id = %s", schedule)
    return instance, schedule, workflow


async def entries(bay: Bay) -> list[dict[str, Any]]:
    names = ("organization_id", "actor_id", "actor_email", "method", "address", "operation", "object", "object_id")
    rows = await bay.rows(f"SELECT {', '.join(names)}, before, after FROM audit_entries ORDER BY id")
    return [
        {**dict(zip(names, row, strict=False)), "before": row[-2], "after": json.loads(row[-1] or "null")}
        for row in rows
    ]


@pytest.mark.parametrize("kind", DUTIES)
async def test_what_falls_due_leaves_an_entry_of_its_duty(bay: Bay, engine: Engine, kind: str) -> None:
    instance, schedule, workflow = await due(bay, kind)
    [(application, due_at)] = await bay.rows(
        "SELECT application_id, (extract(epoch FROM due_at) * 1000)::bigint FROM schedules"
        " JOIN instances ON instances.id = instance_id WHERE schedules.id = %s",
        schedule,
    )
    assert await engine.stager.fire_due() == 1
    job = await bay.one("SELECT id FROM jobs WHERE instance_id = %s", instance)
    [entry] = await entries(bay)
    assert abs(entry["after"].pop("dueAt") - due_at) <= 1
    assert entry == {
        "organization_id": bay.organization_id,
        "actor_id": "engine",
        "actor_email": DUTIES[kind],
        "method": "engine",
        "address": "",
        "operation": "run_workflow",
        "object": f"/applications/{application}/instances/{instance}/workflows/{workflow}",
        "object_id": instance,
        "before": None,
        "after": {"job": job, "schedule": schedule, "owner": "u"},
    }


@pytest.mark.parametrize("kind", DUTIES)
async def test_what_cannot_be_written_down_does_not_happen(bay: Bay, engine: Engine, kind: str) -> None:
    instance, schedule, _ = await due(bay, kind)
    await bay.change(REFUSE_ENTRIES)
    with pytest.raises(psycopg.Error, match="the log is full"):
        await engine.stager.fire_due()
    assert await bay.one("SELECT count(*) FROM jobs WHERE instance_id = %s", instance) == 0
    assert await bay.one("SELECT count(*) FROM schedules WHERE id = %s", schedule) == 1
    assert await bay.status(instance) == "Running"


async def test_what_has_to_wait_or_is_gone_leaves_no_entry(bay: Bay, engine: Engine) -> None:
    busy, _, _ = await due(bay, "workflow")
    assert await bay.command(busy, "act.go")
    gone, _, _ = await due(bay, "expiry")
    await bay.change("UPDATE instances SET status = 'Destroyed' WHERE id = %s", gone)
    assert await engine.stager.fire_due() == 2
    assert await entries(bay) == []


@pytest.mark.slow
async def test_a_schedule_that_cannot_be_carried_out_any_more_is_in_the_log_with_its_failed_job(
    bay: Bay, engine: Engine
) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    await bay.schedule(instance, "act.away")
    assert await engine.stager.fire_due() == 1
    [entry] = await entries(bay)
    assert entry["after"]["job"] == await bay.one("SELECT id FROM jobs WHERE instance_id = %s", instance)
