"""Promotion: which version is where, what keeps it there, and what promotes it.

The gates of an order are a rule about changes: they hold for a launch or reconfiguration by whatever door (decision
0218). Only a version that the environment hasn't had is asked about, so that nothing keeps anybody from going back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, InvalidManifest, NotAllowed, NotFound
from launchbay.features.change_sets.usecases import (
    ChangeAct,
    ChangeSetRequest,
    ChangeSetView,
    create_change_set,
    end_superseded,
    find_staleness,
    read_change_set,
)
from launchbay.features.generations.usecases import FailurePolicy
from launchbay.features.promotion import rows as store
from launchbay.features.promotion.rows import OrderRow, PlacedRow, PromotionRow
from launchbay.features.promotion.rules import (
    Gate,
    Placed,
    closed,
    gates_of,
    opens_at,
    stage_before,
    version_in,
)
from launchbay.ids import canonical_id
from launchbay.model.changes import Proposal, Refusal
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.model.manifest_difference import ManifestDifference
from launchbay.model.promotion import OrderOwner, Stage, check_stages, read_stages
from launchbay.planning.acceptance import environment_view
from launchbay.planning.decisions import Change
from launchbay.store import instances, organizations
from launchbay.store.applications import Application
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.organizations import Organization
from launchbay.usecases.context import Context, Work, as_invalid_id
from launchbay.usecases.manifest_differences import compare_versions
from launchbay.usecases.on_behalf import refuse_agents

GATE_CODE = "PromotionGate"
_WHERE = "on the page Promotion of the application, or with launchbay"
_SHOWN_MOST = 50  # instances of an environment
OPEN = frozenset({"Pending", "Ready", "Applying"})  # statuses of change sets that may still bring a version


@dataclass(frozen=True, slots=True)
class Order:
    """The environments that versions pass, and who said so.

    `is_own` says that it is the application's, which hides that of the organization and its `hidden_stages`.
    """

    stages: tuple[Stage, ...] = ()
    is_own: bool = False
    author_email: str | None = None
    at: datetime | None = None
    hidden_stages: tuple[Stage, ...] = ()


def _order(row: OrderRow | None) -> Order:
    if row is None:
        return Order()
    hidden = () if row.hidden_stages is None else read_stages(row.hidden_stages)
    return Order(read_stages(row.stages), row.application_id is not None, row.author_email, row.created_at, hidden)


async def read_order(ctx: Context, kind: OrderOwner, owner_id: str) -> Order:
    """Return the order of an organization, or the one in force for an application."""
    async with ctx.read() as work:
        if kind == "organization":
            owner_id = await work.lookup.member_of(owner_id)
            return _order(await store.get_own_order(work.connection, owner_id=owner_id, organization_id=owner_id))
        application = await work.lookup.application(owner_id, Permission.READ)
        return _order(await order_in_force(work.connection, application.organization_id, application.id))


async def read_own_order(ctx: Context, kind: OrderOwner, owner_id: str) -> tuple[Stage, ...] | None:
    """Return the own order of an organization or application. None: it has none."""
    found = await read_order(ctx, kind, owner_id)
    if kind == "organization":
        return found.stages or None
    return found.stages if found.is_own else None


async def order_in_force(connection: Connection, organization_id: str, application_id: str) -> OrderRow | None:
    """Return the order of an application, or else that of its organization."""
    return await store.get_order(connection, organization_id=organization_id, application_id=application_id)


async def replace_order(ctx: Context, kind: OrderOwner, owner_id: str, stages: Sequence[Stage] | None) -> None:
    """Set an order, or with None that of the organization again.

    One without stages means no order. It guards its environments, so who sets it needs EditEnvironment for all that it
    names, and all of the order in force before; for an application also EditApplication (decision 0218).

    Raises BadRequest for an order that can't be, and NotAllowed for agents that set an automatic one.
    """
    if stages is not None:
        stages = [msgspec.structs.replace(each, environment_id=canonical_id(each.environment_id)) for each in stages]
    check_stages(stages or ())
    if any(each.automatic for each in stages or ()):
        refuse_agents(ctx.actor, "an order that promotes automatically")
    async with ctx.begin() as work:
        application: Application | None = None
        changed: Application | Organization
        if kind == "application":
            changed = application = await work.lookup.application(owner_id, Permission.EDIT_APPLICATION)
            owner_id, organization_id = application.id, application.organization_id
        else:
            changed = await work.lookup.organization(owner_id)
            owner_id = organization_id = changed.id
        await store.lock_orders(work.connection, organization_id=organization_id)
        row = await store.get_own_order(work.connection, owner_id=owner_id, organization_id=organization_id)
        before = () if row is None else read_stages(row.stages)
        guarding = row
        if row is None and application is not None:  # its own order would take the place of the organization's
            guarding = await order_in_force(work.connection, organization_id, owner_id)
        for index, each in enumerate(stages or ()):
            with as_invalid_id(f"stages[{index}].environmentId"):
                environment = await work.lookup.environment(each.environment_id, Permission.EDIT_ENVIRONMENT)
            if environment.organization_id != organization_id:
                raise BadRequest(
                    f"stages[{index}].environmentId: it belongs to another organization.", code="UnknownId"
                )
        kept = [] if guarding is None else [each.environment_id for each in read_stages(guarding.stages)]
        for found in await store.list_environments(work.connection, organization_id=organization_id, ids=kept):
            work.lookup.require(organization_id, Permission.EDIT_ENVIRONMENT, permissions.environment(found.id))
        if stages is None or (application is None and not stages):
            await store.delete_order(work.connection, owner_id=owner_id, organization_id=organization_id)
        else:
            await store.put_order(
                work.connection,
                owner_id=owner_id,
                organization_id=organization_id,
                application_id=None if application is None else application.id,
                stages=msgspec.json.encode(stages).decode(),
                is_automatic=any(each.automatic for each in stages),
                author_id=ctx.actor.user_id,
                method=ctx.actor.method,
                token_id=ctx.actor.token_id,
            )
        await store.forget_attempts(
            work.connection,
            organization_id=organization_id,
            application_id=None if application is None else application.id,
        )
        await work.audit(
            "replace_application_promotion_order" if application is not None else "replace_promotion_order",
            changed,
            {"stages": msgspec.to_builtins(before)},
            {"stages": msgspec.to_builtins(stages)},
        )


async def refuse_unready(connection: Connection, change: Change) -> Refusal | None:
    """Refuse a version that is new in an environment behind a closed gate."""
    if change.kind not in {"launch", "reconfigure"} or change.proposed.version is None:
        return None
    if change.application_id is None or change.environment_id is None:
        return None
    found = [await _refusal(connection, change, change.application_id, change.proposed.version)]
    brought: dict[tuple[str, int], str] = {}
    for path, application_id, version in change.proposed.submodules:
        brought.setdefault((application_id, version), path)
    for (application_id, version), path in brought.items():
        found.append(await _refusal(connection, change, application_id, version, inside=path))
    refusals = [each for each in found if each is not None]
    # What approvals can't open comes first, and then what needs the most of them.
    return max(refusals, key=lambda each: (each.outcome == "deny", each.approvals or 0), default=None)


async def _refusal(
    connection: Connection, change: Change, application_id: str, version: int, *, inside: str | None = None
) -> Refusal | None:
    """Return what keeps a version out.

    `inside` is the path of a submodule that has it.
    """
    row = await order_in_force(connection, change.organization_id, application_id)
    stages = () if row is None else read_stages(row.stages)
    stage, former = stage_before(stages, change.environment_id or "")
    if stage is None or former is None:
        return None
    if not await _is_guarded(connection, application_id, stage, version, is_inside=inside is not None):
        return None
    around = await neighbours(
        connection, change.organization_id, application_id, stage, former, is_inside=inside is not None
    )
    here = repr(around.names.get(stage.environment_id, stage.environment_id))
    whose = "" if inside is None else f"Its submodule {inside!r} has version {version}. "
    gates = around.gates(version, change.clock.now())
    if found := closed(gates):
        until = opens_at(gates)
        when, remedy = "", f"See what is missing {_WHERE} promotion show."
        if until is not None:
            when, remedy = " It opens automatically.", "Wait until then."
        sentence = f"{whose}A gate in front of {here} is closed. {' '.join(each.sentence for each in found)}{when}"
        return Refusal("deny", GATE_CODE, sentence, remedy, until, approvals=stage.approvals)
    if stage.approvals and await _approvals(connection, change) < stage.approvals:
        wanted = "1 approval" if stage.approvals == 1 else f"{stage.approvals} approvals"
        sentence = f"{whose}A version comes to {here} by a change set with {wanted}."
        remedy = f"Promote it {_WHERE} promote. A change set that was made before has to be made again."
        return Refusal("needs", GATE_CODE, sentence, remedy, approvals=stage.approvals)
    return None


async def _is_guarded(
    connection: Connection, application_id: str, stage: Stage, version: int, *, is_inside: bool = False
) -> bool:
    """Return whether the gates of an environment refuse a version while they are closed."""
    if not stage.has_gates:
        return False
    place = {"application_id": application_id, "environment_id": stage.environment_id}
    return not await store.had_version(connection, **place, version=version, is_inside=is_inside)


async def _approvals(connection: Connection, change: Change) -> int:
    if change.change_set is None:
        return 0
    found = await store.get_approvals(
        connection, change_set_id=change.change_set, organization_id=change.organization_id
    )
    return found or 0


async def _names(connection: Connection, organization_id: str, stages: Iterable[Stage]) -> dict[str, str]:
    ids = [each.environment_id for each in stages]
    rows = await store.list_environments(connection, organization_id=organization_id, ids=ids)
    return {row.id: row.name for row in rows}


async def placed_in(
    connection: Connection,
    application_id: str,
    stages: Iterable[Stage],
    workflows: Iterable[str] = (),
    *,
    is_inside: bool = False,
) -> list[PlacedRow]:
    """Return instances of an application in environments, with their newest runs of workflows."""
    return await store.list_placed(
        connection,
        application_id=application_id,
        environment_ids=[each.environment_id for each in stages],
        workflows=sorted(set(workflows)),
        is_inside=is_inside,
    )


def _facts(row: PlacedRow) -> Placed:
    ran = msgspec.json.decode(row.ran, type=dict[str, bool])
    return Placed(InstanceStatus(row.status), row.version, row.since, ran)


def _gates(
    stage: Stage, former: Stage, names: Mapping[str, str], version: int, placed: Iterable[PlacedRow], now: datetime
) -> list[Gate]:
    if former.environment_id not in names:
        return [Gate("version", "The environment before it was deleted. Set the order again.", is_open=False)]
    there = [_facts(row) for row in placed if row.environment_id == former.environment_id]
    return gates_of(stage, names[former.environment_id], version, there, now)


class NeighbourDifference(NamedTuple):
    """What an environment has that the one before hasn't, and the other way round.

    `manifest` is None if the versions are the same, or can't be compared. The others are names of what differs.
    """

    manifest: ManifestDifference | None
    parameters: list[str]
    properties: list[str]
    policies: list[str]
    markers: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardColumn:
    """One environment of a board, as far as the caller may read it.

    `version` is that of all instances, and `candidate` that of the environment before, which comes next. `message` says
    what became of automatic promotion.
    """

    stage: Stage
    name: str | None  # None: it was deleted, or the caller may not read it
    is_hidden: bool
    instances: list[PlacedRow]
    more: int  # instances that the caller may read, and that aren't among them
    behind: str | None  # an instance that the caller may read, and that hasn't the candidate
    version: int | None
    candidate: int | None
    gates: list[Gate]
    promotion: PromotionRow | None
    message: str | None
    differences: NeighbourDifference | None

    @property
    def is_open(self) -> bool:
        """Whether there is something to promote here, and nothing in its way."""
        return self.candidate is not None and not closed(self.gates)

    @property
    def is_proposed(self) -> bool:
        """Whether an open change set brings the candidate."""
        found = self.promotion
        return self.candidate is not None and found is not None and brings(found, self.stage)


@dataclass(frozen=True, slots=True)
class Board:
    """Which version of an application is where."""

    application: Application
    order: Order
    columns: list[BoardColumn]


class Neighbours(NamedTuple):
    """An environment, and what is in the one before."""

    stage: Stage
    former: Stage
    names: Mapping[str, str]
    before: list[PlacedRow]

    def gates(self, version: int, now: datetime) -> list[Gate]:
        """Return the gates of a version; approvals aren't among them."""
        return _gates(self.stage, self.former, self.names, version, self.before, now)


