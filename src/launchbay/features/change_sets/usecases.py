"""Change sets: what changes would do, kept as shown, approved, and applied so.

The plan of each instance is reduced to facts: versions, parameters as fingerprints, links, the environment. To apply a
change set is one transaction. It plans again, and refuses if a fact has changed since (promise 15).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, starmap
from typing import Any, Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission, Resource, on_behalf
from launchbay.clock import iso_time
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed, NotFound, TooManyRequests
from launchbay.features.change_sets import rows as store
from launchbay.features.change_sets.rows import ChangeSet, ChangeSetInstance, FollowUpRow, StoppedRow, act_purpose
from launchbay.features.change_sets.rules import (
    ChangePolicy,
    follow_up_act,
    follow_up_comment,
    is_covered,
    missing_approval,
    read_policy,
)
from launchbay.features.directories.plans import (
    DirectoryPlan,
    PlannedObject,
    check_files,
    directory_contents,
    find_stale,
    make_directory,
    plan_directory,
    stale,
)
from launchbay.features.generations.usecases import FailurePolicy
from launchbay.features.plans.ahead import PlanAct, PlanRequest, every_launch, look_at_present
from launchbay.features.plans.rows import PlanRow
from launchbay.features.plans.rules import digest_of_shown
from launchbay.features.plans.usecases import (
    Consent,
    OfChangeSet,
    bind_plan,
    delete_plans,
    end_plans,
    keep_plan,
    plans_of_change_set,
    require_plans,
)
from launchbay.ids import new_id
from launchbay.manifest.graph import COMPUTE
from launchbay.model.changes import Allowed, Proposal, Refusal
from launchbay.model.environment import EnvironmentView
from launchbay.model.expiry import IfExists
from launchbay.model.instance import InstanceStatus, LinkKind
from launchbay.model.job import ApprovalStatus, Cause, verdict_after, workflow_path
from launchbay.model.scalars import json_decoder
from launchbay.model.waits import turns_message
from launchbay.planning.acceptance import OBSERVED, TAKE_OVER, StartedJob
from launchbay.planning.decisions import Change
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.store import environments, instances, organizations
from launchbay.store.applications import Application
from launchbay.store.database import Connection
from launchbay.store.environments import Environment, EnvironmentRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.approvals import find_lost, may_replace, own_answer
from launchbay.usecases.context import AppContext, Context, Work, as_invalid_id
from launchbay.usecases.environments import list_environments
from launchbay.usecases.events import mask_message
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.launch import check_name, launch, nothing_launched, plan_launch_tree, proposal_of
from launchbay.usecases.launch_tree import LaunchNode
from launchbay.usecases.on_behalf import require_control
from launchbay.usecases.preview import Preview, PreviewedComponent, preview_end, preview_tree
from launchbay.usecases.reconfigure import (
    LOCK_LOOKS,
    LOCK_LOOKS_MOST,
    plan_configuration,
    reconfigure,
    refuse_destroyed,
)
from launchbay.usecases.reconfigure import proposal_of as configured_proposal
from launchbay.usecases.selection import choose_instances, only_own, page_of_visible, require_visible, visible_runs
from launchbay.usecases.services import fingerprints
from launchbay.usecases.sign_in import require_own_password
from launchbay.usecases.submodule_shapes import same_configuration
from launchbay.usecases.workflows import run_workflow

log = structlog.get_logger(__name__)
_APPROVE = Permission.APPROVE_INSTANCE_WORKFLOW
_SHOWN = 20  # sentences of one refusal
_COMPARED_AT_ONCE = 10  # instances that are planned again without being asked
_OBJECTS_COMPARED_AT_ONCE = 100  # of a directory
ActKind = Literal["launch", "reconfigure", "version", "relaunch", "manage", "destroy", "apply"]
_FIELDS: Mapping[str, frozenset[str]] = {
    "launch": frozenset({"application_id", "launch", "if_exists"}),
    "reconfigure": frozenset({"configuration"}),
    "version": frozenset({"version", "parameters"}),
    "relaunch": frozenset(),
    "manage": frozenset(),
    "destroy": frozenset({"force"}),
    "apply": frozenset({"files", "prune"}),
}


# How a plan of its steps is made; of the others, as a reconfiguration.
_PLANNED_AS: Mapping[str, PlanAct] = {
    "launch": "launch",
    "relaunch": "relaunch",
    "manage": "manage",
    "destroy": "destroy",
}
_RUNS_AGAIN = frozenset({"relaunch", "manage"})  # the launch of what is there, which a check of its drift plans too


class ChangeAct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do.

    `launch` and `configuration` are bodies of the requests, and `if_exists` is of a launch; `parameters` go over the
    present ones. `files` are those of a directory by their paths, and `plan` is what applying it does.
    """

    act: ActKind
    application_id: str | None = None
    launch: dict[str, Any] | None = None
    if_exists: IfExists | None = None
    configuration: dict[str, Any] | None = None
    version: int | None = None
    parameters: dict[str, Any] | None = None
    force: bool | None = None
    files: dict[str, bytes] | None = None
    prune: bool = False
    plan: DirectoryPlan | None = None

    def check(self) -> None:
        """Raise BadRequest for a field that is missing or unused."""
        given = {
            name for name in self.__struct_fields__ if name != "act" and getattr(self, name) not in (None, False, {})
        }
        names = {"application_id": "applicationId", "if_exists": "ifExists"}
        if unused := sorted(names.get(name, name) for name in given - _FIELDS[self.act]):
            raise BadRequest(f"The act {self.act} has no {', '.join(unused)}.", code="InvalidAct")
        needed = {"launch": self.application_id, "version": self.version, "apply": self.files}.get(self.act, "")
        if needed is None:
            what = {"launch": "an applicationId", "version": "a version"}.get(self.act, "files")
            raise BadRequest(f"The act {self.act} needs {what}.", code="InvalidAct")


_read_act = json_decoder(ChangeAct)


@dataclass(frozen=True, slots=True)
class GitCommit:
    """The commit of a source in Git for which a change set is made."""

    source_id: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSetRequest:
    """A change set to make. Without `ids`, the filter chooses the instances.

    With `confirm`, a person confirms it if no policy asks for approvals. A token whose scope names `DeleteInstance` for
    the instances needs nobody. At least `approvals` are needed, whatever policies say. With `with_plans`, approvals
    cover what steps do; it is made without plans where a policy refuses them, unless it `needs_plans`.
    """

    act: ChangeAct
    ids: list[str] | None
    wanted: InstanceFilter | None
    comment: str
    expires_in_ms: int
    on_failure: FailurePolicy
    confirm: bool = False
    approvals: int = 0
    commit: GitCommit | None = None
    with_plans: bool = False
    needs_plans: bool = True


class PromisedWorkflow(msgspec.Struct, frozen=True):
    """A workflow that will run, and how long it usually takes, if known."""

    name: str
    usual_ms: int | None = msgspec.field(default=None, name="usualMs")


class UsedPermission(msgspec.Struct, frozen=True):
    """A permission that the change needs, and for what."""

    permission: str
    resource: str


