"""What changes would do, step by step (decision 0206).

A request keeps what was asked, and a process with an engine finds out, since that starts programs. The steps of a job
that somebody approved with a plan do exactly what it says.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog

from launchbay import limits
from launchbay.auth.permissions import Permission, on_behalf
from launchbay.concurrency import uncancelled
from launchbay.engine.journal import run_until_available
from launchbay.errors import (
    BadRequest,
    Conflict,
    Fenced,
    LaunchbayError,
    NotApproved,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from launchbay.features.plans import rows as store
from launchbay.features.plans.ahead import KeptAct, PlanRequest, Target, look_ahead, read_request
from launchbay.features.plans.finding import FindingActions
from launchbay.features.plans.look import Found, look
from launchbay.features.plans.rows import KeptRequest, PlanRow, TakenPlan, artifact_purpose, request_purpose
from launchbay.features.plans.rules import (
    deletions,
    digest_of,
    digest_of_shown,
    leaves_open,
    not_allowed,
    read_steps,
)
from launchbay.ids import new_id
from launchbay.model.changes import ChangeKind, Refusal
from launchbay.model.job import outer_paths
from launchbay.planning.decisions import Refused
from launchbay.runtime.contract import JobRun, RuntimeDeps
from launchbay.store import organizations
from launchbay.store.database import Connection
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.leases import LEASE_S, LeasedWork, Leases
from launchbay.usecases.on_behalf import acting_token

log = structlog.get_logger(__name__)
POLL_S = 0.5
_AT_ONCE = 3  # plans that one process makes at the same time
_OF_ORGANIZATION = 2  # of these: another one doesn't wait for its plans, which take up to PLAN_S
_UNREADABLE = 100  # plans that a process remembers to leave to others
_EXPIRED = 500  # plans that one round deletes
_JOIN_S = 5  # before a client tries again to read a look that continues
_LOOK_S = 0.2  # between two looks at a plan that somebody waits for
_looks: Counter[str] = Counter()  # that requests of this process wait for, by organization
_SHOWN = 10  # addresses of one refusal


async def create_plan(ctx: Context, organization_id: str, request: PlanRequest) -> str:
    """Keep what to plan, and return the plan's ID.

    Raises BadRequest and NotAllowed as the change itself would, and TooManyRequests beyond the limit of waiting ones.
    Rules are asked as for the change, since a plan runs the code of modules (decision 0134).
    """
    request.check()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        await _require_read(work, request)  # or the caller couldn't see what it made
        target = await look_ahead(work, organization.id, request)
        await _ask_rules(work, request, target)
        await organizations.lock(work.connection, organization_id=organization.id)
        asked = _asked(work, organization.id, request)
        if asked is not None:
            joined = await store.get_asked(
                work.connection,
                asked=asked,
                owner_id=work.actor.user_id,
                organization_id=organization.id,
                fresh_s=limits.LOOK_FRESH_S,
            )
            if joined is not None:
                return joined
        plan_id = await keep_plan(work, organization.id, request, asked=asked)
        await work.audit("create_plan", organization, after=_noted(request), at=f"/plans/{plan_id}")
    return plan_id


def _asked(work: Work, organization_id: str, request: PlanRequest) -> str | None:
    """Return what two looks at the same have in common; None for plans.

    They have the same caller. It is a fingerprint, as parameters may be secrets.
    """
    if request.act != "adopt":
        return None
    actor = work.actor
    caller = [organization_id, actor.user_id, actor.token_id, actor.method, actor.is_agent]
    text = msgspec.json.encode([caller, request], order="deterministic")
    return work.app.secret_key.fingerprint(text, "look")


_KINDS: Mapping[KeptAct, ChangeKind] = {
    "launch": "launch",
    "adopt": "launch",
    "reconfigure": "reconfigure",
    "relaunch": "run",
    "manage": "reconfigure",
    "destroy": "destroy",
}


async def _ask_rules(work: Work, request: PlanRequest, target: Target) -> None:
    """Ask about the change itself: rules name its operation.

    An adoption decides itself after the look, and records an override then.
    """
    operations = {
        "launch": "launch_application",
        "adopt": "adopt_instance",
        "reconfigure": "reconfigure_instance",
        "manage": "take_over_instance",
    }
    operation, kind = operations.get(request.act, "run_workflow"), _KINDS[request.act]
    at, proposed = target.environment_id, target.proposed
    if request.act != "adopt":
        await work.decide(operation, target.changed, kind=kind, environment_id=at, proposed=proposed)
        return
    answer = await work.foresee(operation, target.changed, kind=kind, environment_id=at, proposed=proposed)
    if isinstance(answer, Refusal):
        raise Refused(answer)


def _noted(request: PlanRequest) -> dict[str, str]:
    """Return what the audit log says of a plan."""
    if request.application_id is not None:
        return {"act": request.act, "applicationId": request.application_id}
    return {"act": request.act, "instanceId": request.instance_id or ""}


class OfChangeSet(NamedTuple):
    """The place of an instance in a change set.

    The change set can be applied for `lasts_s`.
    """

    change_set_id: str
    place: int
    lasts_s: float


async def keep_plan(
    work: Work, organization_id: str, request: PlanRequest, of: OfChangeSet | None = None, asked: str | None = None
) -> str:
    """Write a plan to make, perhaps of a change set, and return its ID.

    `asked` is by what a later request finds a look. Raises TooManyRequests.
    """
    lasts_s = limits.PLAN_DAYS * 24 * 3600 if asked is None else limits.PLAN_S + limits.LOOK_FRESH_S
    if (await store.count_waiting(work.connection, organization_id=organization_id) or 0) >= limits.PLANS_WAITING:
        raise TooManyRequests(
            f"The organization waits for {limits.PLANS_WAITING} plans. Try again when some are made.", retry_after_s=30
        )
    await store.delete_oldest(work.connection, organization_id=organization_id, kept=limits.PLANS_KEPT)
    plan_id = new_id()
    actor = work.actor
    request = msgspec.structs.replace(request, token_id=actor.token_id, method=actor.method, is_agent=actor.is_agent)
    await store.insert(
        work.connection,
        id=plan_id,
        organization_id=organization_id,
        owner_id=work.actor.user_id,
        change_set_id=None if of is None else of.change_set_id,
        place=None if of is None else of.place,
        request=work.app.secret_key.seal(msgspec.json.encode(request), request_purpose(plan_id)),
        asked=asked,
        expires_in_s=lasts_s if of is None else of.lasts_s,
    )
    return plan_id


async def plans_of_change_set(work: Work, organization_id: str, change_set_id: str) -> dict[int, PlanRow]:
    """Return the plans of a change set by the place of their instance."""
    rows = await store.list_of_change_set(work.connection, change_set_id=change_set_id, organization_id=organization_id)
    return {row.place: row for row in rows if row.place is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What somebody agrees to.

    `allow_deletes` are patterns of addresses. `digest` is that of the plans that they saw; None for who didn't say it.
    """

    allow_deletes: Sequence[str] = ()
    digest: str | None = None