async def neighbours(
    connection: Connection,
    organization_id: str,
    application_id: str,
    stage: Stage,
    former: Stage,
    *,
    is_inside: bool = False,
) -> Neighbours:
    """Return what is in front of a gate.

    Instances of submodules are among it only for what `is_inside` another instance.
    """
    names = await _names(connection, organization_id, (stage, former))
    before = await placed_in(connection, application_id, (former,), stage.workflows, is_inside=is_inside)
    return Neighbours(stage, former, names, before)


async def read_board(ctx: Context, application_id: str) -> Board:
    """Return which version is in which environment, and what keeps it there."""
    now = ctx.app.clock.now()
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        row = await order_in_force(work.connection, application.organization_id, application.id)
        order = _order(row)
        names = await _names(work.connection, application.organization_id, order.stages)
        workflows = [name for each in order.stages for name in each.workflows]
        placed = await placed_in(work.connection, application.id, order.stages, workflows)
        columns: list[BoardColumn] = []
        for index, stage in enumerate(order.stages):
            former = order.stages[index - 1] if index else None
            columns.append(await _column(work, application, stage, former, names, placed, now))
    columns = [await _with_rules(ctx, each) for each in columns]
    for index, (former_column, column) in enumerate(pairwise(columns), 1):
        columns[index] = await _with_difference(ctx, application, former_column, column)
    return Board(application, order, columns)


