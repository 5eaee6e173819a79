"""Rollouts: a manifest version for many instances, wave after wave, and the way back.

A rollout is rows in the database, which processes with an engine work off (`later.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.clock import iso_time
from launchbay.errors import BadRequest, Conflict, TooManyRequests
from launchbay.features.rollouts import rows as store
from launchbay.features.rollouts.rows import FirstRow, Rollout, RolloutInstanceRow
from launchbay.ids import new_id
from launchbay.model.waits import turns_message
from launchbay.planning.acceptance import OBSERVED
from launchbay.planning.arguments import required_arguments
from launchbay.planning.names import available_workflows
from launchbay.store import organizations
from launchbay.store.applications import Application
from launchbay.store.fleet import FleetRow
from launchbay.usecases.context import Context, Work
from launchbay.usecases.events import mask_message
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.launch import validate_version
from launchbay.usecases.on_behalf import require_control
from launchbay.usecases.selection import (
    choose_instances,
    in_slices,
    list_outcomes,
    may_read,
    only_own,
    page_of_visible,
    require_visible,
    visible_runs,
)
from launchbay.usecases.workflows import required_by_command

log = structlog.get_logger(__name__)
RUNNING, WAITING, STOPPED, FINISHED = "Running", "Waiting", "Stopped", "Finished"
RETURNING, RETURNED = "Returning", "Returned"
_REFUSALS_SHOWN = 5
_INSTANCES_CHECKED = 100  # for arguments of the health check
_CONTROLS = {
    "stop": frozenset({RUNNING, WAITING}),
    "continue": frozenset({STOPPED, WAITING}),
    "take-back": frozenset({RUNNING, WAITING, STOPPED, FINISHED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """A rollout to begin. Without `ids`, the filter chooses instances of the application.

    `waves` are numbers of instances or percentages of all, such as "10%"; who is left is the last wave. Without
    `pause_ms`, somebody has to continue after each wave.
    """

    application_id: str
    version: int
    ids: list[str] | None
    wanted: InstanceFilter = field(default_factory=InstanceFilter)
    waves: Sequence[int | str]
    pause_ms: int | None
    health_workflow: str | None
    max_parallel: int
    stop_after_failures: int
    on_failure: Literal["stop", "takeBack"]
    comment: str


def sizes_of(waves: Sequence[int | str], count: int) -> list[int]:
    """Return how many of `count` instances each wave has. Raises BadRequest for another text."""
    sizes: list[int] = []
    for wave in waves:
        left = count - sum(sizes)
        if isinstance(wave, int):
            size = wave
        else:
            number, percent = wave.removesuffix("%"), wave.endswith("%")
            is_number = number.isascii() and number.isdigit() and len(number) < 6
            if not is_number or (percent and not 0 < int(number) <= 100):
                raise BadRequest(
                    f"waves: {wave[:40]!r} isn't a size. Give a number, or a percentage such as '10%'.",
                    code="InvalidWaves",
                )
            size = max(1, -(-count * int(number) // 100)) if percent else int(number)  # rounded up: no wave is empty
        if size < 1:
            raise BadRequest("waves: a wave has one instance at least.", code="InvalidWaves")
        if left > 0:
            sizes.append(min(size, left))
    left = count - sum(sizes)
    return [*sizes, left] if left else sizes


async def create_rollout(ctx: Context, organization_id: str, request: RolloutRequest) -> str:
    """Begin a rollout and return its ID. Raises BadRequest, TooManyRequests."""
    if len(request.comment) > limits.CHANGE_SET_COMMENT_CHARS:
        raise BadRequest(f"comment: at most {limits.CHANGE_SET_COMMENT_CHARS} characters; shorten it.")
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        application, version, chosen = await _choose(work, organization.id, request)
        waiting = sum(refusal is None for _, refusal in chosen)
        if not waiting:
            why = [f"{row.name}: {refusal}" for row, refusal in chosen[:_REFUSALS_SHOWN]]
            raise BadRequest("No instance needs this version, so there is nothing to do.", *why, code="NothingChosen")
        await organizations.lock(work.connection, organization_id=organization.id)
        if (await store.count_open(work.connection, organization_id=organization.id) or 0) >= limits.ROLLOUTS_OPEN:
            raise TooManyRequests(
                f"The organization has {limits.ROLLOUTS_OPEN} rollouts under way. Wait for the end of one.",
                retry_after_s=60,
            )
        await store.delete_old(work.connection, organization_id=organization.id, days=limits.ROLLOUT_DAYS)
        sizes = sizes_of(request.waves, waiting)
        rollout_id, actor = new_id(), ctx.actor
        await store.insert(
            work.connection,
            rollout_id=rollout_id,
            organization_id=organization.id,
            application_id=application.id,
            version=version,
            owner_id=actor.user_id,
            owner_email=actor.email,
            owner_name=actor.name,
            address=actor.address,
            method=actor.method.value,
            token_id=actor.token_id,
            comment=request.comment,
            waves=sizes,
            pause_ms=request.pause_ms,
            health_workflow=request.health_workflow,
            max_parallel=request.max_parallel,
            stop_after_failures=request.stop_after_failures,
            on_failure=request.on_failure,
        )
        numbers = iter([number for number, size in enumerate(sizes, 1) for _ in range(size)])
        await store.insert_instances(
            work.connection,
            rollout_id=rollout_id,
            waves=[next(numbers) if refusal is None else len(sizes) for _, refusal in chosen],
            ids=[row.id for row, _ in chosen],
            names=[row.name for row, _ in chosen],
            application_ids=[row.application_id for row, _ in chosen],
            environment_ids=[row.environment_id for row, _ in chosen],
            versions=[row.version for row, _ in chosen],
            refusals=[refusal for _, refusal in chosen],
        )
        after = {"application": application.id, "version": version, "instances": waiting, "waves": sizes}
        await work.audit("create_rollout", organization, after=after, at=_at(application.id, rollout_id))
    return rollout_id


async def preview_rollout(
    ctx: Context, organization_id: str, request: RolloutRequest
) -> tuple[list[tuple[FleetRow, str | None]], list[int]]:
    """Return instances with their refusals, and the sizes of the waves. Raises BadRequest."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        _, _, chosen = await _choose(work, organization_id, request)
    return chosen, sizes_of(request.waves, sum(refusal is None for _, refusal in chosen))