async def require_plans(
    work: Work, organization_id: str, change_set_id: str, consent: Consent, visible: Collection[int]
) -> list[str]:
    """Return the digests of a change set's plans, which are made and allowed.

    `visible` are the places that the caller may read. Raises Conflict for a plan that isn't made, for others than those
    that were seen, and for deletions that no pattern allows.
    """
    digests: list[str] = []
    deleted: list[str] = []
    plans = await plans_of_change_set(work, organization_id, change_set_id)
    shown = digest_of_shown({place: row.shown for place, row in plans.items() if place in visible})
    if consent.digest is not None and consent.digest != shown:
        raise Conflict("The plans have changed since they were shown.", "Look at them again.", code="PlanChanged")
    hidden = 0
    for place, row in plans.items():
        if row.status == "Failed":
            problem = f"A plan failed: {row.problem}" if place in visible else "A plan failed."
            raise Conflict(problem, "Create the change set again, possibly without plans.", code="PlanFailed")
        if row.digest is None or row.result is None:
            remedy = "Wait until the status of the effects of each instance is Planned."
            raise Conflict("The plans aren't made yet.", remedy, code="PlanUnderWay")
        digests.append(row.digest)
        left = not_allowed(deletions(read_steps(row.result)), consent.allow_deletes)
        if place in visible:
            deleted += left
        else:
            hidden += len(left)
    if deleted or hidden:
        more = max(0, len(deleted) - _SHOWN) + hidden
        named = [*deleted[:_SHOWN], *([f"{more} that aren't shown"] if more else [])]
        raise Conflict(
            f"The plan deletes {', '.join(named)}, which isn't allowed.",
            "To allow that, repeat it with allowDeletes: patterns of these addresses.",
            code="DeletionsNotAllowed",
        )
    return digests