def candidate_of(former: Sequence[PlacedRow], present: Sequence[PlacedRow]) -> int | None:
    """Return the version that comes next.

    It is the one of all instances before, if it isn't here yet.
    """
    version = version_in(map(_facts, former))
    return None if version is None or all(each.version == version for each in present) else version


async def _column(
    work: Work,
    application: Application,
    stage: Stage,
    former: Stage | None,
    names: Mapping[str, str],
    placed: Sequence[PlacedRow],
    now: datetime,
) -> BoardColumn:
    def reads(environment_id: str) -> bool:
        at = permissions.environment(environment_id)
        return work.lookup.allows(application.organization_id, Permission.READ, at)

    here = [row for row in placed if row.environment_id == stage.environment_id]
    is_hidden = stage.environment_id in names and not reads(stage.environment_id)
    before = [] if former is None else [row for row in placed if row.environment_id == former.environment_id]
    if is_hidden or (former is not None and former.environment_id in names and not reads(former.environment_id)):
        before = []
    candidate = None if former is None or stage.environment_id not in names else candidate_of(before, here)
    at = permissions.environment(stage.environment_id)
    shown = [
        row
        for row in here
        if work.lookup.allows(
            application.organization_id, Permission.READ, permissions.instance(application.id, row.id), at
        )
    ]
    promotion, message, gates = None, None, list[Gate]()
    if former is not None and not is_hidden:
        place = {"application_id": application.id, "environment_id": stage.environment_id}
        promotion = await store.get_newest(work.connection, **place, version=candidate)
        message = await store.get_message(work.connection, **place, version=candidate)
    if (
        candidate is not None
        and former is not None
        and await _is_guarded(work.connection, application.id, stage, candidate)
    ):
        gates = _gates(stage, former, names, candidate, placed, now)
        gates += _approval_gate(stage, promotion)
    return BoardColumn(
        stage=stage,
        name=None if is_hidden else names.get(stage.environment_id),
        is_hidden=is_hidden,
        instances=shown[:_SHOWN_MOST],
        more=max(0, len(shown) - _SHOWN_MOST),
        behind=next((row.id for row in shown if row.version != candidate), None),
        version=None if is_hidden else version_in(map(_facts, here)),
        candidate=candidate,
        gates=gates,
        promotion=promotion,
        message=message,
        differences=None,
    )