async def _choose(
    work: Work, organization_id: str, request: RolloutRequest
) -> tuple[Application, int, list[tuple[FleetRow, str | None]]]:
    """Return application, version, and the instances with another version. Raises BadRequest."""
    application = await work.lookup.application(request.application_id, Permission.READ)
    if application.organization_id != organization_id:
        raise BadRequest("The application belongs to another organization.", code="UnknownId")
    version = await validate_version(work, application, request.version)
    await _check_workflow(work, application.id, version, request.health_workflow)
    wanted = replace(request.wanted, application_ids=[application.id])
    rows = await choose_instances(work, organization_id, request.ids, wanted, limits.BULK_INSTANCES)
    strangers = [row.name for row in rows if row.application_id != application.id]
    if request.ids is not None and strangers:
        raise BadRequest(f"{strangers[0]!r} is an instance of another application.", code="ForeignInstance")
    rows = [row for row in rows if row.application_id == application.id and row.version != version]
    chosen = [(row, _refusal(work, organization_id, row)) async for row in in_slices(rows)]
    if request.health_workflow is not None:
        changed = [row for row, refusal in chosen if refusal is None]
        await _check_arguments(work, application.id, version, request.health_workflow, changed)
    return application, version, chosen


async def _check_workflow(work: Work, application_id: str, version: int, workflow: str | None) -> None:
    """Raise BadRequest for a health check that isn't a command of the version."""
    manifest = await work.manifest(application_id, version)
    if workflow is not None and workflow not in manifest.commands:
        names = ", ".join(available_workflows(manifest))
        raise BadRequest(
            f"Version {version} has no command {workflow[:80]!r}. Workflows: {names}.", code="UnknownWorkflow"
        )