async def bind_plan(work: Work, organization_id: str, change_set_id: str, place: int, job_id: str | None) -> None:
    """Hold a job to the plan of its place in a change set."""
    await store.bind(
        work.connection,
        change_set_id=change_set_id,
        place=place,
        organization_id=organization_id,
        job_id=job_id,
        days=limits.PLAN_DAYS,
    )


async def end_plans(work: Work, organization_id: str, change_set_id: str) -> None:
    """Stop the plans of a change set that nobody applies.

    What they say of its instances stays, without what a job would need.
    """
    await store.delete_waiting(work.connection, change_set_id=change_set_id, organization_id=organization_id)
    await store.delete_artifacts(work.connection, change_set_id=change_set_id)


async def delete_plans(work: Work, organization_id: str, change_set_id: str) -> None:
    """Delete the plans of a change set."""
    await store.delete_of_change_set(work.connection, change_set_id=change_set_id, organization_id=organization_id)


async def read_plan(ctx: Context, plan_id: str) -> PlanRow:
    """Return a plan of the caller.

    Raises NotFound for those of others, NotAllowed for who can't read what it is about any more, and Unavailable if
    only a later version knows what was asked.
    """
    async with ctx.read() as work:
        found, kept = await _own(work, plan_id)
        try:
            request = read_request(work.app.secret_key.open(bytes(kept.request), request_purpose(found.id)))
        except msgspec.ValidationError:
            raise Unavailable("Only servers of a later version can read this plan. Retry.", retry_after_s=5) from None
        await _require_read(work, request)
        return found


async def _require_read(work: Work, request: PlanRequest) -> None:
    if request.instance_id is not None:
        await work.lookup.instance(request.instance_id, Permission.READ)
    else:
        await work.lookup.application(request.application_id or "", Permission.READ)


async def find_existing(ctx: Context, organization_id: str, request: PlanRequest, wait_s: float) -> Found:
    """Wait until a process with an engine has found what runs.

    The artifacts say it. It commits at once, also within a transaction, so that the other process sees what was asked.
    Raises as `create_plan`, BadRequest if nothing can be found, and Unavailable after that time. Then the look
    continues, and who asks the same again joins it.
    """
    if _looks[organization_id] >= _OF_ORGANIZATION:
        raise TooManyRequests(
            "The organization already waits for checks of existing objects. Try again.", retry_after_s=5
        )
    if _looks.total() >= limits.LOOKS_AT_ONCE:  # each may hold the connection of a transaction meanwhile
        raise TooManyRequests(
            "This server already waits for other checks of existing objects. Try again.", retry_after_s=5
        )
    _looks[organization_id] += 1
    try:
        with ctx.app.database.apart():
            return await _find_existing(ctx, organization_id, request, wait_s)
    finally:
        _looks.subtract([organization_id])