def _approval_gate(stage: Stage, promotion: PromotionRow | None) -> list[Gate]:
    if not stage.approvals:
        return []
    is_given = promotion is not None and promotion.status in {"Ready", "Applying", "Succeeded"}
    if promotion is not None and promotion.needed < stage.approvals:  # the order asks for more since it was made
        is_given = False
    wanted = "1 person has" if stage.approvals == 1 else f"{stage.approvals} people have"
    sentence = "The change set is approved." if is_given else f"{wanted} to approve the change set."
    return [Gate("approvals", sentence, is_open=is_given)]


def brings(promotion: PromotionRow, stage: Stage) -> bool:
    """Return whether a change set is open with the approvals of the current order."""
    return promotion.status == "Applying" or (promotion.status in OPEN and promotion.needed >= stage.approvals)


async def _with_rules(ctx: Context, column: BoardColumn) -> BoardColumn:
    """Return a column with what other rules would say now, with the present parameters."""
    if column.candidate is None or column.behind is None:
        return column
    async with ctx.begin() as work:  # a rule looks at locks, which nothing that reads a page has
        record = await work.lookup.instance(column.behind, Permission.READ)
        parameters = msgspec.json.decode(record.parameters)
        proposed = Proposal(name=record.name, parameters=parameters, version=column.candidate)
        found = await work.foresee("reconfigure_instance", record, kind="reconfigure", proposed=proposed)
    if isinstance(found, Refusal) and found.code == GATE_CODE:
        return column  # the gates say so, and what else is against it isn't known
    gate = Gate("rules", "No rule or freeze is against it.", is_open=True)
    if isinstance(found, Refusal):
        gate = Gate("rules", found.sentence, is_open=found.outcome == "needs", opens_at=found.until)
    return replace(column, gates=[*column.gates, gate])