async def _check_arguments(
    work: Work, application_id: str, version: int, workflow: str, rows: Sequence[FleetRow]
) -> None:
    """Raise BadRequest for a health check that needs an argument.

    Each instance may have values of its own, so the first ones are asked.
    """
    manifest = await work.manifest(application_id, version)
    if not required_arguments(manifest, workflow, "{}", {}):
        return
    for row in rows[:_INSTANCES_CHECKED]:
        record = await work.lookup.instance(row.id or "", Permission.READ)
        required = await required_by_command(work, record, manifest, workflow)
        if required:
            name, wanted = next(iter(required.items()))
            typed = f" ({wanted})" if wanted else ""
            raise BadRequest(
                f"healthWorkflow: workflow {workflow} requires the parameter '{name}'{typed} in the instance "
                f"{row.name!r}, and a rollout gives it none.",
                f"Choose a workflow without arguments, or give '{name}' a default in the manifest.",
                code="MissingParameter",
            )


def _refusal(work: Work, organization_id: str, row: FleetRow) -> str | None:
    assert row.id is not None, "rows without an instance are left out before"
    if row.parent_id is not None:
        return f"The instance belongs to a submodule of the instance {row.parent_id}."
    if row.status == "Destroyed":
        return "The instance is destroyed."
    if row.is_observed:
        return OBSERVED
    resource = permissions.instance(row.application_id, row.id)
    environment = permissions.environment(row.environment_id)
    if not work.lookup.allows(organization_id, Permission.EDIT_INSTANCE, resource, environment):
        return f"You need the permission {Permission.EDIT_INSTANCE} for {resource}."
    return None


async def list_rollouts(
    ctx: Context, organization_id: str, *, after: str | None, count: int, application_id: str | None = None
) -> list[Rollout]:
    """Return the rollouts that the caller may see, the newest first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = partial(
            store.list_by_organization,
            work.connection,
            organization_id=organization_id,
            application_id=application_id,
            owner_id=only_own(work, organization_id),
        )
        choose = partial(visible_runs, work, organization_id, keep=store.keep_seen)
        return await page_of_visible(rows, choose, after=after, count=count)


async def read_rollout(ctx: Context, rollout_id: str) -> Rollout:
    async with ctx.read() as work:
        return await _visible_rollout(work, rollout_id)


async def _visible_rollout(work: Work, rollout_id: str) -> Rollout:
    """Return a rollout that the caller may see. Raises NotAllowed."""
    found = await work.lookup.of_member(store.rollout, rollout_id)
    return require_visible(await visible_runs(work, found.organization_id, [found], store.keep_seen), "rollout")


async def read_failures(ctx: Context, organization_id: str, rollout_ids: Sequence[str]) -> dict[str, str]:
    """Return which instance of each rollout failed first and why, if readable."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return {
            row.rollout_id: f"{row.instance_name} failed: "
            + (await mask_message(row.message, row.parameters, row.environment_view) or "its job states no reason.")
            for row in await store.list_failures(
                work.connection, organization_id=organization_id, rollout_ids=list(rollout_ids)
            )
            if may_read(work, organization_id, row)
        }


async def list_rollout_instances(
    ctx: Context, rollout_id: str, *, status: str | None, after: int, count: int
) -> list[RolloutInstanceRow]:
    """Return instances that the caller may read, in their order, after a place."""
    async with ctx.read() as work:
        rollout = await _visible_rollout(work, rollout_id)
        rows = partial(store.list_instances, work.connection, rollout_id=rollout.id, status=status)
        return await list_outcomes(work, rollout.organization_id, rows, after=after, count=count)


