"""What another manifest version would do to the live instances of an application.

It compares as a preview does, but instance by instance, without submodules and services, which the preview of one
instance shows. Threads compute batches, so that the event loop continues.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest
from launchbay.manifest.configuration import Change, Configured, configure, difference, restarting, triggered
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import scaled
from launchbay.manifest.services import unmet_needs
from launchbay.model.environment import EnvironmentView, read_environment_view
from launchbay.model.instance import Scale, effective_scale
from launchbay.model.job import workflow_path
from launchbay.planning import DESTROY, LAUNCH
from launchbay.store import instances as store
from launchbay.store.instances import ImpactRow
from launchbay.usecases.context import Context
from launchbay.usecases.launch import unsupported_components, validate_version

_PAGE = 2_000
_BATCH = 250  # computed in a thread at once
_NAMED = 20  # instances of a group


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a version changes an instance: components, workflows, or errors.

    `components` has those that start, change or stop.
    """

    former_version: int
    components: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    workflows: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`fails`, `changes`, or `keeps` for an instance of which only the version changes."""
        return "fails" if self.errors else "changes" if self.components else "keeps"


@dataclass(slots=True)
class ImpactGroup:
    """Instances with the same outcome; `first` are some of them, as (ID, name)."""

    outcome: Outcome
    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Impact:
    """The impact of a version; `present` instances have it already.

    `version` is None for a manifest that isn't saved.
    """

    version: int | None
    present: int = 0
    groups: dict[Outcome, ImpactGroup] = field(default_factory=dict)

    def count(self, kind: str) -> int:
        return sum(group.count for group in self.groups.values() if group.outcome.kind == kind)


async def impact_of_version(ctx: Context, application_id: str, version: int | None) -> Impact:
    """Return what a version would do to the instances that the caller may read.

    The default is the newest one.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        chosen = await validate_version(work, application, version)
        manifest = await work.manifest(application.id, chosen)
    return await _impact(ctx, application_id, manifest, chosen)


async def impact_of_manifest(ctx: Context, application_id: str, text: str) -> Impact:
    """Return what a manifest that isn't saved would do. Raises InvalidManifest."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
    if len(text.encode()) > ctx.app.manifest_bytes:
        raise BadRequest(f"The manifest has more than {ctx.app.manifest_bytes} bytes.", code="TooLarge")
    return await _impact(ctx, application.id, await ctx.app.manifests.compile(text), None)


async def _impact(ctx: Context, application_id: str, manifest: CompiledManifest, version: int | None) -> Impact:
    found = Impact(version)
    unsupported = tuple(unsupported_components(manifest, ctx.app.runnable_types))
    former: dict[int, CompiledManifest] = {}
    known: dict[tuple[int, str, str, str], Outcome] = {}
    views: dict[str, EnvironmentView] = {}
    after = ""
    while True:
        async with ctx.read() as work:
            await work.lookup.application(application_id, Permission.READ)
            rows = await store.list_for_impact(work.connection, application_id=application_id, after=after, count=_PAGE)
            for row in rows:
                if row.version not in former:
                    former[row.version] = await work.manifest(application_id, row.version)
            organization_id = (await work.lookup.application(application_id, Permission.READ)).organization_id
            visible = [
                row
                for row in rows
                if work.lookup.allows(
                    organization_id,
                    Permission.READ,
                    permissions.instance(application_id, row.id),
                    permissions.environment(row.environment_id),
                )
            ]
        for start in range(0, len(visible), _BATCH):
            batch = visible[start : start + _BATCH]
            outcomes = await asyncio.to_thread(_outcomes, batch, manifest, version, former, unsupported, known, views)
            for row, outcome in zip(batch, outcomes, strict=True):
                if outcome is None:
                    found.present += 1
                    continue
                group = found.groups.setdefault(outcome, ImpactGroup(outcome))
                group.count += 1
                if len(group.first) < _NAMED:
                    group.first.append((row.id, row.name))
        if len(rows) < _PAGE:
            return found
        after = rows[-1].id


def _outcomes(
    rows: Sequence[ImpactRow],
    manifest: CompiledManifest,
    version: int | None,
    former: Mapping[int, CompiledManifest],
    unsupported: tuple[str, ...],
    known: dict[tuple[int, str, str, str], Outcome],
    views: dict[str, EnvironmentView],
) -> list[Outcome | None]:
    """Return the outcome of each instance; None for one that has the version already."""
    found: list[Outcome | None] = []
    for row in rows:
        if row.version == version:
            found.append(None)
            continue
        key = (row.version, row.parameters, row.state, row.environment_view)
        if key not in known:
            if row.environment_view not in views:
                views[row.environment_view] = read_environment_view(row.environment_view)
            errors = (*unsupported, *unmet_needs(manifest, views[row.environment_view]))
            known[key] = _outcome(row, former[row.version], manifest, errors)
        found.append(known[key])
    return found


class _Part(msgspec.Struct, frozen=True):
    launched: bool = False
    scale: Scale | None = None


_read_parts = msgspec.json.Decoder(dict[str, _Part]).decode
_read_parameters = msgspec.json.Decoder(dict[str, object]).decode


def _outcome(row: ImpactRow, before: CompiledManifest, after: CompiledManifest, errors: tuple[str, ...]) -> Outcome:
    parts = _read_parts(row.state)
    parameters = _read_parameters(row.parameters)
    try:
        old, new = (_configured(manifest, parameters, parts) for manifest in (before, after))
    except BadRequest as error:
        return Outcome(row.version, errors=(*error.messages, *errors))
    if errors:
        return Outcome(row.version, errors=errors)
    launched = {path for path, part in parts.items() if part.launched}
    changes = restarting(difference(old, new), launched.__contains__)
    runs = [
        (change.path, name)
        for change in changes
        for kind, name, side in ((Change.STOPS, DESTROY, old), (Change.STARTS, LAUNCH, new))
        if change.change is kind and name in side.manifest.components[change.path].workflows
    ]
    runs += triggered(new.manifest, changes)
    return Outcome(
        row.version,
        tuple(
            (change.path, change.change.value, tuple(pin.pin for pin in change.pins))
            for change in changes
            if change.change is not Change.KEEPS
        ),
        tuple(workflow_path(*run) for run in runs),
    )


def _configured(manifest: CompiledManifest, parameters: Mapping[str, object], parts: Mapping[str, _Part]) -> Configured:
    def quantity(path: str, configured: int) -> int:
        return effective_scale(parts.get(path, _Part()).scale, configured).quantity

    return Configured(*scaled(manifest, configure(manifest, parameters), quantity), {}, frozenset(parameters))
