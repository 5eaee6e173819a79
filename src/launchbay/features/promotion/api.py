"""Orders of environments, boards, and promotions."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.features.change_sets.api import ChangeSetDocument, change_set_document
from launchbay.features.generations.usecases import FailurePolicy
from launchbay.features.promotion import usecases as promotion
from launchbay.features.promotion.rules import Gate
from launchbay.features.promotion.usecases import BoardColumn, Order, PromotionRequest
from launchbay.limits import CHANGE_SET_EXPIRY_LONGEST_MS, CHANGE_SET_EXPIRY_MS
from launchbay.model.manifest_difference import ManifestDifference
from launchbay.model.promotion import APPROVALS_MOST, SOAK_MOST_S, OrderOwner, Stage
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import optional_ms
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_AT_MS = 1_798_761_600_000
_STAGES: dict[str, Any] = {
    "stages": [
        {"environmentId": "5a" * 12},
        {"environmentId": "5b" * 12, "soak": 3_600_000, "workflows": ["smoke"], "approvals": 1, "automatic": False},
    ]
}


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class StageBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An environment of an order, with its gates. The first one has none."""

    environmentId: str
    soak: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=SOAK_MOST_S * 1_000, description="How long it ran in the environment before, in milliseconds."
        ),
    ] = 0
    workflows: Annotated[
        list[str], _about("Workflows whose last run on each instance there succeeded, since the version came.")
    ] = []
    approvals: Annotated[int, msgspec.Meta(ge=0, le=APPROVALS_MOST, description="Of the change set, by others.")] = 0
    automatic: Annotated[bool, _about("Promote when the other gates are open, on behalf of who sets the order.")] = (
        False
    )

    def stage(self) -> Stage:
        return Stage(
            environment_id=self.environmentId,
            soak_s=-(-self.soak // 1_000),
            workflows=tuple(self.workflows),
            approvals=self.approvals,
            automatic=self.automatic,
        )


class OrderBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Environments in the order in which versions pass them."""

    stages: Annotated[
        list[StageBody] | None,
        _about("All of them. Empty: no order. Without it: an application has the order of its organization again."),
    ] = None


class OrderDocument(msgspec.Struct, kw_only=True):
    """The order in force."""

    stages: list[StageBody]
    own: Annotated[bool, _about("The application has an order of its own.")]
    byEmail: Annotated[str | None, _about("Who set it. Null: nobody, or the account was deleted.")]
    at: Annotated[int | None, _about("When it was set, in milliseconds since the Unix epoch.")]


class GateDocument(msgspec.Struct, kw_only=True):
    """A condition of a promotion."""

    kind: Annotated[str, _about("version, instances, soak, workflow, approvals or rules.")]
    open: bool
    sentence: str
    opensAt: Annotated[int | None, _about("When it opens automatically, if that is known.")]


class PlacedDocument(msgspec.Struct, kw_only=True):
    """An instance that the caller may read, with its version."""

    id: str
    name: str
    status: str
    version: int
    revision: str | None
    since: Annotated[int | None, _about("When the version came. Null: it has never been launched with success.")]
    byEmail: Annotated[str | None, _about("Who brought the version.")]
    changeSetId: Annotated[str | None, _about("The change set that brought it.")]


class DifferenceDocument(msgspec.Struct, kw_only=True):
    """What differs from the environment before. Values aren't shown: only names."""

    manifest: Annotated[
        ManifestDifference | None,
        _about("What the version there would change here. Null: the same version, or several, or none."),
    ]
    parameters: Annotated[list[str], _about("Of the first instance on each side that you may read.")]
    properties: list[str]
    policies: list[str]
    markers: list[str]


class BoardColumnDocument(msgspec.Struct, kw_only=True):
    """One environment.

    Of one that the caller may not read, there is only the ID.
    """

    environmentId: str
    name: Annotated[str | None, _about("Null: it was deleted, or you may not read it.")]
    version: Annotated[int | None, _about("The version of all instances. Null: there are several, or none.")]
    candidate: Annotated[int | None, _about("The version that comes next. Null: nothing is to be promoted.")]
    open: Annotated[bool, _about("There is a candidate, and all its gates are open.")]
    gates: list[GateDocument]
    changeSetId: Annotated[
        str | None,
        _about(
            "The newest change set that promotes the candidate; without one, the newest that promoted a version here."
        ),
    ]
    changeSetStatus: str | None
    message: Annotated[str | None, _about("Why automatic promotion waits, or has stopped.")]
    differences: DifferenceDocument | None
    instances: Annotated[list[PlacedDocument], _about("The first 50.")]
    moreInstances: Annotated[int, _about("How many more you may read.")]


class BoardDocument(msgspec.Struct, kw_only=True):
    """Which version of an application is in which environment."""

    applicationId: str
    own: bool
    environments: list[BoardColumnDocument]


class PromotionBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to promote where."""

    fromId: Annotated[str, _about("The environment that has the version.")]
    toId: Annotated[str, _about("The environment after it.")]
    version: Annotated[int | None, _about("Default: the version of all instances there.")] = None
    parameters: Annotated[dict[str, Any], _about("They go over those that the instances have.")] = {}
    comment: str = ""
    expiresIn: Annotated[int, msgspec.Meta(ge=1, le=CHANGE_SET_EXPIRY_LONGEST_MS)] = CHANGE_SET_EXPIRY_MS
    onFailure: FailurePolicy = "keep"
    confirm: Annotated[bool, _about("A person confirms it, if no policy asks for approvals.")] = False
    dryRun: Annotated[bool, _about("Only show what it would do.")] = False


class PromotionDocument(msgspec.Struct, kw_only=True):
    """The change set of a promotion."""

    version: int
    isNew: Annotated[bool, _about("False: an open change set promotes the version already.")]
    changeSet: Annotated[ChangeSetDocument, _about("Of a dry run, it isn't kept.")]


@routes.get(
    "/organizations/{orgId}/promotion-order",
    command="organization promotion-order",
    tags=("Organizations",),
    permission="None, for members",
    returns=Returns("The order.", {**_STAGES, "own": False, "byEmail": "ada@example.com", "at": _AT_MS}),
)
async def read_promotion_order(request: Request[None, None]) -> OrderDocument:
    """Show the order in which versions pass environments, unless an application has its own."""
    return await _order(request, "organization", "orgId")


@routes.put(
    "/organizations/{orgId}/promotion-order",
    command="organization set-promotion-order",
    tags=("Organizations",),
    permission="EditEnvironment for each environment that it names or named",
    body=JsonBody(example=_STAGES),
)
async def replace_promotion_order(request: Request[OrderBody, None]) -> None:
    """Set the order in which versions pass environments."""
    await promotion.replace_order(request.ctx, "organization", request.path["orgId"], _given(request.body))


@routes.get(
    "/applications/{appId}/promotion-order",
    command="application promotion-order",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The order.", {**_STAGES, "own": True, "byEmail": "ada@example.com", "at": _AT_MS}),
)
async def read_application_promotion_order(request: Request[None, None]) -> OrderDocument:
    """Show the order in which versions of an application pass environments."""
    return await _order(request, "application", "appId")


@routes.put(
    "/applications/{appId}/promotion-order",
    command="application set-promotion-order",
    tags=("Applications",),
    permission="EditApplication; EditEnvironment for each environment that it, or the order in force, names",
    body=JsonBody(example=_STAGES),
)
async def replace_application_promotion_order(request: Request[OrderBody, None]) -> None:
    """Set the order in which versions of an application pass environments."""
    await promotion.replace_order(request.ctx, "application", request.path["appId"], _given(request.body))


@routes.get(
    "/applications/{appId}/promotion",
    tags=("Applications",),
    permission="Read; on environments and instances, where they are shown",
    returns=Returns("The environments.", type=BoardDocument),
    computes=True,  # it compares manifests
)
async def read_promotion(request: Request[None, None]) -> BoardDocument:
    """Show which version is in which environment, and what keeps it there."""
    board = await promotion.read_board(request.ctx, request.path["appId"])
    return BoardDocument(
        applicationId=board.application.id,
        own=board.order.is_own,
        environments=[_column(each) for each in board.columns],
    )


@routes.post(
    "/applications/{appId}/promotions",
    command="promotion propose",
    tags=("Applications",),
    permission="Read, also on both environments; EditInstance",
    body=JsonBody(example={"fromId": "5a" * 12, "toId": "5b" * 12}),
    returns=Returns("The change set that promotes.", type=PromotionDocument),
    idempotency_key=True,
    shown_by="read_promotion",
)
async def promote_version(request: Request[PromotionBody, None]) -> PromotionDocument:
    """Make the change set that brings a version to the next environment.

    It keeps the parameters that the instances there have. If an open one promotes the same version, that is returned.
    """
    body = request.body
    wanted = PromotionRequest(
        from_id=body.fromId,
        to_id=body.toId,
        version=body.version,
        parameters=body.parameters,
        comment=body.comment,
        expires_in_ms=body.expiresIn,
        on_failure=body.onFailure,
        dry_run=body.dryRun,
        confirm=body.confirm,
    )
    made = await promotion.promote(request.ctx, request.path["appId"], wanted)
    return PromotionDocument(version=made.version, isNew=made.is_new, changeSet=change_set_document(made.change_set))


def _given(body: OrderBody) -> list[Stage] | None:
    return None if body.stages is None else [each.stage() for each in body.stages]


async def _order(request: Request[None, None], kind: OrderOwner, parameter: str) -> OrderDocument:
    found: Order = await promotion.read_order(request.ctx, kind, request.path[parameter])
    return OrderDocument(
        stages=[
            StageBody(
                environmentId=each.environment_id,
                soak=each.soak_s * 1_000,
                workflows=list(each.workflows),
                approvals=each.approvals,
                automatic=each.automatic,
            )
            for each in found.stages
        ],
        own=found.is_own,
        byEmail=found.author_email,
        at=None if found.at is None else to_ms(found.at),
    )


def _column(column: BoardColumn) -> BoardColumnDocument:
    found, made = column.differences, column.promotion
    return BoardColumnDocument(
        environmentId=column.stage.environment_id,
        name=column.name,
        version=column.version,
        candidate=column.candidate,
        open=column.is_open,
        gates=[_gate(each) for each in column.gates],
        changeSetId=None if made is None else made.change_set_id,
        changeSetStatus=None if made is None else made.status,
        message=column.message,
        differences=None
        if found is None
        else DifferenceDocument(
            manifest=found.manifest,
            parameters=found.parameters,
            properties=found.properties,
            policies=found.policies,
            markers=found.markers,
        ),
        instances=[
            PlacedDocument(
                id=row.id,
                name=row.name,
                status=row.status,
                version=row.version,
                revision=row.revision,
                since=optional_ms(row.since),
                byEmail=row.by_email,
                changeSetId=row.change_set_id,
            )
            for row in column.instances
        ],
        moreInstances=column.more,
    )


def _gate(gate: Gate) -> GateDocument:
    return GateDocument(kind=gate.kind, open=gate.is_open, sentence=gate.sentence, opensAt=optional_ms(gate.opens_at))
