"""Places: how many jobs of a group may run at a time, and who takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from launchbay.errors import Conflict
from launchbay.manifest.graph import (
    CompiledManifest,
)
from launchbay.manifest.scaling import component_at
from launchbay.model.job import Plan
from launchbay.model.places import ConcurrencyLimit, JobScope, Place, places
from launchbay.store import places as store
from launchbay.store.database import Connection


def workflow_limits(manifest: CompiledManifest, plan: Plan) -> dict[str, Sequence[ConcurrencyLimit]]:
    """Return the limits of the workflows that a job runs directly, by name."""
    if plan.kind in {"command", "trigger"}:
        found = None if plan.component is None else component_at(manifest, plan.component)
        runs = [] if found is None else [(found, plan.component_workflow or "")]
    elif plan.kind in {"launch", "destroy"}:
        runs = [(component, plan.workflow) for component in manifest.components.values()]
    else:
        runs = []
    return {
        f"{component.path}.{name}" if manifest.is_component_manifest else name: component.workflows[name].concurrency
        for component, name in runs
        if name in component.workflows and component.workflows[name].concurrency
    }


async def places_of_job(
    connection: Connection,
    instance_id: str,
    manifest: CompiledManifest,
    of_workflows: Mapping[str, Sequence[ConcurrencyLimit]],
) -> list[Place]:
    row = await store.get_scope_of_instance(connection, instance_id=instance_id)
    if row is None:
        return []
    scope = JobScope(**{**row._asdict(), "labels": msgspec.json.decode(row.labels)})
    return places(scope, manifest.concurrency, of_workflows)


async def places_of_launch(
    connection: Connection,
    manifest: CompiledManifest,
    plan: Plan,
    scope: JobScope,
    *,
    may_be_limited: bool,
) -> list[Place]:
    """Return the places that a launch needs.

    The scope has no settings yet; `may_be_limited` says that some exist.
    """
    of_workflows = workflow_limits(manifest, plan)
    if not (may_be_limited or manifest.concurrency or of_workflows):
        return []
    row = await store.get_settings(connection, application_id=scope.application_id, environment_id=scope.environment_id)
    assert row is not None, "a statement without FROM gives a row"
    settled = replace(scope, application_limits=row.application_limits, environment_limits=row.environment_limits)
    return places(settled, manifest.concurrency, of_workflows)


async def check_places(connection: Connection, organization_id: str, needed: Sequence[Place]) -> None:
    """Raise Conflict if one of the groups is full and refuses jobs.

    Until the commit, no other job frees or takes a place.
    """
    if not any(each.when == "refuse" for each in needed):
        return
    refusing = await store.get_refusal(connection, organization_id=organization_id, **store.refusal_columns(needed))
    if refusing is not None:
        most = next(each.most for each in needed if each.title == refusing)
        raise Conflict(
            f"At most {most} {'job' if most == 1 else 'jobs'} at a time for {refusing}; try again when one has ended.",
            code="ConcurrencyLimit",
        )


async def take_places(
    connection: Connection, organization_id: str, job_id: str, plan: Plan, needed: Sequence[Place]
) -> None:
    """Make an accepted job ready, or let it wait for its places.

    It may ask older jobs to end.
    """
    await store.take_places(
        connection,
        organization_id=organization_id,
        job_id=job_id,
        destroys=plan.kind == "destroy",
        **store.place_columns(needed),
    )