class Promise(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was shown of one instance. Secrets are masked."""

    components: list[PreviewedComponent]
    workflows: list[PromisedWorkflow]
    machines_made: list[str]
    machines_released: list[str]
    permissions: list[UsedPermission]
    warnings: list[str]
    version: int | None
    former_version: int | None


read_promise = msgspec.json.Decoder(Promise).decode
read_facts = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True)
class _Planned:
    """The plan of one instance. `body` is that of the request for it.

    `changed` is what rules are asked about, an application for a launch.
    """

    instance_id: str | None
    name: str
    application_id: str
    environment_id: str
    body: Mapping[str, Any]
    promise: Promise
    changed: Application | InstanceRecord
    proposed: Proposal
    facts: dict[str, str] = field(default_factory=dict)

    def resource(self) -> Resource:
        if self.instance_id is None:
            return permissions.application(self.application_id)
        return permissions.instance(self.application_id, self.instance_id)


async def create_change_set(ctx: Context, organization_id: str, request: ChangeSetRequest) -> str:
    """Keep what a change would do, and return the ID of the change set.

    Raises BadRequest for a change that would be refused, and TooManyRequests beyond what an organization keeps open.
    """
    request.act.check()
    if request.act.act == "manage":  # nobody takes over what they haven't seen the plan of
        request = replace(request, with_plans=True)
    if len(request.comment) > limits.CHANGE_SET_COMMENT_CHARS:
        raise BadRequest(f"comment: at most {limits.CHANGE_SET_COMMENT_CHARS} characters; shorten it.")
    plan = await _plan_directory(ctx, organization_id, request) if request.act.act == "apply" else None
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        planned = await _plan_all(work, organization.id, request) if plan is None else []
        answers = [await _foresee(work, request.act, each) for each in planned]
        planned = [_with_answer(each, answer) for each, answer in zip(planned, answers, strict=True)]
        act = msgspec.structs.replace(request.act, plan=plan)
        if act.act == "launch":
            act = msgspec.structs.replace(act, launch=dict(planned[0].body))
        await organizations.lock(work.connection, organization_id=organization.id)
        if (await store.count_open(work.connection, organization_id=organization.id) or 0) >= limits.CHANGE_SETS_OPEN:
            raise TooManyRequests(
                f"The organization has {limits.CHANGE_SETS_OPEN} open change sets. Apply or delete one.",
                retry_after_s=60,
            )
        await store.delete_old(work.connection, organization_id=organization.id, days=limits.CHANGE_SET_DAYS)
        touched = {each.environment_id for each in planned} if plan is None else plan.environment_ids
        policies = await _policies(work, touched)
        # What a launch runs again was applied before (decision 0210).
        is_new = request.act.act not in _RUNS_AGAIN
        refused = request.with_plans and is_new and any(policy.refuses_plans for policy in policies.values())
        if refused and not request.needs_plans:
            request = replace(request, with_plans=False)
        elif refused:
            raise NotAllowed(
                "A plan runs code of the change before anybody approves it. The policy of the environment doesn't "
                "allow that.",
                "Leave plan out, or have somebody with EditEnvironment set plansBeforeApproval.",
                code="PlansNotAllowed",
            )
        ruled = [answer.approvals for answer in answers if isinstance(answer, Refusal)]
        if plan is not None:
            ruled += [answer.approvals for answer in plan.answers]
        needed = max([request.approvals, *(policy.approvals for policy in policies.values()), *ruled])
        confirm = request.confirm and not needed and not _is_trusted(work, organization.id, planned)
        if confirm:
            needed = 1
        change_set_id, actor = new_id(), ctx.actor
        await store.insert(
            work.connection,
            change_set_id=change_set_id,
            organization_id=organization.id,
            owner_id=actor.user_id,
            owner_email=actor.email,
            token_id=actor.token_id,
            act=work.app.secret_key.seal(msgspec.json.encode(act), act_purpose(change_set_id)),
            kind=act.act,
            comment=request.comment,
            on_failure=request.on_failure,
            needed=needed,
            role_ids=sorted({policy.role_id for policy in policies.values() if policy.role_id and policy.approvals}),
            status="Pending" if needed else "Ready",
            confirm=confirm,
            environment_ids=[] if plan is None else plan.environment_ids,
            application_ids=[] if plan is None else plan.application_ids,
            git_source_id=None if request.commit is None else request.commit.source_id,
            git_commit=None if request.commit is None else request.commit.id,
            expires_in_ms=request.expires_in_ms,
        )
        await store.insert_instances(
            work.connection,
            change_set_id=change_set_id,
            ids=[each.instance_id for each in planned],
            names=[each.name for each in planned],
            application_ids=[each.application_id for each in planned],
            environment_ids=[each.environment_id for each in planned],
            promises=[msgspec.json.encode(each.promise).decode() for each in planned],
            facts=[msgspec.json.encode(each.facts).decode() for each in planned],
        )
        if request.with_plans:
            await _keep_plans(work, organization.id, change_set_id, request, planned)
        await store.post(work.connection, change_set_id=change_set_id)
        after = {"act": act.act, "instances": len(planned), "comment": request.comment, "approvals": needed}
        if plan is not None:
            after["changes"] = plan.count()
        if confirm:
            after["confirm"] = True
        await work.audit("create_change_set", organization, after=after, at=_at(organization.id, change_set_id))
    return change_set_id


async def follow_up(ctx: Context, stopped: StoppedRow) -> str:
    """Make the change set that plans a stopped change again; return its ID.

    The caller is the author of the change set of that job. It needs at least as many approvals as that one, and takes
    the place of an earlier one that nobody has applied. Raises as `create_change_set` does.
    """
    assert stopped.instance_id is not None, "a job that is there has an instance"
    sealed = ctx.app.secret_key.open(bytes(stopped.act), act_purpose(stopped.change_set_id))
    former = _read_act(sealed)
    act = follow_up_act(former.act, is_running=stopped.instance_status == InstanceStatus.RUNNING)
    again = ChangeAct(
        act=act,
        version=stopped.version if act == "version" else None,
        force=former.force if act == "destroy" else None,
    )
    request = ChangeSetRequest(
        act=again,
        ids=[stopped.instance_id],
        wanted=None,
        comment=follow_up_comment(stopped.comment, limits.CHANGE_SET_COMMENT_CHARS),
        expires_in_ms=stopped.expires_in_ms,
        on_failure="keep",
        confirm=stopped.confirm,
        approvals=0 if stopped.confirm else stopped.needed,
        with_plans=True,
    )
    organization_id = stopped.organization_id
    async with ctx.begin() as work:
        older = await store.list_open_follow_ups(
            work.connection, organization_id=organization_id, instance_id=stopped.instance_id
        )
        await end_superseded(work, organization_id, older, "a newer plan", {"stoppedJob": stopped.job_id})
        with ctx.app.database.joined(work.connection):
            made = await create_change_set(ctx, organization_id, request)
        await work.audit(
            "replan_change_set",
            organization_id,
            after={"changeSet": made, "job": stopped.job_id},
            at=_at(organization_id, stopped.change_set_id),
        )
    return made


async def _foresee(work: Work, act: ChangeAct, planned: _Planned) -> Refusal | Allowed:
    """Return what rules say to one change before anybody approves it."""
    if planned.instance_id is None:
        return await work.foresee(
            "launch_application",
            planned.changed,
            kind="launch",
            environment_id=planned.environment_id,
            proposed=planned.proposed,
        )
    if act.act == "destroy":
        return await work.foresee("run_workflow", planned.changed, kind="destroy", proposed=planned.proposed)
    if act.act == "manage":
        return await work.foresee("take_over_instance", planned.changed, kind="reconfigure", proposed=planned.proposed)
    if act.act == "relaunch":
        return await work.foresee("run_workflow", planned.changed, kind="run", proposed=planned.proposed)
    return await work.foresee("reconfigure_instance", planned.changed, kind="reconfigure", proposed=planned.proposed)


def _with_answer(planned: _Planned, answer: Refusal | Allowed) -> _Planned:
    """Return what is shown of a change, with what rules will say.

    That it needs a change set or approvals is what the change set is for.
    """
    said = answer.warnings if isinstance(answer, Allowed) else answer.sentences
    if not said or (isinstance(answer, Refusal) and answer.outcome == "needs"):
        return planned
    promise = msgspec.structs.replace(planned.promise, warnings=[*planned.promise.warnings, *said])
    return replace(planned, promise=promise)


async def _keep_plans(
    work: Work, organization_id: str, change_set_id: str, request: ChangeSetRequest, planned: list[_Planned]
) -> None:
    """Have the plan of each instance made. Raises BadRequest, TooManyRequests."""
    if request.on_failure == "rollback":
        raise BadRequest(
            "A planned change isn't rolled back automatically, because nobody approves the steps of a rollback.",
            "Leave onFailure out, or plan.",
            code="InvalidAct",
        )
    if not planned or len(planned) > limits.PLANS_WAITING:
        raise BadRequest(
            f"A change set with plans has 1 to {limits.PLANS_WAITING} instances, not {len(planned)}.",
            "Choose fewer, or leave plan out.",
            code="InvalidAct",
        )
    for place, each in enumerate(planned, 1):
        asked = PlanRequest(
            act=_PLANNED_AS.get(request.act.act, "reconfigure"),
            application_id=each.application_id if each.instance_id is None else None,
            instance_id=each.instance_id,
            body=dict(each.body),
            if_exists=request.act.if_exists,
            force=bool(request.act.force),
        )
        lasts_s = request.expires_in_ms / 1_000
        await keep_plan(work, organization_id, asked, OfChangeSet(change_set_id, place, lasts_s))


async def _plan_directory(ctx: Context, organization_id: str, request: ChangeSetRequest) -> DirectoryPlan:
    """Return what a directory changes.

    Raises BadRequest if that is nothing, or would be refused.
    """
    if request.ids is not None or request.wanted is not None:
        raise BadRequest("A directory has no instances: leave ids and select out.", code="InvalidAct")
    if request.on_failure != "keep":
        raise BadRequest("A directory is applied whole or not at all: leave onFailure out.", code="InvalidAct")
    files = request.act.files or {}
    check_files(files)
    plan = await plan_directory(ctx, organization_id, await directory_contents(files), prune=request.act.prune)
    if not plan.count():
        raise BadRequest("The organization matches the directory, so there is nothing to do.", code="NothingChosen")
    return plan


def _is_trusted(work: Work, organization_id: str, planned: list[_Planned]) -> bool:
    """Return whether the scope of the caller's access token trusts it with destruction.

    A token without a scope allows all that its owner may do, so it says nothing about trust.
    """
    acting = work.actor.token
    if acting is None or acting.scope is None or not planned:
        return False
    return all(
        work.lookup.allows(
            organization_id,
            Permission.DELETE_INSTANCE,
            each.resource(),
            permissions.environment(each.environment_id),
        )
        for each in planned
    )


async def list_change_sets(ctx: Context, organization_id: str, *, after: str | None, count: int) -> list[ChangeSet]:
    """Return the change sets that the caller may see, the newest first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = partial(
            store.list_by_organization,
            work.connection,
            organization_id=organization_id,
            owner_id=only_own(work, organization_id),
        )
        return await page_of_visible(rows, partial(_visible, work, organization_id), after=after, count=count)


async def _visible(work: Work, organization_id: str, rows: Sequence[ChangeSet]) -> list[ChangeSet]:
    """Return the change sets that the caller may see.

    That is who controls it, may read a part of it, is asked about it, or has answered.
    """
    keep = partial(store.keep_seen, user_id=work.actor.user_id)
    found = {row.id for row in await visible_runs(work, organization_id, rows, keep)}
    others = {row.id: row for row in rows if row.id not in found}
    if others and any(work.lookup.holds(organization_id, each) for each in (Permission.READ, _APPROVE)):
        touched: dict[str, list[store.TouchedRow]] = {each: [] for each in others}
        for row in await store.list_touched(work.connection, change_set_ids=list(others)):
            touched[row.change_set_id].append(row)
        found |= {each for each in others if await _concerns(work, others[each], touched[each])}
    return [row for row in rows if row.id in found]


async def _concerns(work: Work, found: ChangeSet, touched: Sequence[store.TouchedRow]) -> bool:
    """Return whether the caller may read or approve a part of a change set."""

    def allows(permission: Permission, *resources: Resource) -> bool:
        return work.lookup.allows(found.organization_id, permission, *resources)

    def reads(row: store.TouchedRow) -> bool:
        resource = _touched(row.application_id, row.instance_id)
        return allows(Permission.READ, resource, permissions.environment(row.environment_id))

    existing = _directory_resources(found)
    if any(map(reads, touched)) or any(allows(Permission.READ, each) for each in existing):
        return True
    is_asked = found.status == "Pending" and work.lookup.holds(found.organization_id, _APPROVE)
    approves = partial(_may_approve, work, found.organization_id)
    if is_asked and all(approves(row.application_id, row.instance_id, row.environment_id) for row in touched):
        return all(allows(_APPROVE, each) for each in existing)
    sealed = await store.get_act(work.connection, change_set_id=found.id) if found.kind == "apply" else None
    plan = None if sealed is None else _read_act(_open(work, found.id, sealed)).plan
    return plan is not None and any(allows(Permission.READ, each.resource()) for each in plan.entries)


async def _visible_one(work: Work, change_set_id: str) -> ChangeSet:
    """Return a change set that the caller may see. Raises NotAllowed."""
    found = await work.lookup.of_member(store.change_set, change_set_id)
    return require_visible(await _visible(work, found.organization_id, [found]), "change set")


def _open(work: Work, change_set_id: str, sealed: bytes) -> bytes:
    return work.app.secret_key.open(bytes(sealed), act_purpose(change_set_id))


async def list_asking(ctx: Context, organization_id: str) -> list[ChangeSet]:
    """Return the newest change sets that wait for the caller's answer."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_asking(
            work.connection, organization_id=organization_id, user_id=ctx.actor.user_id, count=limits.CHANGE_SETS_OPEN
        )
        if not rows or not work.lookup.holds(organization_id, Permission.APPROVE_INSTANCE_WORKFLOW):
            return []
        found = await store.list_touched(work.connection, change_set_ids=[row.id for row in rows])
        refused = {
            row.change_set_id
            for row in found
            if not _may_approve(work, organization_id, row.application_id, row.instance_id, row.environment_id)
        }
        refused |= {
            row.id
            for row in rows
            if not all(
                work.lookup.allows(organization_id, Permission.APPROVE_INSTANCE_WORKFLOW, each)
                for each in _directory_resources(row)
            )
        }
    return [row for row in rows if row.id not in refused]


async def count_asking(ctx: Context, organization_id: str) -> int:
    """Return how many change sets wait for the caller's answer."""
    return len(await list_asking(ctx, organization_id))


@dataclass(frozen=True, slots=True)
class ChangeSetView:
    """A change set with its answers and the instances that the caller may read.

    `lost` are those who approved it, and has lost the permission. `stale` has a sentence for each difference from what
    was shown, for which it can't be applied; None if nobody has compared it.
    """

    change_set: ChangeSet
    answers: list[store.AnswerRow]
    instances: list[ChangeSetInstance]
    may_answer: bool = False
    lost: frozenset[str] = frozenset()  # user IDs of answers that count no longer
    directory: "DirectoryView | None" = None
    plans: Mapping[int, PlanRow] = field(default_factory=dict)  # by the place of their instance
    stale: list[str] | None = None
    follow_ups: Mapping[int, FollowUpRow] = field(default_factory=dict)  # by the place of their instance
    follows: str | None = None  # the change set that it plans again

    @property
    def plan_digest(self) -> str | None:
        """What an approval names, so that it covers nothing else; None without plans."""
        plans = {place: row.shown for place, row in self.plans.items()}
        return digest_of_shown(plans) if self.change_set.plans else None


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """What applying a directory does to the objects that the caller may read.

    `hidden` is the number of the others. `differences` are None until it is applied.
    """

    objects: list[PlannedObject]
    hidden: int
    permissions: list[UsedPermission]
    warnings: list[str]
    differences: list[str] | None
    may_apply: bool


def waiting_for(view: ChangeSetView) -> str | None:
    """Return what a change set waits for, since when, and what ends that."""
    found = view.change_set
    since = iso_time(max((found.created_at, *(answer.at for answer in view.answers))))
    expiry = f"it expires at {iso_time(found.expires_at)}"
    if found.status in {"Pending", "Ready"} and (hindrance := _hindrance(view)) is not None:
        return f"{hindrance}; {expiry}."
    if found.status == "Ready" and not view.lost:
        return f"Waiting since {since} for somebody who applies it; {expiry}."
    if found.status == "Applying":
        return turns_message(running=sum(row.status == "Running" for row in view.instances))
    if found.status not in {"Pending", "Ready"}:
        return None
    if found.confirm:
        return f"Waiting since {since} for a person who confirms it; {expiry}."
    approvers = [answer.email for answer in view.answers if answer.approves and answer.user_id not in view.lost]
    left = max(found.needed - len(approvers), 1)
    given = f"; {', '.join(approvers)} approved" if approvers else ""
    approvals = "1 approval" if left == 1 else f"{left} approvals"
    gone = [answer.email for answer in view.answers if answer.user_id in view.lost]
    ended = f" {', '.join(gone)} approved it, and has lost the permission." if gone else ""
    return f"Waiting since {since} for {approvals} by others than {found.owner_email}{given}; {expiry}.{ended}"


def _hindrance(view: ChangeSetView) -> str | None:
    """Return what keeps anybody from approving or applying a change set."""
    if view.stale:
        more = f" ({len(view.stale) - 1} more)" if len(view.stale) > 1 else ""
        return f"It can't be applied. {view.stale[0]}{more} Make another one from the present state"
    waiting = sum(row.status == "Waiting" for row in view.plans.values())
    if any(row.status == "Failed" for row in view.plans.values()):
        return "Nobody can approve or apply it, since a plan failed"
    if not waiting:
        return None
    plans = "1 plan is" if waiting == 1 else f"{waiting} plans are"
    return f"Waiting since {iso_time(view.change_set.created_at)} until {plans} made"


async def read_change_set(ctx: Context, change_set_id: str) -> ChangeSetView:
    async with ctx.read() as work:
        found = await _visible_one(work, change_set_id)
        rows = await store.list_instances(work.connection, change_set_id=found.id)
        answers = await store.list_answers(work.connection, change_set_id=found.id)
        may_answer = found.status == "Pending" and await _may_answer(work, found, rows)
        directory = await _directory_view(work, found) if found.kind == "apply" else None
        readable = _readable(work, found, rows)
        visible = [
            row._replace(message=await mask_message(row.message, row.parameters, row.environment_view))
            for row in rows
            if row.place in readable
        ]
        plans, refused, follows = dict[int, PlanRow](), list[FollowUpRow](), None
        if found.plans and visible:
            plans = await plans_of_change_set(work, found.organization_id, found.id)
            refused = await store.list_refused(work.connection, change_set_id=found.id)
            follows = await store.get_followed(work.connection, change_set_id=found.id)
    lost = await _lost_approvers(ctx, found, rows, answers)
    shown = {row.place: plans[row.place] for row in visible if row.place in plans}
    follow_ups = {row.place: row for row in refused if row.place in readable}
    return ChangeSetView(
        found, answers, visible, may_answer, lost, directory, shown, follow_ups=follow_ups, follows=follows
    )


def _readable(work: Work, found: ChangeSet, rows: Iterable[ChangeSetInstance]) -> set[int]:
    """Return the places of the instances that the caller may read."""
    return {
        row.place
        for row in rows
        if work.lookup.allows(
            found.organization_id, Permission.READ, _resource(row), permissions.environment(row.environment_id)
        )
    }


async def _directory_view(work: Work, found: ChangeSet) -> DirectoryView:
    sealed = await store.get_act(work.connection, change_set_id=found.id)
    if sealed is None:
        raise NotFound(f"There is no change set {found.id!r}.")
    act = _read_act(_open(work, found.id, sealed))
    assert act.plan is not None, "a directory is kept with its plan"
    organization_id, plan = found.organization_id, act.plan
    shown = [
        each.shown for each in plan.entries if work.lookup.allows(organization_id, Permission.READ, each.resource())
    ]
    used = plan.used()
    return DirectoryView(
        objects=shown,
        hidden=len(plan.entries) - len(shown),
        permissions=[
            _used(permission, resource)
            for permission, resource in used
            if work.lookup.allows(organization_id, Permission.READ, resource)
        ],
        warnings=[*plan.warnings, *_said_by_rules(plan, shown)],
        differences=None if found.differences is None else msgspec.json.decode(found.differences, type=list[str]),
        may_apply=all(work.lookup.allows(organization_id, permission, resource) for permission, resource in used),
    )


def _said_by_rules(plan: DirectoryPlan, shown: Sequence[PlannedObject]) -> list[str]:
    """Return what rules said to the changes that are shown.

    That they need a change set or approvals is what the change set is for.
    """
    names = {each.what for each in shown}
    said = (each for each in plan.answers if each.what in names and each.outcome != "needs")
    return list(dict.fromkeys(f"{each.what}: {' '.join(each.messages)}" for each in said))


def _directory_resources(found: ChangeSet) -> list[Resource]:
    """Return the existing objects that a directory touches; nothing for other change sets."""
    return [
        *map(permissions.environment, found.environment_ids),
        *map(permissions.application, found.application_ids),
    ]


async def _may_answer(work: Work, found: ChangeSet, rows: list[ChangeSetInstance]) -> bool:
    if work.actor.token is not None if found.confirm else found.owner_id == work.actor.user_id:
        return False
    allowed = all(
        _may_approve(work, found.organization_id, row.application_id, row.instance_id, row.environment_id)
        for row in rows
    )
    allowed = allowed and all(
        work.lookup.allows(found.organization_id, Permission.APPROVE_INSTANCE_WORKFLOW, each)
        for each in _directory_resources(found)
    )
    allowed = allowed and work.lookup.holds(found.organization_id, Permission.APPROVE_INSTANCE_WORKFLOW)
    return allowed and not await store.lacks_roles(work.connection, role_ids=found.role_ids, user_id=work.actor.user_id)


def _may_approve(
    work: Work, organization_id: str, application_id: str, instance_id: str | None, environment_id: str
) -> bool:
    return work.lookup.allows(
        organization_id,
        Permission.APPROVE_INSTANCE_WORKFLOW,
        _touched(application_id, instance_id),
        permissions.environment(environment_id),
    )


async def read_compared(ctx: Context, change_set_id: str, *, compare: bool | None = None) -> ChangeSetView:
    """Return a change set, compared with the present state while it is open.

    Without `compare`, only a small one is: it is planned again.
    """
    view = await read_change_set(ctx, change_set_id)
    if compare is None:
        small, parts = _COMPARED_AT_ONCE, view.change_set.instances
        if view.directory is not None:
            small, parts = _OBJECTS_COMPARED_AT_ONCE, len(view.directory.objects)
        compare = parts <= small
    if not compare or view.change_set.status not in {"Pending", "Ready"}:
        return view
    try:
        return replace(view, stale=await find_staleness(ctx, change_set_id))
    except NotAllowed:  # who may read it, and not do what it does
        return view
    except LaunchbayError as error:  # such as an instance that is gone
        return replace(view, stale=list(error.messages))


async def find_staleness(ctx: Context, change_set_id: str) -> list[str]:
    """Return why `apply_change_set` would refuse: a sentence for each difference from what was shown.

    Raises NotAllowed for a caller who may not do what the change set does.
    """
    async with ctx.begin() as work:
        found = await work.lookup.of_member(store.change_set, change_set_id)
        sealed = await store.get_act(work.connection, change_set_id=found.id)
        if sealed is None or found.status not in {"Pending", "Ready"}:
            return []
        act = _read_act(_open(work, found.id, sealed))
        if act.plan is None:
            rows = await store.list_instances(work.connection, change_set_id=found.id)
            return (await _compare(work, act, rows))[1]
        _require_read(work, found, act.plan)
    contents = await directory_contents(act.files or {})
    return await find_stale(ctx, found.organization_id, contents, act.plan, prune=act.prune)


async def answer_change_set(
    ctx: Context, change_set_id: str, *, approves: bool, comment: str, consent: Consent | None = None
) -> None:
    """Approve or reject a change set that waits for it.

    An approval of plans needs a consent to all of them, with all deletions.

    The same answer again changes nothing. An approval that was given with an access token ends with that token, so the
    same person may give it again in another way, even after the decision. Any other answer to a decided change set
    raises Conflict.

    Raises NotAllowed for the author, and for a caller without the role or the permissions. Also for one whose password
    somebody else knows. If a person must confirm it, an access token isn't enough.
    """
    if len(comment) > limits.CHANGE_SET_COMMENT_CHARS:
        raise BadRequest(f"comment: at most {limits.CHANGE_SET_COMMENT_CHARS} characters; shorten it.")
    async with ctx.begin() as work:
        found = await work.lookup.of_member(store.change_set, change_set_id)
        rows = await store.list_instances(work.connection, change_set_id=found.id)
        await _require_answerer(work, found, rows)
        await require_own_password(work.connection, ctx.actor.user_id)
        locked = await store.lock(work.connection, change_set_id=found.id)
        own = own_answer(ctx, await store.list_answers(work.connection, change_set_id=found.id))
        before = "gone" if locked is None else locked.status
        is_confirmed = before == "Ready" and approves and own is not None and own.approves and may_replace(ctx, own)
        if before != "Pending" and not is_confirmed:
            raise Conflict(f"Nobody is asked about the change set: it is {before}.", code="ChangeSetDecided")
        if own is not None and own.approves is approves and not may_replace(ctx, own):
            return  # the same answer again; an approval in person isn't replaced by one that ends with its token
        digests: list[str] = []
        if approves and found.plans:
            visible = _readable(work, found, rows)
            digests = await require_plans(work, found.organization_id, found.id, consent or Consent(), visible)
        await store.insert_answer(
            work.connection,
            change_set_id=found.id,
            user_id=ctx.actor.user_id,
            email=ctx.actor.email,
            approves=approves,
            comment=comment,
            token_id=ctx.actor.token_id,
        )
        if not is_confirmed:  # else, applying it does that
            await _withdraw_lost(ctx, work, found, rows)
        answers = await store.list_answers(work.connection, change_set_id=found.id)
        verdict = verdict_after([each.approves for each in answers], found.needed)
        status = {ApprovalStatus.APPROVED: "Ready", ApprovalStatus.REJECTED: "Rejected"}.get(verdict, "Pending")
        if status != before:
            await store.set_status(work.connection, change_set_id=found.id, status=status)
            await store.post(work.connection, change_set_id=found.id)
        if status == "Rejected":
            await end_plans(work, found.organization_id, found.id)
        await work.audit(
            "approve_change_set" if approves else "reject_change_set",
            found.organization_id,
            {"status": before},
            {
                "status": status,
                "comment": comment,
                **({"plans": digests} if digests else {}),
                **_allowed(consent, digests),
            },
            at=_at(found.organization_id, found.id),
        )


async def _require_answerer(work: Work, found: ChangeSet, rows: list[ChangeSetInstance]) -> None:
    """Raise NotAllowed unless the caller may answer for all instances of a change set."""
    for row in rows:
        work.lookup.require(
            found.organization_id,
            Permission.APPROVE_INSTANCE_WORKFLOW,
            _resource(row),
            permissions.environment(row.environment_id),
        )
    for each in _directory_resources(found):
        work.lookup.require(found.organization_id, Permission.APPROVE_INSTANCE_WORKFLOW, each)
    if not work.lookup.holds(found.organization_id, Permission.APPROVE_INSTANCE_WORKFLOW):
        raise NotAllowed("You need the permission ApproveInstanceWorkflow in this organization.")
    if found.confirm:
        if work.actor.token is not None:
            raise NotAllowed("A person has to confirm this change set, not an access token.", "Sign in to confirm it.")
    elif found.owner_id == work.actor.user_id:
        raise NotAllowed("You made this change set; somebody else has to decide.", code="ApprovalByRequester")
    if await store.lacks_roles(work.connection, role_ids=found.role_ids, user_id=work.actor.user_id):
        raise NotAllowed(
            "The policy of the environment asks for people with another role.", "Ask one of them to decide."
        )


async def _may_still(found: ChangeSet, rows: list[ChangeSetInstance], then: Work) -> bool:
    await then.lookup.organization(found.organization_id)
    return await _may_answer(then, found, rows)


async def _lost_approvers(
    ctx: Context, found: ChangeSet, rows: list[ChangeSetInstance], answers: Sequence[store.AnswerRow]
) -> frozenset[str]:
    """Return who approved an open change set, and may not anymore."""
    if found.status not in {"Pending", "Ready"} or not any(answer.approves for answer in answers):
        return frozenset()
    async with ctx.begin() as work:
        lost = await find_lost(ctx, work, answers, partial(_may_still, found, rows))
    return frozenset(answer.user_id for answer in lost)


async def _withdraw_lost(ctx: Context, work: Work, found: ChangeSet, rows: list[ChangeSetInstance]) -> list[str]:
    """Delete approvals of those who may not give them anymore; return their addresses."""
    answers = await store.list_answers(work.connection, change_set_id=found.id)
    lost = await find_lost(ctx, work, answers, partial(_may_still, found, rows))
    for answer in lost:
        await store.delete_answer(work.connection, change_set_id=found.id, user_id=answer.user_id)
        await work.audit(
            "withdraw_approval", found.organization_id, {"by": answer.email}, at=_at(found.organization_id, found.id)
        )
    return [answer.email for answer in lost]


@dataclass(frozen=True, slots=True)
class CommitSource:
    """Where change sets of commits come from, as Git sources are.

    `lock` takes the source's lock, by its ID. `applied` gets files by path, and the changes that were shown.
    """

    lock: Callable[[Connection, str], Awaitable[object]]
    applied: Callable[[Connection, ChangeSet, Mapping[str, bytes], Sequence[Mapping[str, str]]], Awaitable[None]]


async def apply_change_set(ctx: Context, change_set_id: str, consent: Consent | None = None) -> None:
    """Accept the jobs of a change set, or apply its directory, in one transaction.

    Raises Conflict if it isn't ready, if an instance is busy, and, naming what changed, if it is stale. If somebody who
    approved it may not do so anymore, it waits for approval again.
    """
    if lost := await apply_or_withdraw(ctx, change_set_id, consent):
        raise Conflict(lost, "Ask somebody else to approve it.", code="ChangeSetPending")


async def apply_or_withdraw(ctx: Context, change_set_id: str, consent: Consent | None = None) -> str | None:
    """Apply a change set, or return why it waits for approval again.

    Raises as `apply_change_set` does. What acts in a transaction under way uses this: an exception would take back
    that approvals were withdrawn.
    """
    if withdrawn := await _apply(ctx, change_set_id, consent or Consent()):
        return (
            f"The change set waits for approval again: {', '.join(withdrawn)} approved it, and has lost the permission."
        )
    return None


async def _apply(ctx: Context, change_set_id: str, consent: Consent) -> list[str]:
    """Apply a change set unless approvals are withdrawn.

    Returns the email addresses of who gave those.
    """
    async with ctx.begin() as work:
        instances.announce_new.later(work.connection)  # submodules may be new
        found = await work.lookup.of_member(store.change_set, change_set_id)
        if found.git_source_id is not None:  # before the change set, as a look at the branch does
            for source in ctx.app.offered(CommitSource):
                await source.lock(work.connection, found.git_source_id)
        locked = await store.lock(work.connection, change_set_id=found.id)
        if locked is None or locked.status != "Ready":
            raise _not_ready("deleted" if locked is None else locked.status)
        rows = await store.list_instances(work.connection, change_set_id=found.id)
        if found.needed and (withdrawn := await _withdraw_lost(ctx, work, found, rows)):
            await store.set_status(work.connection, change_set_id=found.id, status="Pending")
            await store.post(work.connection, change_set_id=found.id)
            return withdrawn
        act = _read_act(_open(work, found.id, locked.act))
        if act.plan is not None:
            await _apply_directory(ctx, work, found, act, act.plan)
            return []
        # What was approved has its deletions allowed already.
        allowed: dict[str, list[str]] = {}
        if found.plans:
            given = consent
            consent = replace(consent, allow_deletes=["*"]) if found.needed else consent
            digests = await require_plans(work, found.organization_id, found.id, consent, _readable(work, found, rows))
            allowed = {} if found.needed else _allowed(given, digests)
        planned = await _plan_again(work, act, rows)
        cause = Cause("change-set", found.id, is_planned=found.plans > 0)
        inner = replace(ctx, audited=False, cause=cause, change_set=found.id)
        started: list[StartedJob] = []
        with ctx.app.database.joined(work.connection):
            for row, plan in zip(rows, planned, strict=True):
                begun = await _carry_out(inner, act, plan)
                started.append(begun)
                await store.begin_instance(
                    work.connection,
                    change_set_id=found.id,
                    place=row.place,
                    instance_id=begun.instance_id,
                    job_id=begun.job_id,
                )
                if found.plans:
                    await bind_plan(work, found.organization_id, found.id, row.place, begun.job_id)
        await store.begin(work.connection, change_set_id=found.id, user_id=ctx.actor.user_id)
        await store.post(work.connection, change_set_id=found.id)
        await work.audit(
            "apply_change_set",
            found.organization_id,
            {"status": "Ready"},
            {"status": "Applying", "instances": [each.instance_id for each in started], **allowed},
            at=_at(found.organization_id, found.id),
        )
    return []


def _allowed(consent: Consent | None, digests: Sequence[str]) -> dict[str, list[str]]:
    """Return which deletions of plans somebody has allowed, for the audit log."""
    if consent is None or not digests or not consent.allow_deletes:
        return {}
    return {"allowDeletes": list(consent.allow_deletes[: limits.PLAN_PATTERNS])}


async def _apply_directory(ctx: Context, work: Work, found: ChangeSet, act: ChangeAct, plan: DirectoryPlan) -> None:
    """Make what was shown in the transaction under way, and compare the result."""
    organization_id, files = found.organization_id, act.files or {}
    _require_read(work, found, plan)
    for permission, resource in plan.used():
        work.lookup.require(organization_id, permission, resource)
    contents = await directory_contents(files)
    await organizations.lock(work.connection, organization_id=organization_id)
    touched = sorted({each.shown.id for each in plan.entries if each.shown.is_change() and each.shown.id is not None})
    await store.lock_directory(work.connection, organization_id=organization_id, ids=touched)
    with ctx.app.database.joined(work.connection):
        differences = await make_directory(
            replace(ctx, change_set=found.id), organization_id, contents, plan, prune=act.prune
        )
    await store.end_directory(
        work.connection,
        change_set_id=found.id,
        user_id=ctx.actor.user_id,
        differences=msgspec.json.encode(differences).decode(),
    )
    if found.git_source_id is not None and found.git_commit is not None:
        changes = [
            {"sign": each.shown.sign, "what": each.shown.what, "detail": each.shown.detail}
            for each in plan.entries
            if each.shown.is_change()
        ]
        for source in ctx.app.offered(CommitSource):
            await source.applied(work.connection, found, files, changes)
    await store.post(work.connection, change_set_id=found.id)
    await work.audit(
        "apply_change_set",
        organization_id,
        {"status": "Ready"},
        {"status": "Succeeded", "changes": plan.count(), "differences": differences},
        at=_at(organization_id, found.id),
    )


def _require_read(work: Work, found: ChangeSet, plan: DirectoryPlan) -> None:
    """Raise NotAllowed for who can't read all that a directory touches.

    The plan that they would make is another one, so that nothing could be compared.
    """
    for each in plan.entries:
        if each.shown.is_change():
            work.lookup.require(found.organization_id, Permission.READ, each.resource())


async def supersede_change_sets(work: Work, organization_id: str, commit: GitCommit) -> None:
    """End what nobody has applied of older commits of a source in Git."""
    older = await store.list_of_source(work.connection, organization_id=organization_id, source_id=commit.source_id)
    await end_superseded(work, organization_id, older, f"the commit {commit.id}", {"commit": commit.id})


async def end_superseded(
    work: Work, organization_id: str, ids: Sequence[str], newer: str, after: Mapping[str, Any]
) -> None:
    """End change sets that nobody has applied.

    Something `newer` takes their place.
    """
    for change_set_id in await store.supersede(
        work.connection, organization_id=organization_id, ids=list(ids), note=f"\nSuperseded by {newer}."
    ):
        await work.audit(
            "supersede_change_set",
            organization_id,
            after={"status": "Expired", **after},
            at=_at(organization_id, change_set_id),
        )
        await store.post(work.connection, change_set_id=change_set_id)


async def delete_change_set(ctx: Context, change_set_id: str) -> None:
    """Delete a change set that isn't being applied. Raises Conflict, NotAllowed."""
    async with ctx.begin() as work:
        found = await work.lookup.of_member(store.change_set, change_set_id)
        require_control(work, found, "the change set")
        locked = await store.lock(work.connection, change_set_id=found.id)
        if locked is not None and locked.status == "Applying":
            raise Conflict("The change set is being applied; delete it when its jobs have ended.")
        await store.delete(work.connection, change_set_id=found.id)
        await delete_plans(work, found.organization_id, found.id)
        before = {"act": found.kind, "status": found.status, "comment": found.comment}
        await work.audit("delete_change_set", found.organization_id, before, at=_at(found.organization_id, found.id))


async def discard_change_set(app: AppContext, connection: Connection, organization_id: str, change_set_id: str) -> bool:
    """Delete what was made without a person, and return whether it was open.

    What was applied or rejected stays. The audit log names who it was made for.
    """
    found = await store.discard(connection, change_set_id=change_set_id, organization_id=organization_id)
    if found is None:
        return False
    actor = replace(on_behalf(found.owner_id), email=found.owner_email)
    with app.database.joined(connection):
        async with Context(app, actor).begin() as work:
            await delete_plans(work, organization_id, change_set_id)
            before = {"act": found.kind, "status": found.status, "comment": found.comment}
            await work.audit("delete_change_set", organization_id, before, at=_at(organization_id, change_set_id))
    return True


async def read_change_policy(ctx: Context, environment_id: str) -> ChangePolicy:
    """Return who approves change sets of an environment."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        return (await _policies(work, {environment.id})).get(environment.id, ChangePolicy())


async def list_change_policies(ctx: Context, organization_id: str) -> list[tuple[EnvironmentRow, ChangePolicy]]:
    """Return who approves change sets, for each environment that the caller may read."""
    rows = await list_environments(ctx, organization_id)
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
        found = await _policies(work, {row.id for row in rows})
    return [(row, found.get(row.id, ChangePolicy())) for row in rows]


async def set_change_policy(ctx: Context, environment_id: str, policy: ChangePolicy) -> None:
    """Set who approves change sets of an environment that are made from now on."""
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        if policy.role_id is not None:
            with as_invalid_id("roleId"):
                role = await work.lookup.role(policy.role_id, Permission.READ)
            if role.organization_id != environment.organization_id:
                raise BadRequest("roleId: the role belongs to another organization.", code="UnknownId")
        before = (await _policies(work, {environment.id})).get(environment.id, ChangePolicy())
        await store.set_policy(
            work.connection, environment_id=environment.id, policy=msgspec.json.encode(policy).decode()
        )
        await work.audit("set_change_policy", environment, msgspec.to_builtins(before), msgspec.to_builtins(policy))


async def require_change_set(connection: Connection, change: Change) -> Refusal | None:
    """Refuse what the policy of its environment leaves to change sets."""
    if change.environment_id is None or not is_covered(change.kind, change.cause):
        return None
    found = await store.get_approval(
        connection, environment_id=change.environment_id, change_set_id=change.change_set or ""
    )
    if found is None:
        return None
    return missing_approval(
        read_policy(found.change_policy),
        found.environment,
        change.operation,
        change_set=change.change_set,
        approvals=found.approvals,
        role_ids=found.role_ids,
    )


async def _policies(work: Work, environment_ids: Iterable[str]) -> dict[str, ChangePolicy]:
    rows = await store.list_policies(work.connection, environment_ids=sorted(environment_ids))
    return {row.id: read_policy(row.change_policy) for row in rows}


async def _plan_all(work: Work, organization_id: str, request: ChangeSetRequest) -> list[_Planned]:
    """Return the plan of every instance. Raises BadRequest with each reason of a refusal."""
    act = request.act
    if act.act == "launch":
        if request.ids is not None or request.wanted is not None:
            raise BadRequest("A launch has no instances yet: leave ids and select out.", code="InvalidAct")
        planned = await _plan_one(work, act, None, _Offers(work))
        if planned.facts["organization"] != organization_id:
            raise BadRequest("The application belongs to another organization.", code="InvalidAct")
        return [planned]
    if (request.ids is None) == (request.wanted is None):
        raise BadRequest("Give either ids or select.", code="InvalidAct")
    rows = await choose_instances(
        work, organization_id, request.ids, request.wanted or InstanceFilter(), limits.CHANGE_SET_INSTANCES
    )
    if not rows:
        raise BadRequest("No instance fits, so there is nothing to do.", code="NothingChosen")
    found: list[_Planned] = []
    problems: list[str] = []
    offers = _Offers(work)
    for row in rows:
        try:
            found.append(await _plan_one(work, act, row.id, offers))
        except BadRequest as error:
            problems += [f"{row.name}: {message}" for message in error.messages]
    if problems:
        raise BadRequest(*problems[:_SHOWN], code="InvalidChangeSet")
    return found


class _Offers:
    """What environments offer, as facts, read once for many instances."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[str, dict[str, str]] = {}

    async def facts(self, environment_id: str) -> dict[str, str]:
        """Return the services and shared instances of an environment."""
        if environment_id not in self._known:
            work = self._work
            rows = await environments.list_services(work.connection, environment_id=environment_id)
            shared = await environments.list_offered_instances(work.connection, environment_id=environment_id)
            known = await fingerprints(work, [row.id for row in rows])
            self._known[environment_id] = {
                **{f"service {row.name} ({row.id}) of the environment": FINGERPRINT + known[row.id] for row in rows},
                **{f"shared instance {row.name} ({row.id}) of the environment": row.application_id for row in shared},
            }
        return self._known[environment_id]


async def _plan_one(work: Work, act: ChangeAct, instance_id: str | None, offers: _Offers) -> _Planned:
    """Return what the act does to one instance, or launches. Raises BadRequest, NotAllowed."""
    if act.act == "launch":
        planned = await plan_launch_tree(work, act.application_id or "", act.launch or {}, act.if_exists)
        if (existing := await check_name(work, planned)) is not None:
            raise BadRequest(nothing_launched(planned, existing), code="NameExists")
        root, environment = planned.root, planned.environment
        # What the request leaves open is decided now: a newer version doesn't change what was shown.
        body = {**(act.launch or {}), "version": root.version, "environmentId": environment.id}
        body["instanceName"] = root.name
        promise = await _promise(work, root, await preview_tree(work, root), environment)
        facts = {**_facts(work, root, environment, planned.view), **await offers.facts(environment.id)}
        changed, proposed = planned.application, proposal_of(planned)
        return _Planned(None, root.name, root.application_id, environment.id, body, promise, changed, proposed, facts)
    record = await work.lookup.instance(instance_id or "", Permission.EDIT_INSTANCE)
    if record.is_observed and act.act not in {"manage", "destroy"}:
        raise BadRequest(OBSERVED, TAKE_OVER, code="InstanceObserved")
    if act.act == "destroy":
        return await _plan_end(work, act, record, offers)
    if act.act in _RUNS_AGAIN:
        return await _plan_relaunch(work, act, record, offers)
    refuse_destroyed(record)
    body = dict(act.configuration or {})
    if act.act == "version":
        body = await same_configuration(work, record, version=act.version, parameters=act.parameters or {})
    configured = await plan_configuration(work, record.id, body)
    root, environment = configured.root, configured.environment
    promise = await _promise(work, root, await preview_tree(work, root), environment)
    facts = {**_facts(work, root, environment, configured.view), **await offers.facts(environment.id)}
    proposed = configured_proposal(configured)
    return _Planned(
        record.id, record.name, record.application_id, environment.id, body, promise, record, proposed, facts
    )


async def _plan_end(work: Work, act: ChangeAct, record: InstanceRecord, offers: _Offers) -> _Planned:
    preview = await preview_end(work, record, force=bool(act.force))
    if preview.errors:
        raise BadRequest(*preview.errors, code="CannotDestroy")
    usual = await _usual(work, record.application_id)
    promise = Promise(
        components=preview.components,
        workflows=[PromisedWorkflow(name, usual.get(name)) for name in preview.workflows],
        machines_made=[],
        machines_released=_machines(preview, {"stops"}),
        permissions=[_used(Permission.EDIT_INSTANCE, permissions.instance(record.application_id, record.id))],
        warnings=preview.warnings,
        version=None,
        former_version=record.version,
    )
    facts = {
        "organization": record.organization_id,
        "version": str(record.version),
        **await offers.facts(record.environment_id),
        **_parameter_facts(work, "parameter", msgspec.json.decode(record.parameters)),
        "course of the change": _fingerprint_of_effect(work, promise),
    }
    proposed = Proposal(workflow=DESTROY)
    return _Planned(
        record.id, record.name, record.application_id, record.environment_id, {}, promise, record, proposed, facts
    )


def _warnings_of(act: ChangeAct, record: InstanceRecord) -> list[str]:
    if act.act != "manage" or record.destroy_at is None:
        return []
    at = iso_time(record.destroy_at)
    return [
        f"The lifetime of the instance ends at {at}. What it takes over is destroyed then, and no longer forgotten."
    ]


async def _plan_relaunch(work: Work, act: ChangeAct, record: InstanceRecord, offers: _Offers) -> _Planned:
    if act.act == "manage" and not record.is_observed:
        raise BadRequest("The instance isn't observed: Launchbay manages it already.", code="CannotManage")
    if record.status is not InstanceStatus.RUNNING:
        raise BadRequest(
            f"The instance is {record.status}. Only one that is Running launches again here.", code="CannotRelaunch"
        )
    usual = await _usual(work, record.application_id)
    ahead = await look_at_present(work, record)
    runs = ahead.others if act.act == "relaunch" else every_launch(ahead)
    at = permissions.instance(record.application_id, record.id)
    promise = Promise(
        components=[],
        workflows=[PromisedWorkflow(name, usual.get(name)) for name in starmap(workflow_path, runs)],
        machines_made=[],
        machines_released=[],
        permissions=[_used(each, at) for each in (Permission.EDIT_INSTANCE, Permission.RUN_INSTANCE_WORKFLOW)],
        warnings=_warnings_of(act, record),
        version=record.version,
        former_version=record.version,
    )
    facts = {
        "organization": record.organization_id,
        "version": str(record.version),
        **_view_facts(work, record.environment_id, ahead.view),
        **await offers.facts(record.environment_id),
        **_parameter_facts(work, "parameter", msgspec.json.decode(record.parameters)),
    }
    proposed = Proposal(workflow=LAUNCH)
    return _Planned(
        record.id, record.name, record.application_id, record.environment_id, {}, promise, record, proposed, facts
    )


async def _promise(work: Work, root: LaunchNode, preview: Preview, environment: Environment) -> Promise:
    usual: dict[str, dict[str, int]] = {}
    nodes = {".".join(node.path): node for node in root.walk()}
    workflows: list[PromisedWorkflow] = []
    for name in preview.workflows:
        path, _, workflow = name.partition("#")
        parts = path.split(".")
        # The longest way that leads to an instance; the rest is the component in it.
        at = next(size for size in range(len(parts) - 1, -1, -1) if ".".join(parts[:size]) in nodes)
        application_id = nodes[".".join(parts[:at])].application_id
        if application_id not in usual:
            usual[application_id] = await _usual(work, application_id)
        local = f"{'.'.join(parts[at:])}#{workflow}"
        workflows.append(PromisedWorkflow(name, usual[application_id].get(local)))
    at_environment = permissions.environment(environment.id)
    is_new = root.former is None
    first = permissions.application(root.application_id)
    used = [_used(Permission.CREATE_INSTANCE, first, at_environment)] if is_new else []
    if not is_new:
        used.append(_used(Permission.EDIT_INSTANCE, permissions.instance(root.application_id, root.instance_id)))
    used += [
        _used(Permission.CREATE_INSTANCE, permissions.application(node.application_id), at_environment)
        for node in root.walk()
        if node is not root
    ]
    return Promise(
        components=preview.components,
        workflows=workflows,
        machines_made=_machines(preview, {"starts"}),
        machines_released=_machines(preview, {"stops"}),
        permissions=list(dict.fromkeys(used)),
        warnings=preview.warnings,
        version=root.version,
        former_version=None if root.former is None else root.former.version,
    )


def _machines(preview: Preview, changes: set[str]) -> list[str]:
    return [each.path for each in preview.components if each.type == COMPUTE and each.change in changes]


def _used(permission: Permission, *touched: Resource) -> UsedPermission:
    return UsedPermission(permission.value, " with ".join(map(str, touched)))


async def _usual(work: Work, application_id: str) -> dict[str, int]:
    rows = await store.list_usual_durations(work.connection, application_id=application_id)
    return {row.workflow: row.usual_ms for row in rows}


FINGERPRINT = "#"  # begins facts whose values must not be shown


def _facts(work: Work, root: LaunchNode, environment: Environment, view: EnvironmentView) -> dict[str, str]:
    """Return what the plan depends on and what it leads to, by phrases."""
    facts = {"organization": environment.organization_id, **_view_facts(work, environment.id, view)}
    for node in root.walk():
        where = f" of the submodule {'.'.join(node.path)}" if node.path else ""
        facts[f"application{where}"] = node.application_id
        facts[f"version{where}"] = str(node.version)
        facts[f"revision{where}"] = node.revision_id or ""
        facts |= _parameter_facts(work, f"new parameter{where}", node.parameters)
        if node.former is not None:
            facts[f"present version{where}"] = str(node.former.version)
            facts |= _parameter_facts(work, f"present parameter{where}", node.former.parameters)
        for component, link in node.links.items():
            child = node.children.get(component)
            is_new = link.kind is LinkKind.OWN and child is not None and child.former is None
            target = "new" if is_new else link.instance_id
            facts[f"target of the component {component}{where}"] = f"{link.kind} {target}"
            if link.binding_text() is not None:
                facts[f"service of the component {component}{where}"] = _hidden(work, link.binding_text())
    return facts


def _view_facts(work: Work, environment_id: str, view: EnvironmentView) -> dict[str, str]:
    return {
        "environment": environment_id,
        "policies of the environment": _hidden(work, view.policies),
        "markers of the environment": _hidden(work, sorted(view.markers)),
        **{f"property {name} of the environment": _hidden(work, value) for name, value in view.properties.items()},
    }


def _parameter_facts(work: Work, what: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    return {f"{what} {name}": _hidden(work, value) for name, value in parameters.items()}


def _hidden(work: Work, value: Any) -> str:
    return FINGERPRINT + work.fingerprint(msgspec.to_builtins(value))


def _fingerprint_of_effect(work: Work, promise: Promise) -> str:
    """Return a fingerprint of what a plan does.

    How long it usually takes isn't part of it.
    """
    return _hidden(work, [promise.components, [each.name for each in promise.workflows]])


async def _plan_again(work: Work, act: ChangeAct, rows: list[ChangeSetInstance]) -> list[_Planned]:
    """Return the plans if they are those that were shown.

    Raises Conflict that names what has changed.
    """
    for row in rows:
        if row.instance_id is not None:
            await _lock_idle(work, row.instance_id, row.instance_name)
    found, changed = await _compare(work, act, rows)
    if changed:
        raise stale(changed)
    return found


async def _lock_idle(work: Work, instance_id: str, name: str) -> None:
    """Lock an instance: no job of it begins or ends before the commit.

    Raises Conflict if a job is under way, or if another transaction has it for seconds.
    """
    for delay_s in islice(LOCK_LOOKS.delays(), LOCK_LOOKS_MOST):
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if record.job_id is not None:
            raise Conflict(f"A job is under way on {name!r}; try again later.", code="InstanceBusy")
        if await instances.lock_at_once(work.connection, instance_id=record.id) is not None:
            return
        # Never in the database: whoever has it may wait for what this transaction has locked.
        await asyncio.sleep(delay_s)
    raise Conflict(f"Another request is changing {name!r}; try again.", code="InstanceBusy")


async def _compare(work: Work, act: ChangeAct, rows: list[ChangeSetInstance]) -> tuple[list[_Planned], list[str]]:
    """Return the present plans, with a sentence for each difference from what was shown."""
    found: list[_Planned] = []
    changed: list[str] = []
    offers = _Offers(work)
    for row in rows:
        try:
            planned = await _plan_one(work, act, row.instance_id, offers)
        except BadRequest as error:
            changed += [f"{row.instance_name}: {message}" for message in error.messages]
            continue
        found.append(planned)
        sentences = _changes(read_facts(row.facts), planned.facts)
        before = read_promise(row.promise)
        if not sentences and _fingerprint_of_effect(work, before) != _fingerprint_of_effect(work, planned.promise):
            sentences = ["Its effects changed."]
        changed += [f"{row.instance_name}: {sentence}" for sentence in sentences]
    return found, changed


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return a sentence for each fact that isn't the same."""
    found: list[str] = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None or new is None:
            found.append(f"The {name} is {'new' if old is None else 'gone'}.")
        elif old.startswith(FINGERPRINT):
            found.append(f"Since then, the {name} changed.")
        else:
            found.append(f"Since then, the {name} changed from {old or 'none'} to {new or 'none'}.")
    return found


async def _carry_out(ctx: Context, act: ChangeAct, planned: _Planned) -> StartedJob:
    if act.act == "launch":
        return await launch(ctx, planned.application_id, planned.body, act.if_exists)
    assert planned.instance_id is not None, "only a launch has no instance"
    if act.act == "destroy":
        return await run_workflow(ctx, planned.instance_id, DESTROY, {}, force=bool(act.force))
    if act.act == "manage":
        async with ctx.begin() as work:
            record = await work.lookup.instance(planned.instance_id, Permission.EDIT_INSTANCE)
            await instances.stop_observing(work.connection, instance_id=record.id)
            await work.audit("take_over_instance", record, {"managed": "observe"}, {"managed": "full"})
    if act.act in _RUNS_AGAIN:
        return await run_workflow(ctx, planned.instance_id, LAUNCH, {})
    return await reconfigure(ctx, planned.instance_id, planned.body)


def _not_ready(status: str) -> Conflict:
    if status == "Pending":
        return Conflict("The change set waits for approval.", code="ChangeSetPending")
    return Conflict(f"The change set can't be applied: it is {status}.", code="ChangeSetEnded")


def _resource(row: ChangeSetInstance) -> Resource:
    return _touched(row.application_id, row.instance_id)


def _touched(application_id: str, instance_id: str | None) -> Resource:
    if instance_id is None:
        return permissions.application(application_id)
    return permissions.instance(application_id, instance_id)


def _at(organization_id: str, change_set_id: str) -> str:
    return f"/organizations/{organization_id}/change-sets/{change_set_id}"
