"""Waits for the answers to approvals on behalf of steps (decision 0059).

A decision is a row that any process may commit. `poll` runs every second: one statement serves all steps that wait in
this process, and none is sent if no step waits. It also expires overdue approvals.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from launchbay import limits
from launchbay.auth.permissions import permission_named
from launchbay.clock import Clock
from launchbay.engine.journal import REFUSED, postgres_text, retry_while_unavailable
from launchbay.errors import ActionFailed, Fenced
from launchbay.ids import new_id
from launchbay.model.job import Answer, ApprovalStatus, Question, Verdict, approver_message
from launchbay.runtime.contract import JobRun
from launchbay.runtime.slot import Rest, resting
from launchbay.store import approvals as store
from launchbay.store import instances
from launchbay.store.approvals import DecidedRow
from launchbay.store.database import Database

POLL_S = 1.0


class _Approver(NamedTuple):
    permission: str | None = None
    role_id: str | None = None
    role: str | None = None


class PendingApprovals:
    """Implements `runtime.contract.Approvals`; one object serves all jobs of the process."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: dict[str, asyncio.Event] = {}

    async def ask(self, job: JobRun, path: str, question: Question) -> Verdict:
        """Request the approval unless an earlier claim has, and wait for the decision.

        Raises ActionFailed if no one can be asked, Fenced if another worker holds the job.
        """
        asked = await retry_while_unavailable(partial(self._find, job, path))
        if asked is None:
            asked = await self._ask_people(job, path, question)
        if asked.status == ApprovalStatus.PENDING:
            left_s = (question.expires_at - self._clock.now()).total_seconds()
            ends_at_s = asyncio.get_running_loop().time() + max(left_s, 0.0)
            with resting(Rest(ends_at_s, approval_id=asked.id)):
                await self._decided(asked.id)
        return await retry_while_unavailable(partial(self._verdict, asked.id))

    async def poll(self) -> None:
        """Wake the steps whose approvals were decided, and expire those that are overdue."""
        if not self._waiting:
            return
        ids = list(self._waiting)
        async with self._database.connection() as connection:
            for row in await store.list_due(connection, approval_ids=ids, now=self._clock.now()):
                await self._expire(row.id, row.instance_id)
            for decided in await store.list_decided(connection, approval_ids=ids):
                if decided.id in self._waiting:
                    self._waiting[decided.id].set()

    async def _ask_people(self, job: JobRun, path: str, question: Question) -> DecidedRow:
        who = await retry_while_unavailable(partial(self._who, job, question))
        approval_id = await retry_while_unavailable(partial(self._ask, job, path, question, who))
        approver = approver_message(permission=who.permission, role=who.role)
        job.journal.log(path, "info", f"Waiting for approval by {approver}: {question.text}")
        return DecidedRow(approval_id, ApprovalStatus.PENDING)

    async def _find(self, job: JobRun, path: str) -> DecidedRow | None:
        """Return the approval that an earlier claim of the job has asked for."""
        async with self._database.connection() as connection:
            return await store.get_by_step(connection, job_id=job.job_id, step=path)

    async def _decided(self, approval_id: str) -> None:
        decided = self._waiting[approval_id] = asyncio.Event()
        try:
            await decided.wait()
        finally:
            if self._waiting.get(approval_id) is decided:  # else the job has come back before it had gone
                del self._waiting[approval_id]

    async def _who(self, job: JobRun, question: Question) -> _Approver:
        if question.who is None:
            return _Approver()
        permission = permission_named(question.who)
        if permission is not None:
            return _Approver(permission=permission.value)
        async with self._database.connection() as connection:
            role_id = await store.get_role_by_name(connection, organization_id=job.organization_id, name=question.who)
        if role_id is None:
            raise ActionFailed(
                f"Parameter 'who': {question.who[:80]!r} is not a permission or a role of the organization."
                " Create the role, or use an existing one.",
                retryable=False,
            )
        return _Approver(role_id=role_id, role=question.who)

    async def _ask(self, job: JobRun, path: str, question: Question, who: _Approver) -> str:
        async with self._database.transaction() as connection:
            pending = await store.count_pending(connection, organization_id=job.organization_id) or 0
            if pending >= limits.APPROVALS_PENDING:
                raise ActionFailed(
                    f"The organization has {pending} pending approvals (limit: {limits.APPROVALS_PENDING}).",
                    "Answer some first.",
                )
            approval_id = await store.insert(
                connection,
                approval_id=new_id(),
                organization_id=job.organization_id,
                job_id=job.job_id,
                fence=job.fence,
                step=path,
                text=postgres_text(job.secrets.redact(question.text), limits.APPROVAL_TEXT_CHARS),
                permission=who.permission,
                role_id=who.role_id,
                needed=question.needed,
                not_by_requester=question.not_by_requester,
                expires_at=question.expires_at,
            )
        if approval_id is None:
            raise Fenced(REFUSED)
        return approval_id

    async def _expire(self, approval_id: str, instance_id: str) -> None:
        async with self._database.transaction() as connection:
            await instances.lock_status(connection, instance_id=instance_id)
            row = await store.lock(connection, approval_id=approval_id)
            if row is not None:
                await store.decide(connection, approval_id=approval_id, status=ApprovalStatus.EXPIRED)

    async def _verdict(self, approval_id: str) -> Verdict:
        async with self._database.connection() as connection:
            rows = await store.list_answers(connection, approval_id=approval_id)
            [decided] = await store.list_decided(connection, approval_ids=[approval_id])
        answers = tuple(Answer(row.email, row.approves, row.comment, row.at) for row in rows)
        return Verdict(ApprovalStatus(decided.status), answers)
