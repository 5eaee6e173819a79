"""Audit entries for changes of the engine, in the same transaction (guarantee 14).

The actor is `engine`, and its email address names the background task, such as `engine/expiry`. Entries of schedules
name the owner, the user who created the schedule.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.auth import permissions
from launchbay.auth.audit import Audit
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import to_ms
from launchbay.runtime.contract import JobRun
from launchbay.store.database import Connection
from launchbay.store.jobs import DeletedInstanceRow
from launchbay.store.schedules import DueRow

ENGINE = "engine"
# By the kind of schedule.
_TASKS = {"workflow": "schedules", "cron": "cron", "trigger": "triggers", "expiry": "expiry"}


class EngineAudit:
    """Writes the audit entries of background tasks."""

    def __init__(self, secret_key: SecretKey) -> None:
        self._audit = Audit(secret_key)

    async def schedule_fired(
        self, connection: Connection, due: DueRow, job_id: str, organization_id: str, application_id: str
    ) -> None:
        await self._audit.record(
            connection,
            engine_actor(_TASKS[due.kind]),
            "run_workflow",
            str(permissions.workflow(application_id, due.instance_id, due.workflow)),
            organization_id=organization_id,
            after={"job": job_id, "schedule": due.id, "dueAt": to_ms(due.due_at), "owner": due.owner_id},
        )

    async def service_command_run(
        self, connection: Connection, *, job: JobRun, service_id: str, command: str, arguments: Mapping[str, Any]
    ) -> None:
        await self._audit.record(
            connection,
            engine_actor("workflows"),
            "run_service_command",
            str(permissions.service(service_id)),
            organization_id=job.organization_id,
            after={
                "command": command,
                "arguments": self._audit.fingerprints(arguments),
                "instance": job.instance_id,
                "job": job.job_id,
            },
        )

    async def instance_deleted(self, connection: Connection, instance: DeletedInstanceRow) -> None:
        await self._audit.record(
            connection,
            engine_actor("retention"),
            "delete_instance",
            str(permissions.instance(instance.application_id, instance.id)),
            organization_id=instance.organization_id,
            before={"name": instance.name, "status": instance.status},
        )


def engine_actor(task: str) -> Actor:
    """Return who acts where nobody asked: a task of the engine."""
    return Actor(ENGINE, f"{ENGINE}/{task}", task, "", Method.ENGINE)