@dataclass(slots=True)
class Wave:
    """How far a wave is; `first` are some instances, those with a problem first."""

    number: int
    counts: Counter[str] = field(default_factory=Counter)
    first: list[FirstRow] = field(default_factory=list)


async def read_waves(ctx: Context, rollout_id: str, shown: int) -> list[Wave]:
    """Return the waves of a rollout; each shows at most so many instances."""
    async with ctx.read() as work:
        rollout = await _visible_rollout(work, rollout_id)
        waves = [Wave(number) for number in range(1, len(rollout.waves) + 1)]
        for each in await store.count_by_wave(work.connection, rollout_id=rollout.id):
            waves[each.wave - 1].counts[each.status] = each.instances
        for row in await store.list_first(work.connection, rollout_id=rollout.id, count=shown):
            if may_read(work, rollout.organization_id, row):
                waves[row.wave - 1].first.append(row)
    return waves


async def control_rollout(ctx: Context, rollout_id: str, verb: Literal["stop", "continue", "take-back"]) -> None:
    """Stop, continue or take back a rollout. Jobs under way end first.

    Raises Conflict if it is in a state from which that makes no sense.
    """
    async with ctx.begin() as work:
        rollout = await work.lookup.of_member(store.rollout, rollout_id)
        require_control(work, rollout, "the rollout")
        before = await store.lock_status(work.connection, rollout_id=rollout.id)
        if before == {"stop": STOPPED, "continue": RUNNING, "take-back": RETURNING}[verb]:
            return
        if before not in _CONTROLS[verb]:
            raise Conflict(f"The rollout is {before}, so you can't {verb} it.", code="RolloutEnded")
        change = {"stop": store.stop, "continue": store.go_on, "take-back": store.take_back}[verb]
        await change(work.connection, rollout_id=rollout.id)
        await work.audit(
            {"stop": "stop_rollout", "continue": "continue_rollout", "take-back": "take_back_rollout"}[verb],
            rollout.organization_id,
            {"status": before},
            {"version": rollout.version},
            at=_at(rollout.application_id, rollout.id),
        )


def counts_of(rollout: Rollout) -> Counter[str]:
    """Return how many instances have each status."""
    counts = Counter[str](msgspec.json.decode(rollout.counts))
    counts["Waiting"] += counts.pop("Busy", 0) + counts.pop("Frozen", 0)
    return +counts


def waiting_for(found: Rollout) -> str | None:
    """Return what a rollout waits for, since when, and what ends that."""
    if found.status == STOPPED:
        return f"Stopped in wave {found.wave} of {len(found.waves)}, until somebody continues it or takes it back."
    if found.status not in {RUNNING, WAITING, RETURNING}:
        return None
    done_at = found.wave_done_at
    # A wave whose pause somebody has ended has the time 0.
    if done_at is None or not done_at.timestamp() or found.wave >= len(found.waves) or found.status == RETURNING:
        return _turns(found)
    following = f"wave {found.wave + 1} of {len(found.waves)}"
    if found.status == WAITING:
        return f"Waiting since {iso_time(done_at)} for somebody who continues it with {following}."
    if found.status == RUNNING and found.pause_ms:
        begins_at = done_at + timedelta(milliseconds=found.pause_ms)
        return f"Pausing since {iso_time(done_at)}; {following} begins at {iso_time(begins_at)}."
    return _turns(found)


def _turns(found: Rollout) -> str:
    """Return what a wave, or the way back, waits for."""
    counts = Counter[str](msgspec.json.decode(found.counts))
    running = sum(counts[each] for each in _UNDER_WAY)
    return turns_message(running=running, busy=counts["Busy"], frozen=counts["Frozen"], freeze=found.freeze)


_UNDER_WAY = ("Running", "Checking", "Returning")


def _at(application_id: str, rollout_id: str) -> str:
    return f"/applications/{application_id}/rollouts/{rollout_id}"
