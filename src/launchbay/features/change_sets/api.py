"""Change sets, and the policies of environments that say who approves them."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.features.change_sets import usecases as change_sets
from launchbay.features.change_sets.rows import AnswerRow, ChangeSet, ChangeSetInstance, FollowUpRow
from launchbay.features.change_sets.rules import ChangePolicy
from launchbay.features.change_sets.usecases import (
    ChangeAct,
    ChangeSetRequest,
    ChangeSetView,
    DirectoryView,
    PromisedWorkflow,
    UsedPermission,
    read_promise,
)
from launchbay.features.directories.plans import PlannedObject
from launchbay.features.plans.api import PlanDocument, plan_document
from launchbay.features.plans.rows import PlanRow
from launchbay.features.plans.usecases import Consent
from launchbay.limits import (
    CHANGE_SET_EXPIRY_LONGEST_MS,
    CHANGE_SET_EXPIRY_MS,
    CHANGE_SET_INSTANCES,
    ORGANIZATION_ARCHIVE_BYTES,
    PLAN_PATTERNS,
)
from launchbay.model.expiry import IfExists
from launchbay.usecases.preview import PreviewedComponent
from launchbay.web.api.selection import Selection
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import Pages, Response, optional_ms, page
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Changes", extension=True)


class ChangeSetBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do with which instances.

    These are `ids` or `select`; a launch and a directory have neither. `launch` and `configuration` are bodies of a
    launch and a reconfiguration. The act `version` keeps what an instance has, and `parameters` go over it. The act
    `relaunch` launches again what runs, `manage` takes over what is only observed, and `apply` applies a directory.
    `expiresIn` is in milliseconds.
    """

    act: Literal["launch", "reconfigure", "version", "relaunch", "manage", "destroy", "apply"]
    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=CHANGE_SET_INSTANCES)] | None = None
    select: Selection | None = None
    applicationId: str | None = None
    launch: dict[str, Any] | None = None
    ifExists: Annotated[
        IfExists | None, msgspec.Meta(description="For `launch`: what it does if a living instance has its name.")
    ] = None
    configuration: dict[str, Any] | None = None
    version: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None
    parameters: dict[str, Any] | None = None
    force: bool | None = None
    files: Annotated[
        dict[str, str] | None,
        msgspec.Meta(description="The files of a directory: their texts by their paths in it."),
    ] = None
    prune: Annotated[
        bool, msgspec.Meta(description="Delete objects that the directory lacks, of kinds that have a folder in it.")
    ] = False
    comment: str = ""
    expiresIn: Annotated[int, msgspec.Meta(ge=1, le=CHANGE_SET_EXPIRY_LONGEST_MS)] = CHANGE_SET_EXPIRY_MS
    onFailure: Annotated[
        Literal["keep", "rollback"],
        msgspec.Meta(description="What an instance does when its reconfiguration fails: with plan, only keep."),
    ] = "keep"
    confirm: Annotated[
        bool,
        msgspec.Meta(
            description="Let a person confirm it if no policy asks for approvals. A token whose scope names"
            " DeleteInstance for the instances needs nobody."
        ),
    ] = False

    plan: Annotated[
        bool,
        msgspec.Meta(
            description="Plan what the steps would do. Approvals cover that, and steps do exactly that or stop."
        ),
    ] = False

    def request(self) -> ChangeSetRequest:
        """Return what is asked for. Raises BadRequest."""
        act = ChangeAct(
            act=self.act,
            application_id=self.applicationId,
            launch=self.launch,
            if_exists=self.ifExists,
            configuration=self.configuration,
            version=self.version,
            parameters=self.parameters,
            force=self.force,
            files=None if self.files is None else {path: text.encode() for path, text in self.files.items()},
            prune=self.prune,
        )
        return ChangeSetRequest(
            act=act,
            ids=self.ids,
            wanted=None if self.select is None else self.select.filter(),
            comment=self.comment,
            expires_in_ms=self.expiresIn,
            on_failure=self.onFailure,
            confirm=self.confirm,
            with_plans=self.plan,
        )


class Compared(msgspec.Struct, frozen=True):
    """Whether to compare a change set with the present state."""

    compare: Annotated[
        bool | None,
        msgspec.Meta(
            description="Whether to compare it with the present state. Default: if it has at most 10 instances."
        ),
    ] = None


