"""Approvals that workflows wait for: lists, and answers (decision 0059)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.gate import Grants, sees_none, visible
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Permission, on_behalf
from launchbay.errors import BadRequest, Conflict, NotAllowed, NotAuthenticated, NotFound
from launchbay.model.job import ApprovalStatus, verdict_after
from launchbay.store import approvals as store
from launchbay.store import instances
from launchbay.store.approvals import AnswerContextRow, ApprovalRow, LockedRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.on_behalf import acting_token
from launchbay.usecases.permissions import Permitted
from launchbay.usecases.sign_in import require_own_password


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What somebody answers."""

    approves: bool
    comment: str


async def list_pending_approvals(
    ctx: Context, organization_id: str, *, after: str | None, count: int
) -> list[ApprovalRow]:
    """Return the approvals of an organization that the caller may see."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)

        async def read(place: str | None, size: int, **seen: Any) -> list[ApprovalRow]:
            return await store.list_pending_by_organization(
                work.connection, organization_id=organization_id, after=place or "", count=size, **seen
            )

        return await _visible(work, organization_id, read, after, count)


async def list_decided_approvals(
    ctx: Context, organization_id: str, *, before: str | None, count: int
) -> list[ApprovalRow]:
    """Return decided, expired and withdrawn approvals that the caller may see, the newest first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)

        async def read(place: str | None, size: int, **seen: Any) -> list[ApprovalRow]:
            return await store.list_decided_by_organization(
                work.connection, organization_id=organization_id, before=place, count=size, **seen
            )

        return await _visible(work, organization_id, read, before, count)


async def _visible(
    work: Work, organization_id: str, read: Callable[..., Awaitable[list[ApprovalRow]]], place: str | None, count: int
) -> list[ApprovalRow]:
    """Return the first approvals after a place that the caller may see."""
    grants = work.lookup.grants(organization_id)
    seen = {**visible(grants, Permission.READ), "approves": _approves_some(grants)}
    if not seen["approves"] and sees_none(seen):
        return []
    shown: list[ApprovalRow] = []
    size = count
    while len(shown) < count:
        rows = await read(place, size, **seen)
        shown += [row for row in rows if _may_see(work.lookup, row)]
        if len(rows) < size:
            break
        place, size = rows[-1].id, min(2 * size, limits.LIST_CHUNK_ROWS)  # few of them may be visible
    return shown[:count]


def _approves_some(grants: Grants) -> bool:
    return bool(grants.entries_for(Permission.APPROVE_INSTANCE_WORKFLOW))


async def list_own_approvals(ctx: Context, organization_id: str) -> list[ApprovalRow]:
    """Return pending approvals that the caller may answer, the oldest first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        grants = work.lookup.grants(organization_id)
        if not _approves_some(grants):
            return []
        rows = await store.list_pending_by_organization(
            work.connection,
            organization_id=organization_id,
            after="",
            count=limits.LIST_CHUNK_ROWS,
            approves=True,
            **visible(grants, Permission.READ),
        )
        found = Permitted(work.lookup, organization_id)
        return [row for row in rows if may_answer(found, row, work.actor.user_id)]


async def list_instance_approvals(
    ctx: Context, instance_id: str, *, after: str | None, count: int
) -> list[ApprovalRow]:
    """Return all approvals of an instance, decided or not, the oldest first."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_by_instance(work.connection, instance_id=record.id, after=after or "", count=count)


async def read_approval(ctx: Context, approval_id: str) -> ApprovalRow:
    """Return an approval that the caller may see. Raises NotFound, NotAllowed."""
    async with ctx.read() as work:
        row = await store.get(work.connection, approval_id=approval_id)
        if row is None:
            await work.lookup.caller(by_token=True)  # whose account has ended must hear that first
            raise _unknown(approval_id)
        try:
            await work.lookup.instance(row.instance_id, Permission.READ)
        except NotAllowed:
            if not _may_see(work.lookup, row):
                raise
    return row


async def answer_approval(ctx: Context, approval_id: str, given: AnswerRequest) -> ApprovalRow:
    """Approve or reject, and return the approval as it is then.

    Until it is decided an answer can be changed.

    The same answer again changes nothing, unless the first was given with another access token, which it would end
    with. Raises NotAllowed for who may not answer, or whose password somebody else chose and knows. Raises BadRequest
    for too long a comment, and Conflict when it was decided otherwise, or nobody is asked any more.
    """
    async with ctx.begin() as work:
        record, look = await _find_answer_context(work, approval_id)
        await require_own_password(work.connection, ctx.actor.user_id)
        if len(given.comment) > limits.APPROVAL_COMMENT_CHARS:
            raise BadRequest(f"comment: at most {limits.APPROVAL_COMMENT_CHARS} characters; shorten it.")
        await instances.lock_status(work.connection, instance_id=look.instance_id)
        locked = await store.lock(work.connection, approval_id=approval_id)
        if locked is None:
            raise _unknown(approval_id)
        own = own_answer(ctx, await store.list_answers(work.connection, approval_id=approval_id))
        is_same = own is not None and own.approves is given.approves
        if not is_same or (locked.status == ApprovalStatus.PENDING and may_replace(ctx, own)):
            _check_open(ctx.app, locked)
            status = await _write(ctx, work, record, look, given, locked.needed)
            before = {"approval": approval_id, "status": locked.status}
            after = {"approval": approval_id, "status": status, "comment": given.comment}
            at = permissions.workflow(record.application_id, record.id, look.workflow)
            await work.audit("approve" if given.approves else "reject", record, before, after, at=at)
        row = await store.get(work.connection, approval_id=approval_id)
        assert row is not None, "it is locked"
        return row