async def _find_existing(ctx: Context, organization_id: str, request: PlanRequest, wait_s: float) -> Found:
    until_s = time.monotonic() + wait_s
    while True:
        plan_id = await create_plan(ctx, organization_id, request)
        with suppress(NotFound):  # who asked for the same has read it first
            row = await _made(ctx, plan_id, until_s)
            if row is not None:
                return await _read_look(ctx, row)
        if time.monotonic() >= until_s:
            raise Unavailable(
                f"The check of existing objects takes longer than {wait_s:g} s, and continues.",
                "Send the same request again to get its result.",
                code="LookUnderWay",
                retry_after_s=_JOIN_S,
            )


async def _made(ctx: Context, plan_id: str, until_s: float) -> PlanRow | None:
    """Wait for a plan; None: it isn't made until then. Raises as `read_plan`."""
    while (row := await read_plan(ctx, plan_id)).status == "Waiting":
        if time.monotonic() >= until_s:
            return None
        await asyncio.sleep(_LOOK_S)
    return row


async def _read_look(ctx: Context, row: PlanRow) -> Found:
    """Return what a look has found, and delete it.

    Raises BadRequest if it failed, and NotFound if somebody who joined it has deleted it.
    """
    try:
        if row.problem is not None:
            raise BadRequest(row.problem)
        found = Found()
        found.steps = read_steps(row.result or "[]")
        async with ctx.app.database.transaction() as connection:
            if await store.lock_plan(connection, id=row.id) is None:
                raise NotFound("Another request for the same check has read its result. Try again.")
            for each in await store.list_artifacts(connection, plan_id=row.id):
                opened = ctx.app.secret_key.open(bytes(each.sealed), artifact_purpose(row.id, each.path))
                found.artifacts[each.path] = opened
        return found
    finally:
        await uncancelled(_delete_quietly(ctx, row.id))


async def _delete_quietly(ctx: Context, plan_id: str) -> None:
    """Delete a plan that nobody reads again; else it expires."""
    with suppress(LaunchbayError):
        async with ctx.begin() as work:
            await store.delete(work.connection, plan_id=plan_id, owner_id=work.actor.user_id)


async def delete_plan(ctx: Context, plan_id: str) -> None:
    """Delete a plan of the caller. Raises Conflict for a change set's plan."""
    async with ctx.begin() as work:
        found, kept = await _own(work, plan_id)
        if kept.change_set_id is not None:
            raise Conflict("The plan belongs to a change set.", "Delete the change set.", code="PlanOfChangeSet")
        await store.delete(work.connection, plan_id=found.id, owner_id=work.actor.user_id)
        await work.audit("delete_plan", found.organization_id, at=f"/plans/{found.id}")


async def _own(work: Work, plan_id: str) -> tuple[PlanRow, KeptRequest]:
    kept = await store.get_request(work.connection, plan_id=plan_id, owner_id=work.actor.user_id)
    found = await store.get(work.connection, plan_id=plan_id, owner_id=work.actor.user_id)
    if found is None or kept is None:
        raise NotFound(f"You have no plan {plan_id!r}. It may have expired.")
    await work.lookup.member_of(found.organization_id)
    return found, kept