class ChangeSetAnswer(msgspec.Struct):
    """The answer of one user; `at` is in milliseconds since the Unix epoch."""

    userId: str
    email: str
    approves: bool
    comment: str
    at: int
    counts: Annotated[bool, msgspec.Meta(description="False if the approver has lost the permission.")] = True


class ChangeSetItem(msgspec.Struct, kw_only=True):
    """A change set. `instances` is their number; `needed` is how many have to approve."""

    id: str
    act: str
    status: Annotated[
        str, msgspec.Meta(description="Pending, Ready, Rejected, Expired, Applying, Succeeded or Failed.")
    ]
    comment: str
    ownerId: str
    ownerEmail: str
    onFailure: str
    instances: int
    needed: int
    confirm: Annotated[bool, msgspec.Meta(description="A person confirms it: the author too, but no access token.")]
    createdAt: int
    expiresAt: int
    appliedBy: str | None
    appliedAt: int | None
    finishedAt: int | None


class FollowUp(msgspec.Struct):
    """How an instance is planned again after its job stopped.

    `problem` is why there is no change set for that.
    """

    changeSetId: Annotated[str | None, msgspec.Meta(description="What plans it again, and waits for a person.")]
    problem: str | None


class PlannedInstance(msgspec.Struct, kw_only=True):
    """What happens to one instance, as it was shown."""

    instanceId: Annotated[str | None, msgspec.Meta(description="Null for a launch until it is applied.")]
    instanceName: str
    applicationId: str
    environmentId: str
    fromVersion: int | None
    toVersion: int | None
    components: list[PreviewedComponent]
    workflows: list[PromisedWorkflow]
    machinesMade: list[str]
    machinesReleased: list[str]
    permissions: list[UsedPermission]
    warnings: list[str]
    status: Annotated[
        str,
        msgspec.Meta(
            description="Waiting, Planning, NotPlanned or Planned, as its effects; then Running, Succeeded or Failed."
        ),
    ]
    jobId: str | None
    message: str | None
    differences: Annotated[
        list[str] | None, msgspec.Meta(description="How the result isn't what was shown; null until it is known.")
    ]
    effects: Annotated[
        PlanDocument | None, msgspec.Meta(description="What its steps would do, if that was planned.")
    ] = None
    followUp: Annotated[
        FollowUp | None, msgspec.Meta(description="What follows a step that stopped, with onDifference: replan.")
    ] = None


class DirectoryChanges(msgspec.Struct, kw_only=True):
    """What applying a directory does.

    `hidden` is the number of objects that the caller may not read.
    """

    objects: list[PlannedObject]
    hidden: int
    permissions: list[UsedPermission]
    warnings: list[str]
    differences: Annotated[
        list[str] | None, msgspec.Meta(description="How the result isn't what was shown; null until it is applied.")
    ]


class ChangeSetDocument(ChangeSetItem, kw_only=True):
    """A change set with the instances or objects that the caller may read."""

    answers: list[ChangeSetAnswer]
    roleIds: list[str]
    plan: list[PlannedInstance]
    directory: DirectoryChanges | None
    commit: Annotated[str | None, msgspec.Meta(description="The commit of a source in Git for which it was made.")]
    planDigest: Annotated[
        str | None,
        msgspec.Meta(
            description="Covers the plans as shown, made or not. Send it with the approval; null without plans."
        ),
    ] = None
    follows: Annotated[
        str | None, msgspec.Meta(description="The change set that stopped, whose change this one plans again.")
    ] = None
    waitingFor: Annotated[
        str | None, msgspec.Meta(description="What it waits for, since when, and what ends that.")
    ] = None
    stale: Annotated[
        list[str] | None,
        msgspec.Meta(description="What has changed since, so that it can't be applied. Null if nobody compared it."),
    ] = None


_Patterns = Annotated[
    list[str],
    msgspec.Meta(description="Patterns of addresses that may be deleted, such as *.", max_length=PLAN_PATTERNS),
]


_Digest = Annotated[
    str | None,
    msgspec.Meta(description="The planDigest that was shown: other plans than those are refused."),
]


class AnswerChangeSet(msgspec.Struct, forbid_unknown_fields=True):
    """An optional comment on the decision, and which planned deletions an approval allows."""

    comment: str = ""
    allowDeletes: _Patterns = []
    planDigest: _Digest = None

    def consent(self) -> Consent:
        """Return what is agreed to."""
        return Consent(allow_deletes=self.allowDeletes, digest=self.planDigest)