async def _with_difference(
    ctx: Context, application: Application, former: BoardColumn, column: BoardColumn
) -> BoardColumn:
    """Return a column with what differs, where the caller may read both."""
    if former.name is None or column.name is None:
        return column
    manifest = None
    if former.version is not None and column.version is not None and former.version != column.version:
        try:
            _, _, manifest = await compare_versions(ctx, application.id, column.version, former.version)
        except InvalidManifest:  # another version of this program accepted it
            manifest = None
    async with ctx.read() as work:
        views, given = list[EnvironmentView](), list[dict[str, Any]]()
        for each in (former, column):
            environment = await work.lookup.environment(each.stage.environment_id, Permission.READ)
            views.append(environment_view(environment))
            parameters = "{}"
            if each.instances:
                parameters = (await work.lookup.instance(each.instances[0].id, Permission.READ)).parameters
            given.append(msgspec.json.decode(parameters))
    one, other = views
    found = NeighbourDifference(
        manifest,
        _differing(*given) if former.instances and column.instances else [],
        _differing(one.properties, other.properties),
        _differing(one.policies, other.policies),
        sorted({*one.markers} ^ {*other.markers}),
    )
    return replace(column, differences=found)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    nothing = object()
    return sorted(name for name in {*one, *other} if one.get(name, nothing) != other.get(name, nothing))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    """A version to bring from one environment to the next one.

    With `confirm`, as of any change set. Without a version, it is the one of all instances there. `parameters` go over
    those of the environment's instances.
    """

    from_id: str
    to_id: str
    version: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    comment: str = ""
    expires_in_ms: int
    on_failure: FailurePolicy = "keep"
    dry_run: bool = False
    confirm: bool = False
    is_automatic: bool = False


class Promotion(NamedTuple):
    """A change set that brings a version to an environment.

    It `is_new` unless somebody made it before. Of a dry run, nothing of it is kept.
    """

    change_set: ChangeSetView
    version: int
    is_new: bool


class _DryRun(Exception):
    """Rolls back a transaction."""

    def __init__(self, promotion: Promotion) -> None:
        super().__init__()
        self.promotion = promotion


async def promote(ctx: Context, application_id: str, request: PromotionRequest) -> Promotion:
    """Make the change set that brings a version to the next environment.

    An open one for the same version is returned instead. One that can't be applied anymore is ended: an instance has
    changed, or the order asks for more approvals. Closed gates don't keep it from being made: they refuse to apply it.
    Raises BadRequest if there is nothing to promote, and what `create_change_set` raises.
    """
    try:
        async with ctx.begin() as work:
            instances.announce_new.later(work.connection)  # submodules may be new
            return await _promote(ctx, work, application_id, request)
    except _DryRun as dry:
        return dry.promotion