async def _write(
    ctx: Context, work: Work, record: InstanceRecord, look: AnswerContextRow, given: AnswerRequest, needed: int
) -> str:
    """Store an answer and the decision, if it follows; return the status.

    Approvals of those who may not give them anymore are deleted.
    """
    await store.insert_answer(
        work.connection,
        approval_id=look.id,
        user_id=ctx.actor.user_id,
        email=ctx.actor.email,
        approves=given.approves,
        comment=given.comment,
        token_id=ctx.actor.token_id,
    )
    rows = await store.list_answers(work.connection, approval_id=look.id)

    async def may_still(then: Work) -> bool:
        await _find_answer_context(then, look.id)
        return True

    lost = await find_lost(ctx, work, rows, may_still)
    for row in lost:
        await store.delete_answer(work.connection, approval_id=look.id, user_id=row.user_id)
        at = permissions.workflow(record.application_id, record.id, look.workflow)
        await work.audit("withdraw_approval", record, {"approval": look.id, "by": row.email}, at=at)
    status = verdict_after([row.approves for row in rows if row not in lost], needed)
    if status is not ApprovalStatus.PENDING:
        await store.decide(work.connection, approval_id=look.id, status=status)
    return status.value


class Answered(Protocol):
    """Who answered, perhaps with an access token."""

    @property
    def user_id(self) -> str: ...
    @property
    def approves(self) -> bool: ...
    @property
    def token_id(self) -> str | None: ...


AnsweredRow = TypeVar("AnsweredRow", bound=Answered)


def own_answer(ctx: Context, answers: Sequence[AnsweredRow]) -> AnsweredRow | None:
    """Return what the caller has answered before."""
    return next((each for each in answers if each.user_id == ctx.actor.user_id), None)


def may_replace(ctx: Context, own: Answered | None) -> bool:
    """Tell whether the caller's answer replaces the same answer of before.

    An answer by an access token ends with the token; one in person doesn't, and is kept.
    """
    return own is not None and own.token_id not in {None, ctx.actor.token_id}


async def find_lost(
    ctx: Context, work: Work, answers: Sequence[AnsweredRow], may_still: Callable[[Work], Awaitable[bool]]
) -> list[AnsweredRow]:
    """Return the approvals of those who may not give them anymore.

    `may_still` decides in the unit of work of who approved, with the access token of then. It returns False or raises
    NotAllowed or NotAuthenticated.
    """
    lost: list[AnsweredRow] = []
    with ctx.app.database.joined(work.connection):
        for answer in answers:
            if not answer.approves:
                continue
            try:
                token = await acting_token(ctx.app, answer.token_id)
                actor = replace(on_behalf(answer.user_id), token=token)
                is_good = await may_still(Work(replace(ctx, actor=actor), work.connection))
            except (NotAllowed, NotAuthenticated):
                is_good = False
            if not is_good:
                lost.append(answer)
    return lost


async def _find_answer_context(work: Work, approval_id: str) -> tuple[InstanceRecord, AnswerContextRow]:
    """Return the approval and its instance for somebody who may answer."""
    row = await store.get_answer_context(work.connection, approval_id=approval_id, user_id=work.actor.user_id)
    if row is None:
        await work.lookup.caller(by_token=True)  # whose account has ended must hear that first
        raise _unknown(approval_id)
    record = await work.lookup.instance(row.instance_id, Permission.APPROVE_INSTANCE_WORKFLOW, workflow=row.workflow)
    if row.permission is not None:
        target = permissions.workflow(record.application_id, record.id, row.workflow)
        environment = permissions.environment(record.environment_id)
        work.lookup.require(record.organization_id, Permission(row.permission), target, environment)
    if row.role_id is not None and not row.holds_role:
        name = "a role that was deleted since" if row.role_name is None else f"the role {row.role_name!r}"
        raise NotAllowed(f"This is for people with {name}.", "Ask one of them, or cancel the job.")
    if row.is_barred:
        raise NotAllowed("You have asked for this yourself; somebody else has to decide.", code="ApprovalByRequester")
    return record, row


def may_answer(found: Permitted, row: ApprovalRow, user_id: str) -> bool:
    """Return whether `_find_answer_context` would let them, by what lists know."""
    if row.role_id is not None and not found.holds_role(row.role or ""):
        return False
    if row.not_by_requester and user_id in row.requesters:
        return False
    wanted = [Permission.APPROVE_INSTANCE_WORKFLOW, *([] if row.permission is None else [Permission(row.permission)])]
    target = permissions.workflow(row.application_id, row.instance_id, row.workflow)
    return all(found.allows(permission, target, permissions.environment(row.environment_id)) for permission in wanted)


def _check_open(app: AppContext, locked: LockedRow) -> None:
    if locked.status == ApprovalStatus.PENDING and locked.expires_at > app.clock.now():
        return
    status = ApprovalStatus.EXPIRED.value if locked.status == ApprovalStatus.PENDING else locked.status
    raise Conflict(f"The approval is {status}; it no longer needs an answer.", code="ApprovalDecided")


def _may_see(lookup: Lookup, row: ApprovalRow) -> bool:
    """Return whether the caller may read an approval's instance or approve."""
    environment = permissions.environment(row.environment_id)
    instance = permissions.instance(row.application_id, row.instance_id)
    workflow = permissions.workflow(row.application_id, row.instance_id, row.workflow)
    return any(
        lookup.allows(row.organization_id, permission, target, environment)
        for permission, target in (
            (Permission.READ, instance),
            (Permission.APPROVE_INSTANCE_WORKFLOW, workflow),
        )
    )


def _unknown(approval_id: str) -> NotFound:
    return NotFound(f"Unknown approval {approval_id[:80]!r}.", "List the pending approvals of the organization.")