class ApplyChangeSet(msgspec.Struct, forbid_unknown_fields=True):
    """Which planned deletions are allowed, if nobody had to approve them."""

    allowDeletes: _Patterns = []
    planDigest: _Digest = None

    def consent(self) -> Consent:
        """Return what is agreed to."""
        return Consent(allow_deletes=self.allowDeletes, digest=self.planDigest)


class ChangePolicyBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many approve change sets, and the role that each needs, if any."""

    approvals: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0
    roleId: str | None = None
    plansBeforeApproval: Annotated[
        bool,
        msgspec.Meta(description="Whether plans of change sets may run code of modules before anybody approves it."),
    ] = False


_EXAMPLE = {"act": "version", "ids": [EXAMPLE_ID], "version": 4, "comment": "OPS-17", "onFailure": "rollback"}
_SHOWN = Returns("The change set.", type=ChangeSetDocument)
_NEEDED = "EditInstance; CreateInstance for a launch; what its changes need for a directory"


@routes.post(
    "/organizations/{orgId}/change-sets",
    permission=_NEEDED,
    body=JsonBody(example=_EXAMPLE, keeps_texts=TYPED, bytes_max=ORGANIZATION_ARCHIVE_BYTES),
    returns=_SHOWN,
    idempotency_key=True,
    computes=True,  # thousands of files of a directory are tried in one transaction
)
async def create_change_set(request: Request[ChangeSetBody, None]) -> ChangeSetDocument:
    """Keep what a change of instances or a directory would do."""
    made = await change_sets.create_change_set(request.ctx, request.path["orgId"], request.body.request())
    return change_set_document(await change_sets.read_change_set(request.ctx, made))


@routes.get(
    "/organizations/{orgId}/change-sets",
    permission="Read",
    returns=Returns("The change sets, newest first.", type=list[ChangeSetItem]),
)
async def list_change_sets(request: Request[None, Pages]) -> Response:
    """List the change sets of an organization."""
    limit = request.query.most_items
    rows = await change_sets.list_change_sets(
        request.ctx, request.path["orgId"], after=request.query.after, count=limit + 1
    )
    return page(request, [_item(row) for row in rows], limit)


@routes.get(
    "/change-sets/{changeSetId}",
    permission="Read on each object shown",
    returns=_SHOWN,
)
async def read_change_set(request: Request[None, Compared]) -> ChangeSetDocument:
    """Show a change set with its plan."""
    change_set_id, compare = request.path["changeSetId"], request.query.compare
    return change_set_document(await change_sets.read_compared(request.ctx, change_set_id, compare=compare))


@routes.post(
    "/change-sets/{changeSetId}/approve",
    permission="ApproveInstanceWorkflow",
    body=JsonBody(required=False, example={"comment": "Checked in the lab."}),
    returns=_SHOWN,
    statuses=(409,),
)
async def approve_change_set(request: Request[AnswerChangeSet, None]) -> ChangeSetDocument:
    """Approve a change set of somebody else."""
    return await _answered(request, approves=True)


@routes.post(
    "/change-sets/{changeSetId}/reject",
    permission="ApproveInstanceWorkflow",
    body=JsonBody(required=False, example={"comment": "Not before the release."}),
    returns=_SHOWN,
    statuses=(409,),
)
async def reject_change_set(request: Request[AnswerChangeSet, None]) -> ChangeSetDocument:
    """Reject a change set of somebody else."""
    return await _answered(request, approves=False)


@routes.post(
    "/change-sets/{changeSetId}/apply",
    permission=_NEEDED,
    body=JsonBody(required=False, example={"allowDeletes": ["*"]}),
    returns=_SHOWN,
    statuses=(409,),
    idempotency_key=True,
)
async def apply_change_set(request: Request[ApplyChangeSet, None]) -> ChangeSetDocument:
    """Apply a change set as it was shown."""
    await change_sets.apply_change_set(request.ctx, request.path["changeSetId"], request.body.consent())
    return change_set_document(await change_sets.read_change_set(request.ctx, request.path["changeSetId"]))


@routes.delete("/change-sets/{changeSetId}", permission="EditInstance for others than its author", statuses=(409,))
async def delete_change_set(request: Request[None, None]) -> None:
    """Delete a change set."""
    await change_sets.delete_change_set(request.ctx, request.path["changeSetId"])


@routes.get(
    "/environments/{envId}/changePolicy",
    command="environment change-policy",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The policy.", {"approvals": 2, "roleId": None, "plansBeforeApproval": False}),
)
async def read_change_policy(request: Request[None, None]) -> ChangePolicyBody:
    """Show who approves change sets of an environment."""
    found = await change_sets.read_change_policy(request.ctx, request.path["envId"])
    return ChangePolicyBody(
        approvals=found.approvals, roleId=found.role_id, plansBeforeApproval=found.plans_before_approval is True
    )


@routes.put(
    "/environments/{envId}/changePolicy",
    command="environment set-change-policy",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example={"approvals": 2, "roleId": None}),
)
async def set_change_policy(request: Request[ChangePolicyBody, None]) -> None:
    """Set who approves new change sets of an environment."""
    policy = ChangePolicy(
        approvals=request.body.approvals,
        role_id=request.body.roleId,
        plans_before_approval=request.body.plansBeforeApproval or msgspec.UNSET,
    )
    await change_sets.set_change_policy(request.ctx, request.path["envId"], policy)


async def _answered(request: Request[AnswerChangeSet, None], *, approves: bool) -> ChangeSetDocument:
    change_set_id = request.path["changeSetId"]
    await change_sets.answer_change_set(
        request.ctx,
        change_set_id,
        approves=approves,
        comment=request.body.comment,
        consent=request.body.consent(),
    )
    return change_set_document(await change_sets.read_change_set(request.ctx, change_set_id))


def _item(row: ChangeSet) -> ChangeSetItem:
    return ChangeSetItem(
        id=row.id,
        act=row.kind,
        status=row.status,
        comment=row.comment,
        ownerId=row.owner_id,
        ownerEmail=row.owner_email,
        onFailure=row.on_failure,
        instances=row.instances,
        needed=row.needed,
        confirm=row.confirm,
        createdAt=to_ms(row.created_at),
        expiresAt=to_ms(row.expires_at),
        appliedBy=row.applied_by,
        appliedAt=optional_ms(row.applied_at),
        finishedAt=optional_ms(row.finished_at),
    )


def change_set_document(view: ChangeSetView) -> ChangeSetDocument:
    """Return a change set as the API shows it."""
    return ChangeSetDocument(
        **msgspec.structs.asdict(_item(view.change_set)),
        answers=[_answer(row, counts=row.user_id not in view.lost) for row in view.answers],
        roleIds=view.change_set.role_ids,
        plan=[_planned(row, view.plans.get(row.place), view.follow_ups.get(row.place)) for row in view.instances],
        directory=None if view.directory is None else _directory(view.directory),
        commit=view.change_set.git_commit,
        planDigest=view.plan_digest,
        follows=view.follows,
        waitingFor=change_sets.waiting_for(view),
        stale=view.stale,
    )


def _directory(view: DirectoryView) -> DirectoryChanges:
    return DirectoryChanges(
        objects=view.objects,
        hidden=view.hidden,
        permissions=view.permissions,
        warnings=view.warnings,
        differences=view.differences,
    )


def _answer(row: AnswerRow, *, counts: bool) -> ChangeSetAnswer:
    return ChangeSetAnswer(row.user_id, row.email, row.approves, row.comment, to_ms(row.at), counts)


def _status(row: ChangeSetInstance, plan: PlanRow | None) -> str:
    """Return where an instance is, as its effects say until a job runs."""
    if row.status != "Planned" or plan is None:
        return row.status
    status = plan_document(plan).status
    return "NotPlanned" if status == "Failed" else status


def _planned(row: ChangeSetInstance, plan: PlanRow | None, follow_up: FollowUpRow | None) -> PlannedInstance:
    promise = read_promise(row.promise)
    return PlannedInstance(
        instanceId=row.instance_id,
        instanceName=row.instance_name,
        applicationId=row.application_id,
        environmentId=row.environment_id,
        fromVersion=promise.former_version,
        toVersion=promise.version,
        components=promise.components,
        workflows=promise.workflows,
        machinesMade=promise.machines_made,
        machinesReleased=promise.machines_released,
        permissions=promise.permissions,
        warnings=promise.warnings,
        status=_status(row, plan),
        jobId=row.job_id,
        message=row.message,
        differences=None if row.differences is None else msgspec.json.decode(row.differences),
        effects=None if plan is None else plan_document(plan),
        followUp=None if follow_up is None else FollowUp(follow_up.follow_up_id, follow_up.problem),
    )