class PlanRunner:
    """Makes plans that are due; `advance` is one round."""

    def __init__(self, app: AppContext, runtime: RuntimeDeps) -> None:
        self._app = app
        self._runtime = runtime
        self._leases = Leases("plan", _AT_ONCE)
        self._under_way: Counter[str] = Counter()  # by organization
        self._unreadable: list[str] = []  # plans with an act of a later version, the newest last
        self.close = self._leases.close

    async def advance(self) -> None:
        """Begin to make a plan that is due, and delete expired ones."""
        async with self._app.database.transaction() as connection:
            await store.delete_expired(connection, count=_EXPIRED)
            busy = [each for each, number in self._under_way.items() if number >= _OF_ORGANIZATION]
            row = None
            if self._leases.room:
                row = await store.take(connection, lease_s=LEASE_S, busy=busy, unreadable=self._unreadable)
        if row is not None:
            self._under_way[row.organization_id] += 1
            renew, do, failed = partial(self._renew, row), partial(self._make, row), partial(self._failed, row)
            self._leases.begin(LeasedWork(row.id, renew, do, failed))

    async def _renew(self, row: TakenPlan) -> int:
        async with self._app.database.transaction() as connection:
            return await store.renew(connection, plan_id=row.id, fence=row.fence, lease_s=LEASE_S)

    async def _failed(self, row: TakenPlan, error: LaunchbayError) -> None:
        async with self._app.database.transaction() as connection:
            await self._finish(connection, row, "Failed", problem=str(error))

    async def _make(self, row: TakenPlan) -> None:
        try:
            await self._plan(row)
        finally:
            self._under_way[row.organization_id] -= 1

    async def _read(self, row: TakenPlan) -> PlanRequest:
        """Return what was asked.

        Raises Fenced for what only a later version knows: a server of that one makes the plan.
        """
        try:
            request: PlanRequest = read_request(self._app.secret_key.open(bytes(row.request), request_purpose(row.id)))
        except msgspec.ValidationError:
            self._unreadable = [*self._unreadable[-_UNREADABLE:], row.id]
            async with self._app.database.transaction() as connection:
                await store.give_back(connection, plan_id=row.id, fence=row.fence)
            raise Fenced("A server of a later version knows what was asked.") from None
        return request

    async def _plan(self, row: TakenPlan) -> None:
        if row.fence > limits.PLAN_ATTEMPTS:
            raise BadRequest(
                f"The plan was started {limits.PLAN_ATTEMPTS} times, and each time the server stopped before the end.",
                "Check the servers' memory.",
            )
        request = await self._read(row)
        token = await acting_token(self._app, request.token_id)
        # As rules see them.
        asked: dict[str, Any] = {"token": token, "method": request.method, "is_agent": request.is_agent}
        actor = replace(on_behalf(row.owner_id), **asked)
        asking = Context(self._app, actor, change_set=row.change_set_id, override=request.override)
        async with asking.begin() as work:
            await work.lookup.organization(row.organization_id)
            target = await look_ahead(work, row.organization_id, request)
            await _ask_rules(work, request, target)
        found, finds = Found(), request.act == "adopt"
        runtime = (
            replace(self._runtime, actions=FindingActions(self._runtime.actions, request.only))
            if finds
            else self._runtime
        )
        try:
            async with asyncio.timeout(limits.PLAN_S):
                for each in target.instances:
                    await look(self._app, runtime, row.id, each, found)
        except TimeoutError:
            raise BadRequest(
                f"The plan takes more than {limits.PLAN_S:g} s. It was at step {found.at or 'none'}.",
                "Give that step a shorter timeout, or plan a part of it, such as fewer submodules.",
            ) from None
        result = msgspec.json.encode(found.steps).decode()
        async with self._app.database.transaction() as connection:
            if row.change_set_id is not None:
                await organizations.lock(connection, organization_id=row.organization_id)
                await self._require_room(connection, row, found)
            await self._finish(connection, row, "Planned", result=result, digest=digest_of(found.steps))
            # No job runs what another plan without a change set says.
            for path, artifact in found.artifacts.items() if finds or row.change_set_id is not None else ():
                sealed = self._app.secret_key.seal(artifact, artifact_purpose(row.id, path))
                await store.insert_artifact(connection, plan_id=row.id, path=path, sealed=sealed)

    @staticmethod
    async def _require_room(connection: Connection, row: TakenPlan, found: "Found") -> None:
        """Raise BadRequest beyond what a change set shows, or its organization keeps."""
        kept = await store.get_kept_bytes(
            connection, organization_id=row.organization_id, change_set_id=row.change_set_id
        )
        assert kept is not None, "sums have a row"
        if kept.results + found.result_bytes > limits.PLANS_RESULT_BYTES:
            raise BadRequest(
                f"The plans of the change set have more than {limits.PLANS_RESULT_BYTES} bytes.",
                "Make change sets of fewer instances.",
            )
        if kept.artifacts + found.artifact_bytes > limits.PLANS_ARTIFACT_BYTES:
            raise BadRequest(
                f"The organization's plans keep more than {limits.PLANS_ARTIFACT_BYTES} bytes for the jobs.",
                "Apply, reject or delete change sets.",
            )

    async def _finish(
        self,
        connection: Connection,
        row: TakenPlan,
        status: str,
        *,
        result: str | None = None,
        problem: str | None = None,
        digest: str | None = None,
    ) -> None:
        request = read_request(self._app.secret_key.open(bytes(row.request), request_purpose(row.id)))
        about = msgspec.json.encode(msgspec.structs.replace(request, body={}))
        done = await store.finish(
            connection,
            plan_id=row.id,
            fence=row.fence,
            status=status,
            result=result,
            problem=problem,
            digest=digest,
            # The body may have secrets, and nothing needs it anymore. The rest says who may read the plan.
            request=self._app.secret_key.seal(about, request_purpose(row.id)),
        )
        if not done:
            raise Fenced("The plan was deleted, or another process has it.")
        log.info("plan.ended", plan=row.id, status=status)


