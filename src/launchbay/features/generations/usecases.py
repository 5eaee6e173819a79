"""Generations: configurations of an instance that took effect, and the way back to one.

The database keeps a generation in the statement that ends a job (migration 0051). So none is missing after a crash.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import msgspec
import structlog

from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, NotFound
from launchbay.features.generations import rows as store
from launchbay.features.generations.rows import Generation
from launchbay.model.environment import read_environment_view
from launchbay.model.instance import InstanceStatus, LinkKind
from launchbay.model.job import Cause
from launchbay.planning.acceptance import StartedJob, environment_view
from launchbay.store.instances import InstanceRecord, LinkedRow
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch import shared_instances
from launchbay.usecases.preview import Preview, preview_tree
from launchbay.usecases.reconfigure import WayBack, plan_configuration, proposal_of, reconfigure
from launchbay.usecases.submodule_shapes import submodules_inside
from launchbay.usecases.workflows import before_triggers

log = structlog.get_logger(__name__)
FailurePolicy = Literal["keep", "rollback"]


class KeptSubmodule(msgspec.Struct, frozen=True):
    """The instance behind a component; `outer` is the instance with the component."""

    outer: str
    component: str
    target: str
    kind: str
    application: str | None
    version: int | None
    revision: str | None
    parameters: dict[str, Any] | None

    def row(self) -> LinkedRow:
        """Return it in the form of a link."""
        given = None if self.parameters is None else msgspec.json.encode(self.parameters).decode()
        return LinkedRow(
            self.component, self.target, self.kind, self.application, self.version, self.revision, given,
            None, None, None,
        )  # fmt: skip


read_kept_submodules = msgspec.json.Decoder(list[KeptSubmodule]).decode


async def list_generations(ctx: Context, instance_id: str, *, before: int | None, count: int) -> list[Generation]:
    """Return the generations of an instance, the newest first."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_by_instance(work.connection, instance_id=record.id, before=before, count=count)


async def read_generation(ctx: Context, instance_id: str, number: int) -> Generation:
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await _get(work, record, number)


async def find_rollback_target(ctx: Context, instance_id: str) -> int | None:
    """Return the generation that a rollback leads to by default, or None."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        try:
            return (await _target(work, record, None)).number
        except BadRequest:
            return None


async def preview_rollback(ctx: Context, instance_id: str, number: int | None) -> tuple[Generation, Preview]:
    """Return the generation that a rollback leads to, and what it would do."""
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        generation = await _target(work, record, number)
        try:
            planned = await plan_configuration(
                work, record.id, await _body(work, record, generation), _way_back(generation)
            )
        except BadRequest as error:
            return generation, Preview(errors=list(error.messages))
        preview = await preview_tree(work, planned.root, planned.environment.organization_id)
        now = environment_view(planned.environment)
        then = read_environment_view(generation.environment_view)
        parts = [part for part in ("policies", "markers", "properties") if getattr(now, part) != getattr(then, part)]
        warnings = list(preview.warnings)
        if parts:
            warnings.append(
                f"The {' and '.join(parts)} of the environment have changed since generation {generation.number}. "
                "The present ones apply."
            )
        proposed = proposal_of(planned)
        answer = await work.foresee("rollback_instance", planned.record, kind="reconfigure", proposed=proposed)
        return generation, msgspec.structs.replace(preview, warnings=warnings).answered(answer)


async def rollback(ctx: Context, instance_id: str, number: int | None) -> tuple[Generation, StartedJob]:
    """Accept the way back to a generation, and return it with its job.

    The default is the last good one. Raises BadRequest, NotFound for an unknown generation, and Conflict while a job is
    under way.
    """
    return await before_triggers(ctx, lambda: _rollback(ctx, instance_id, number))


async def _rollback(ctx: Context, instance_id: str, number: int | None) -> tuple[Generation, StartedJob]:
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        generation = await _target(work, record, number)
        body = await _body(work, record, generation)
        cause = ctx.cause or Cause("rollback", str(generation.number))
        with ctx.app.database.joined(work.connection):
            return generation, await reconfigure(replace(ctx, cause=cause), record.id, body, _way_back(generation))


async def _get(work: Work, record: InstanceRecord, number: int) -> Generation:
    found = None
    if 0 < number < 2**31:
        found = await store.get(work.connection, instance_id=record.id, number=number)
    if found is None:
        raise NotFound(
            f"The instance keeps no generation {number}.",
            "List them: GET instances/{id}/generations, or launchbay generations.",
        )
    return found


async def _target(work: Work, record: InstanceRecord, number: int | None) -> Generation:
    """Return the generation to go back to.

    The default is the newest one, or the one before if the instance is at the newest.
    """
    if number is not None:
        return await _get(work, record, number)
    kept = await store.list_newest(work.connection, instance_id=record.id)
    place = 1 if kept and kept[0].is_present and record.status is not InstanceStatus.FAILED else 0
    if place >= len(kept):
        raise BadRequest(
            "The instance has no earlier configuration to roll back to.",
            code="NoGeneration",
        )
    return kept[place]


def _way_back(generation: Generation) -> WayBack:
    return WayBack(generation.number, generation.revision_id)


async def _body(work: Work, record: InstanceRecord, generation: Generation) -> dict[str, Any]:
    """Return the reconfiguration that leads to a generation."""
    kept = read_kept_submodules(generation.submodules)
    parameters: dict[str, Any] = msgspec.json.decode(generation.parameters)
    shared = await shared_instances(work, record.environment_id)
    revisions = {shared_id: revision_id for revision_id, shared_id in shared.items()}
    lost = [each.component for each in kept if each.kind == LinkKind.SHARED and each.target not in revisions]
    if lost:
        raise BadRequest(
            f"Generation {generation.number} shares an instance for {', '.join(lost)} that the environment no longer "
            "offers. Reconfigure the instance instead.",
            code="NoGeneration",
        )

    async def linked(instance_id: str) -> list[LinkedRow]:
        return [each.row() for each in kept if each.outer == instance_id]

    manifest = await work.manifest(record.application_id, generation.version)
    inside = await submodules_inside(work, record.id, manifest, parameters, revisions, linked)
    return {
        "manifestVersion": generation.version,
        "parameters": parameters,
        "submodules": {name: _own_again(each) for name, each in inside.items()},
    }


def _own_again(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a submodule; without a revision it becomes an own child."""
    inside = {name: _own_again(each) for name, each in request.get("submodules", {}).items()}
    return {"revisionId": None, **request, **({"submodules": inside} if inside else {})}


async def read_failure_policy(ctx: Context, application_id: str) -> FailurePolicy:
    """Return what instances of an application do when a reconfiguration fails."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        stored = await store.get_failure_policy(work.connection, application_id=application.id)
    return "rollback" if stored == "rollback" else "keep"


async def set_failure_policy(ctx: Context, application_id: str, policy: FailurePolicy) -> None:
    """Set what instances of an application do when a reconfiguration fails."""
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        before = await store.get_failure_policy(work.connection, application_id=application.id)
        await store.set_failure_policy(work.connection, application_id=application.id, on_failure=policy)
        await work.audit("set_failure_policy", application, {"onFailure": before}, {"onFailure": policy})