async def _promote(ctx: Context, work: Work, application_id: str, request: PromotionRequest) -> Promotion:
    application = await work.lookup.application(application_id, Permission.READ)
    with as_invalid_id("fromId"):
        source = await work.lookup.environment(request.from_id, Permission.READ)
    with as_invalid_id("toId"):
        target = await work.lookup.environment(request.to_id, Permission.READ)
    row = await order_in_force(work.connection, application.organization_id, application.id)
    stage, former = (None, None) if row is None else stage_before(read_stages(row.stages), target.id)
    if stage is None or former is None or former.environment_id != source.id:
        raise BadRequest(
            f"In the order of {application.name!r}, {target.name!r} doesn't follow {source.name!r}.",
            f"See the order: launchbay application promotion-order {application.name}. Promote to the next environment "
            "in it, or ask who has EditEnvironment to change it.",
            code="NotInOrder",
        )
    # `create_change_set` locks the organization, which whoever promotes has to lock first.
    await organizations.lock(work.connection, organization_id=application.organization_id)
    await store.lock_promotion(work.connection, application_id=application.id, environment_id=target.id)
    placed = await placed_in(work.connection, application.id, (former, stage), stage.workflows)
    version = _wanted_version(application, source, request.version, placed)
    here = [each for each in placed if each.environment_id == target.id]
    behind = [each.id for each in here if each.version != version]
    if not here:
        raise BadRequest(
            f"No instance of {application.name!r} is in {target.name!r}, so nothing has its parameters.",
            f"Launch the first one: launchbay launch {application.name} --environment {target.name}.",
            code="NothingToPromote",
        )
    if not behind:
        raise BadRequest(f"{target.name!r} has version {version} already.", code="NothingToPromote")
    place = {"application_id": application.id, "environment_id": target.id}
    known = await store.get_newest(work.connection, **place, version=version)
    ended = await store.list_older(work.connection, **place, version=version)
    if known is not None and known.status in OPEN:
        with ctx.app.database.joined(work.connection):
            if await _can_still_be_applied(ctx, known, stage):
                return Promotion(await read_change_set(ctx, known.change_set_id), version, is_new=False)
        ended.append(known.change_set_id)
    newer = f"the promotion of version {version}"
    await end_superseded(work, application.organization_id, ended, newer, {"version": version})
    comment = request.comment or f"Promote version {version} of {application.name} to {target.name}."
    wanted = ChangeSetRequest(
        act=ChangeAct(act="version", version=version, parameters=dict(request.parameters)),
        ids=behind,
        wanted=None,
        comment=comment[: limits.CHANGE_SET_COMMENT_CHARS] if not request.comment else comment,
        expires_in_ms=request.expires_in_ms,
        on_failure=request.on_failure,
        approvals=stage.approvals,
        confirm=request.confirm,
    )
    with ctx.app.database.joined(work.connection):
        made = await create_change_set(ctx, application.organization_id, wanted)
        await store.insert(
            work.connection,
            change_set_id=made,
            organization_id=application.organization_id,
            **place,
            version=version,
            is_automatic=request.is_automatic,
        )
        promotion = Promotion(await read_change_set(ctx, made), version, is_new=True)
    if request.dry_run:
        raise _DryRun(promotion)
    return promotion


async def _can_still_be_applied(ctx: Context, known: PromotionRow, stage: Stage) -> bool:
    """Return whether nothing has happened since that refuses an open change set for ever."""
    if known.status == "Applying":
        return True
    if not brings(known, stage):
        return False
    try:
        return not await find_staleness(ctx, known.change_set_id)
    except NotAllowed:  # who may read it, and not do what it does: they couldn't make another one either
        return True
    except NotFound:  # an instance of it was deleted
        return False


def _wanted_version(
    application: Application, source: Environment, wanted: int | None, placed: Iterable[PlacedRow]
) -> int:
    versions = sorted({each.version for each in placed if each.environment_id == source.id})
    if not versions:
        raise BadRequest(f"No instance of {application.name!r} is in {source.name!r}.", code="NothingToPromote")
    if wanted is None and len(versions) == 1:
        return versions[0]
    if wanted in versions:
        return wanted
    has = "the version" if len(versions) == 1 else "the versions"
    listed = ", ".join(map(str, versions))
    problem = f"{source.name!r} has {has} {listed} of {application.name!r}."
    if wanted is None:
        raise BadRequest(problem, "Say which one: version.", code="NothingToPromote")
    raise BadRequest(f"version: {problem}", code="NothingToPromote")