class JobPlans:
    """Implements `runtime.contract.ApprovedPlans`; one object serves all jobs of the process."""

    def __init__(self, app: AppContext) -> None:
        self._database = app.database
        self._secret_key = app.secret_key

    async def artifact(self, job: JobRun, path: str) -> bytes | None:
        """Return with what a step of a held job does exactly what was approved.

        None if the plan left the step open. Raises NotApproved.
        """
        found = await run_until_available(
            self._database,
            store.get_of_job,
            job_id=job.job_id,
            **_step(job, path),
        )
        if found is None:
            raise NotApproved("The plan that was approved was deleted. Nothing was done.")
        if found.refused is not None:
            raise NotApproved(found.refused)
        if found.sealed is not None:
            return self._secret_key.open(bytes(found.sealed), artifact_purpose(found.id, path))
        if not leaves_open(read_steps(found.result or "[]"), path):
            raise NotApproved("This step isn't in the plan that was approved. Nothing was done.")
        return None

    async def refuse(self, job: JobRun, path: str, reason: str, *, replans: bool) -> None:
        """Note that a step of a job wasn't as approved.

        A plan that is gone says nothing of its change set, so nothing is noted then.
        """
        noted = {"job_id": job.job_id, "reason": reason[: limits.LOG_LINE_CHARS], "replans": replans}
        await run_until_available(self._database, store.refuse_job, **noted, **_step(job, path))

    async def refusal(self, job: JobRun, path: str) -> str | None:
        """Return why a step of a job, or one inside it, wasn't as approved."""
        found = await run_until_available(self._database, store.get_refused, job_id=job.job_id)
        paths = set() if found is None else {around for each in found.paths for around in (each, *outer_paths(each))}
        return found.reason if found is not None and path in paths else None

    async def begin(self, job: JobRun, path: str, attempt: str) -> None:
        """Note that an attempt of a step begins what was approved."""
        await run_until_available(self._database, store.begin_step, begun_by=attempt, **_step(job, path))

    async def begun_by(self, job: JobRun, path: str) -> str | None:
        """Return which attempt of a step has begun, and didn't fail."""
        return await run_until_available(self._database, store.begun_by, **_step(job, path))

    async def end(self, job: JobRun, path: str) -> None:
        """Note that an attempt failed."""
        await run_until_available(self._database, store.begin_step, begun_by=None, **_step(job, path))


def _step(job: JobRun, path: str) -> Mapping[str, Any]:
    return {"job_ids": [job.job_id, *job.plan.resumes], "organization_id": job.organization_id, "path": path}
