"""Bulk runs: one act on many instances (conformance.md, "Beyond the reference").

A bulk run is rows in the database, which processes with an engine work off (`later.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission, Resource
from launchbay.auth.secret_key import SecretKey
from launchbay.errors import (
    BadRequest,
    Conflict,
    InvalidManifest,
    LaunchbayError,
    TooManyRequests,
)
from launchbay.features.bulk import rows as store
from launchbay.features.bulk.rows import BulkInstanceRow, BulkRun, act_purpose
from launchbay.features.directories.contents import ActName
from launchbay.ids import new_id
from launchbay.model.job import JobStatus
from launchbay.model.labels import read_labels
from launchbay.model.redaction import Redactor
from launchbay.model.scalars import json_real
from launchbay.model.waits import turns_message
from launchbay.planning.acceptance import OBSERVED
from launchbay.planning.arguments import ignored_parameters
from launchbay.planning.names import DESTROY, LAUNCH, require_workflow
from launchbay.store import applications, organizations
from launchbay.store.database import Connection, Database
from launchbay.store.fleet import FleetRow
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.failures import list_resumable
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.on_behalf import may_control, require_control
from launchbay.usecases.selection import (
    _PAGE,
    choose_instances,
    in_slices,
    list_outcomes,
    only_own,
    page_of_visible,
    require_visible,
    visible_runs,
)

_CHANGES = frozenset({"run", "resume", "reconfigure"})
_VERSIONS_READ = 50
RUNNING, PAUSED, CANCELLED, STOPPED = "Running", "Paused", "Cancelled", "Stopped"


class Act(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to do with each instance. Fields that an act doesn't use stay empty.

    `expires_in_ms` counts from the turn of the instance; -1 is never. Labels that are None are removed.
    With `declared_only`, a resumption takes only the parameters that its workflow declares.
    """

    act: ActName
    workflow: str | None = None
    parameters: dict[str, Any] = {}
    version: int | None = None
    expires_in_ms: int | None = None
    labels: dict[str, str | None] = {}
    declared_only: bool = False

    def check(self) -> None:
        """Raise BadRequest for a field that is missing or unused."""
        used = {
            "run": {"workflow", "parameters"},
            "resume": {"parameters"},
            "reconfigure": {"version", "parameters"},
            "extend": {"expires_in_ms"},
            "destroy": set[str](),
            "label": {"labels"},
        }[self.act]
        fields = set(self.__struct_fields__) - {"act", "declared_only"}
        given = {name for name in fields if getattr(self, name) not in (None, {})}
        if given - used:
            unused = sorted({"expires_in_ms": "expiresIn"}.get(name, name) for name in given - used)
            raise BadRequest(f"The act {self.act} has no {', '.join(unused)}.", code="InvalidAct")
        if self.act in {"run", "extend", "label"} and not given & (used - {"parameters"}):
            needed = {"run": "a workflow", "extend": "expiresIn", "label": "labels"}[self.act]
            raise BadRequest(f"The act {self.act} needs {needed}.", code="InvalidAct")
        if self.act == "reconfigure" and not given:
            raise BadRequest("The act reconfigure needs a version or parameters.", code="InvalidAct")
        if self.workflow == "":
            raise BadRequest("The workflow has no name.", code="InvalidAct")
        if self.version is not None and not 0 <= self.version < 2**31:
            raise BadRequest(f"There can't be a version {self.version}.", code="InvalidAct")
        if self.act == "label":
            read_labels({name: value or "" for name, value in self.labels.items()})

    def target(self, row: FleetRow, workflow: str | None) -> tuple[Permission, Resource]:
        """Return what the act needs. `workflow` is the one that it would resume."""
        assert row.id is not None, "rows without an instance are left out before"
        name = self.workflow if self.act == "run" else workflow if self.act == "resume" else None
        if name is not None and name != DESTROY:
            return Permission.RUN_INSTANCE_WORKFLOW, permissions.workflow(row.application_id, row.id, name)
        return Permission.EDIT_INSTANCE, permissions.instance(row.application_id, row.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRequest:
    """A bulk run to begin. Without `ids`, the filter chooses the instances."""

    act: Act
    ids: list[str] | None
    wanted: InstanceFilter = field(default_factory=InstanceFilter)
    max_parallel: int
    stop_after_failures: int | None


@dataclass(frozen=True, slots=True)
class ChosenInstance:
    """An instance of a bulk run. With a refusal, it gets no turn."""

    row: FleetRow
    refusal: str | None


async def preview_bulk(ctx: Context, organization_id: str, request: BulkRequest) -> list[ChosenInstance]:
    """Return the instances of a bulk run, and which of them it would refuse."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await _choose(work, organization_id, request)


async def create_bulk(ctx: Context, organization_id: str, request: BulkRequest, bulk_id: str | None = None) -> str:
    """Begin a bulk run and return its ID. Raises BadRequest, TooManyRequests.

    What begins by itself gives it a `bulk_id`, because the idempotency keys of its jobs derive from that.
    """
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        chosen = await _choose(work, organization.id, request)
        if not chosen:
            raise BadRequest("No instance fits, so there is nothing to do.", code="NothingChosen")
        await organizations.lock(work.connection, organization_id=organization.id)
        if (await store.count_open(work.connection, organization_id=organization.id) or 0) >= limits.BULKS_OPEN:
            raise TooManyRequests(
                f"The organization has {limits.BULKS_OPEN} bulk runs under way. Wait for the end of one.",
                retry_after_s=60,
            )
        await store.delete_old(work.connection, organization_id=organization.id, days=limits.BULK_DAYS)
        # A clock that was set back can bring the time of a schedule again.
        if bulk_id is None or await store.get_sealed_act(work.connection, bulk_id=bulk_id) is not None:
            bulk_id = new_id()
        actor = ctx.actor
        await store.insert(
            work.connection,
            bulk_id=bulk_id,
            organization_id=organization.id,
            owner_id=actor.user_id,
            owner_email=actor.email,
            owner_name=actor.name,
            address=actor.address,
            method=actor.method.value,
            token_id=actor.token_id,
            act=_shown(request.act),
            sealed_act=work.app.secret_key.seal(msgspec.json.encode(request.act), act_purpose(bulk_id)),
            max_parallel=request.max_parallel,
            stop_after_failures=request.stop_after_failures,
        )
        await store.insert_instances(
            work.connection,
            bulk_id=bulk_id,
            ids=[each.row.id for each in chosen],
            names=[each.row.name for each in chosen],
            application_ids=[each.row.application_id for each in chosen],
            environment_ids=[each.row.environment_id for each in chosen],
            refusals=[each.refusal for each in chosen],
        )
        after = {"act": request.act.act, "workflow": request.act.workflow, "instances": len(chosen)}
        await work.audit(
            "create_bulk", organization, after=after, at=f"/organizations/{organization.id}/bulk/{bulk_id}"
        )
    return bulk_id


def _shown(act: Act) -> str:
    """Return what pages show of an act, as JSON; parameters may be secrets."""
    return msgspec.json.encode(msgspec.structs.replace(act, parameters={})).decode()


async def _choose(work: Work, organization_id: str, request: BulkRequest) -> list[ChosenInstance]:
    """Return the instances, oldest first, with their refusals. Raises BadRequest."""
    request.act.check()
    rows = await choose_instances(work, organization_id, request.ids, request.wanted, limits.BULK_INSTANCES)
    misfits = await _misfits(work, request.act, rows)
    chosen: list[ChosenInstance] = []
    async for row in in_slices(rows):
        misfit = misfits.get(_versions_key(request.act, row))
        refusal = _refusal(work, organization_id, request.act, row) or (None if misfit is None else str(misfit))
        chosen.append(ChosenInstance(row, refusal))
    return chosen


def _versions_key(act: Act, row: FleetRow) -> tuple[str, int]:
    """Return the application and the manifest version in which the act must make sense."""
    return row.application_id, row.version if act.version is None else act.version


async def _misfits(work: Work, act: Act, rows: Sequence[FleetRow]) -> dict[tuple[str, int], LaunchbayError]:
    """Return why an act makes no sense in versions of manifests.

    The workflow or the version is unknown. Raises the error if that is so in all of them. Of very many versions, only
    the first are looked at.
    """
    if act.act != "run" and act.version is None and not act.parameters:
        return {}
    keys = list(dict.fromkeys(_versions_key(act, row) for row in rows))
    found: dict[tuple[str, int], LaunchbayError] = {}
    for key in keys[:_VERSIONS_READ]:
        application_id, version = key
        exists = applications.manifest_exists
        if not await exists(work.connection, application_id=application_id, version=version):
            found[key] = BadRequest(
                f"The application has no manifest version {version}.", code="InvalidManifestVersion"
            )
        else:
            try:
                manifest = await work.manifest(*key)
                if act.workflow is not None:
                    require_workflow(manifest, act.workflow)
                if act.act != "resume":
                    work.warn(ignored_parameters(manifest, act.workflow or LAUNCH, act.parameters))
            except BadRequest as error:
                found[key] = error
            except (Conflict, InvalidManifest):
                continue  # the turn says what is wrong with it
    if keys and len(found) == len(keys):
        raise found[keys[0]]
    return found


def _refusal(work: Work, organization_id: str, act: Act, row: FleetRow) -> str | None:
    if row.parent_id is not None:
        return f"The instance belongs to a submodule of the instance {row.parent_id}."
    permission, resource = act.target(row, row.job_name)
    if not work.lookup.allows(organization_id, permission, resource, permissions.environment(row.environment_id)):
        return f"You need the permission {permission} for {resource}."
    if act.act == "resume" and row.job_status != JobStatus.FAILED:
        return "The last job didn't fail, so there is nothing to resume."
    if row.status == "Destroyed" and act.act != "label":
        return "The instance is destroyed."
    if row.is_observed and act.act in _CHANGES and act.workflow != DESTROY:
        return OBSERVED
    return None


async def list_bulk_runs(ctx: Context, organization_id: str, *, after: str | None, count: int) -> list[BulkRun]:
    """Return the bulk runs that the caller may see, the newest first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = partial(
            store.list_runs,
            work.connection,
            organization_id=organization_id,
            owner_id=only_own(work, organization_id),
        )
        choose = partial(visible_runs, work, organization_id, keep=store.keep_seen)
        return await page_of_visible(rows, choose, after=after, count=count)


async def read_bulk(ctx: Context, bulk_id: str) -> BulkRun:
    async with ctx.read() as work:
        return await _visible_bulk(work, bulk_id)


async def _visible_bulk(work: Work, bulk_id: str) -> BulkRun:
    """Return a bulk run that the caller may see. Raises NotAllowed."""
    found = await work.lookup.of_member(store.bulk, bulk_id)
    return require_visible(await visible_runs(work, found.organization_id, [found], store.keep_seen), "bulk run")


async def read_open_parameters(ctx: Context, bulk_id: str) -> dict[str, Any]:
    """Return the parameters of a bulk run without its secrets.

    It is empty for a caller who may not control the run.
    """
    async with ctx.read() as work:
        run = await work.lookup.of_member(store.bulk, bulk_id)
        sealed = await store.get_sealed_act(work.connection, bulk_id=run.id)
        if sealed is None or not may_control(work.lookup.grants(run.organization_id), work.actor, run):
            return {}
        parameters = open_act(work.app, run.id, sealed).parameters
    redactor = Redactor()
    return {name: value for name, value in parameters.items() if redactor.named(name, value) == value}


async def list_bulk_instances(
    ctx: Context, bulk_id: str, *, status: str | None, after: int, count: int
) -> list[BulkInstanceRow]:
    """Return instances that the caller may read, in their order, after a place."""
    async with ctx.read() as work:
        run = await _visible_bulk(work, bulk_id)
        rows = partial(store.list_instances, work.connection, bulk_id=run.id, status=status)
        return await list_outcomes(work, run.organization_id, rows, after=after, count=count)


async def control_bulk(ctx: Context, bulk_id: str, status: Literal["Running", "Paused", "Cancelled"]) -> None:
    """Continue, pause or cancel a bulk run. Jobs under way continue.

    Who began it may do that, and who may edit all instances. An access token with a scope that doesn't allow that must
    have begun it. Raises Conflict if it has ended.
    """
    async with ctx.begin() as work:
        run = await work.lookup.of_member(store.bulk, bulk_id)
        require_control(work, run, "the bulk run")
        before = await store.lock_status(work.connection, bulk_id=run.id)
        if before in {CANCELLED, STOPPED, "Finished", None}:
            raise Conflict(f"The bulk run has ended: it is {before}.", code="BulkEnded")
        if before == status:
            return
        if status == RUNNING:
            await store.forget_put_offs(work.connection, bulk_id=run.id)
        await store.set_status(work.connection, bulk_id=run.id, status=status)
        if status == CANCELLED:
            await store.drop_waiting(work.connection, bulk_id=run.id, message=f"Cancelled by {ctx.actor.email}.")
        await work.audit(
            {RUNNING: "continue_bulk", PAUSED: "pause_bulk", CANCELLED: "cancel_bulk"}[status],
            run.organization_id,
            {"status": before},
            {"status": status},
            at=f"/organizations/{run.organization_id}/bulk/{run.id}",
        )


def counts_of(run: BulkRun) -> Counter[str]:
    """Return how many instances have each status."""
    counts = Counter[str](msgspec.json.decode(run.counts))
    counts["Waiting"] += counts.pop("Busy", 0) + counts.pop("Frozen", 0)
    return +counts


def waiting_for(run: BulkRun) -> str | None:
    """Return what a bulk run waits for, None if it has ended."""
    if run.status == PAUSED:
        return "Paused: the instances that wait get their turns when somebody continues it."
    counts = Counter[str](msgspec.json.decode(run.counts))
    running = counts["Running"]
    if run.status == RUNNING:
        busy, frozen, waiting = counts["Busy"], counts["Frozen"], counts["Waiting"]
        return turns_message(
            running=running, busy=busy, frozen=frozen, freeze=run.freeze, waiting=waiting, most=run.max_parallel
        )
    return turns_message(running=running) if running else None  # one that was cancelled or stopped


async def resume_failures(
    ctx: Context,
    organization_id: str,
    failure_id: str,
    narrowed: InstanceFilter = InstanceFilter(),  # noqa: B008  # it can't change
) -> str:
    """Begin a bulk run that resumes all instances whose last job failed so.

    Returns its ID. It refuses those whose workflow the caller may not run, each with its reason. Raises what
    `list_resumable` and `create_bulk` raise.
    """
    rows = await list_resumable(ctx, organization_id, failure_id, narrowed, most=limits.BULK_INSTANCES)
    ids = [row.id for row in rows if row.id is not None][: limits.BULK_INSTANCES]
    request = BulkRequest(act=Act(act="resume"), ids=ids, max_parallel=_RESUMED_AT_ONCE, stop_after_failures=None)
    return await create_bulk(ctx, organization_id, request)


_RESUMED_AT_ONCE = 10


read_act = msgspec.json.Decoder(Act, float_hook=json_real).decode


def open_act(app: AppContext, bulk_id: str, sealed: bytes) -> Act:
    """Return what a bulk run does, with the secrets among its parameters."""
    return read_act(app.secret_key.open(bytes(sealed), act_purpose(bulk_id)))


async def seal(connection: Connection, key: SecretKey, bulk_id: str, act: str) -> None:
    """Seal the act that an older server stored."""
    sealed = key.seal(act.encode(), act_purpose(bulk_id))
    await store.seal(connection, bulk_id=bulk_id, act=_shown(read_act(act)), sealed_act=sealed)


async def seal_acts(database: Database, key: SecretKey) -> None:
    """Seal acts that older servers stored; each start may find some."""
    rows = None
    while rows is None or len(rows) == _PAGE:
        async with database.transaction() as connection:
            rows = await store.list_unsealed(connection, count=_PAGE)
            for row in rows:
                await seal(connection, key, row.id, row.act)
