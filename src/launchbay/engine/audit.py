"""What the engine changes by itself is in the audit log as well, in the transaction of the change (promise 14).

Nobody called: the actor is `engine`, and its e-mail address names the duty, such as `engine/expiry`. Whoever set a
schedule is its owner, and stands in the entry.
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
from launchbay.store.webhooks import DisabledRow

ENGINE = "engine"
# By the kind of what fell due.
_TASKS = {"workflow": "schedules", "cron": "cron", "trigger": "triggers", "expiry": "expiry"}


class EngineAudit:
    """Writes the entries of what the duties of the engine change."""

    def __init__(self, secret_key: SecretKey) -> None:
        self._audit = Audit(secret_key)

    async def fired(
        self, connection: Connection, due: DueRow, job_id: str, organization_id: str, application_id: str
    ) -> None:
        """Write down that what fell due on an instance has become a job."""
        await self._audit.record(
            connection,
            _actor(_TASKS[due.kind]),
            "run_workflow",
            str(permissions.workflow(application_id, due.instance_id, due.workflow)),
            organization_id=organization_id,
            after={"job": job_id, "schedule": due.id, "dueAt": to_ms(due.due_at), "owner": due.owner_id},
        )

    async def commanded(
        self, connection: Connection, *, job: JobRun, service_id: str, given: tuple[str, Mapping[str, Any]]
    ) -> None:
        """Write down that a job has run a command, with these arguments, which changes a service."""
        command, arguments = given
        await self._audit.record(
            connection,
            _actor("workflows"),
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

    async def disabled(self, connection: Connection, webhook: DisabledRow, reason: str) -> None:
        """Write down that a webhook which nobody answers was switched off."""
        await self._audit.record(
            connection,
            _actor("webhooks"),
            "update_webhook",
            f"/webhooks/{webhook.id}",
            organization_id=webhook.organization_id,
            before={"enabled": True},
            after={"enabled": False, "reason": reason},
        )

    async def dropped(self, connection: Connection, instance: DeletedInstanceRow) -> None:
        """Write down that a destroyed instance, whose time is over, was deleted with its records."""
        await self._audit.record(
            connection,
            _actor("retention"),
            "delete_instance",
            str(permissions.instance(instance.application_id, instance.id)),
            organization_id=instance.organization_id,
            before={"name": instance.name, "status": instance.status},
        )


def _actor(task: str) -> Actor:
    return Actor(ENGINE, f"{ENGINE}/{task}", task, "", Method.ENGINE)
