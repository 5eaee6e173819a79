"""What a change would do to live instances, before it reaches them.

The change is another manifest version, a revision, an environment's settings, or a service's parameters. It compares as
a preview does, but instance by instance, without submodules, which the preview of one instance shows. An instance that
belongs to a submodule can't get another version or revision by itself. Threads compute batches, so that the event loop
continues.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.auth.secret_key import SecretKey
from launchbay.errors import BadRequest, InvalidManifest
from launchbay.features.freezes.usecases import list_frozen
from launchbay.features.secret_providers.usecases import count_readers
from launchbay.manifest.configuration import (
    STAYS,
    Change,
    Configured,
    PinChange,
    configure,
    difference,
    restarting,
    triggered,
)
from launchbay.manifest.graph import SERVICE, CompiledManifest
from launchbay.manifest.scaling import scaled
from launchbay.manifest.services import ServiceOffers, choose_all, markers, properties, service_shapes, unmet_needs
from launchbay.model.code_change import CodeChange
from launchbay.model.environment import (
    EnvironmentView,
    Marker,
    Property,
    read_environment_view,
    validate_markers,
    validate_properties,
)
from launchbay.model.instance import Binding, Scale, effective_scale
from launchbay.model.job import workflow_path
from launchbay.model.redaction import REDACTED, Redactor
from launchbay.planning.acceptance import environment_view
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.service_types.secrets import open_values
from launchbay.store import environments
from launchbay.store import instances as store
from launchbay.store.applications import Application, Revision
from launchbay.store.environments import Environment
from launchbay.store.instances import ImpactRow
from launchbay.store.services import Service
from launchbay.usecases.context import Context, Work
from launchbay.usecases.environments import plan_services, validate_policies
from launchbay.usecases.launch import (
    offered_manifests,
    published_signals,
    service_offers,
    unsupported_components,
    validate_version,
)
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import changed_code, manifest_text
from launchbay.usecases.revisions import plan_revision
from launchbay.usecases.services import plan_parameters

_PAGE = 2_000
_BATCH = 250  # computed in a thread at once
_NAMED = 20  # instances of a group
# Rollouts refuse it in the same words, with the ID of the other instance.
_OF_SUBMODULE = "The instance belongs to a submodule of another instance. Reconfigure that one."
_UNSET = "null"  # as JSON
# First words of policies that aren't actions: they apply to whatever an instance does.
_GENERAL_POLICIES = ("outgoing", "machines", "dry-run")


@dataclass(frozen=True, slots=True)
class Setting:
    """What an instance uses of its environment or of a service.

    `kind` is `policy`, `marker`, `property`, `service`, or `parameter`, `secret` or `signal` of a service. A service is
    named by its ID, or by that of an offered instance. The values are JSON, masked where they are secret.
    """

    kind: str
    name: str
    component: str | None = None
    before: str = _UNSET
    after: str = _UNSET


@dataclass(frozen=True, slots=True)
class PinValues:
    """A configuration pin that would change.

    The values are JSON, masked where they are secret.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a change reaches an instance: components, workflows and settings, or errors.

    `components` has those that start, stop, or get other values now. `code` has those whose workflows or other parts
    differ: what stays launched uses them from the next run on.
    """

    application_id: str
    former_version: int
    components: tuple[tuple[str, str, tuple[PinValues, ...]], ...] = ()
    workflows: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    code: tuple[CodeChange, ...] = field(default=(), compare=False)  # follows from the rest

    @property
    def kind(self) -> str:
        """`fails`, `changes`, or `keeps` for an instance that uses nothing of what changes."""
        if self.errors:
            return "fails"
        return "changes" if self.components or self.settings or self.code else "keeps"


@dataclass(slots=True)
class ImpactGroup:
    """Instances with the same outcome; `first` are some of them, as (ID, name)."""

    outcome: Outcome
    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Impact:
    """The impact of a change; `present` instances have it already.

    `version` is None if the change isn't that of a saved version. `warnings` name freezes that keep it from instances,
    and say how many others notice it.
    """

    version: int | None
    present: int = 0
    warnings: list[str] = field(default_factory=list)
    groups: dict[Outcome, ImpactGroup] = field(default_factory=dict)

    def count(self, kind: str) -> int:
        return sum(group.count for group in self.groups.values() if group.outcome.kind == kind)


class EnvironmentChange(msgspec.Struct, frozen=True):
    """What would replace the settings of an environment. Omitted ones stay.

    `policies` is a YAML document.
    """

    policies: str | None = None
    markers: list[Marker] | None = None
    properties: list[Property] | None = None
    services: list[str] | None = None


# Returns the outcome for an instance with its manifest, None for one that has the change already.
_Judge: TypeAlias = Callable[[ImpactRow, CompiledManifest], Outcome | None]


async def impact_of_version(ctx: Context, application_id: str, version: int | None) -> Impact:
    """Return what a version would do to the instances that the caller may read.

    The default is the newest one.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        chosen = await validate_version(work, application, version)
        manifest = await work.manifest(application.id, chosen)
        text = await manifest_text(work, application.id, chosen)
    return await _of_manifest(ctx, application_id, manifest, text, chosen)


async def impact_of_manifest(ctx: Context, application_id: str, text: str) -> Impact:
    """Return what a manifest that isn't saved would do. Raises InvalidManifest."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
    if len(text.encode()) > ctx.app.manifest_bytes:
        raise BadRequest(f"The manifest has more than {ctx.app.manifest_bytes} bytes.", code="TooLarge")
    return await _of_manifest(ctx, application.id, await ctx.app.manifests.compile(text), text, None)


async def _of_manifest(
    ctx: Context, application_id: str, manifest: CompiledManifest, text: str, version: int | None
) -> Impact:
    listed = partial(store.list_for_impact, application_id=application_id)
    unsupported = tuple(unsupported_components(manifest, ctx.app.runnable_types))
    judge = _ManifestJudge(manifest, text, version, None, unsupported)

    async def find(work: Work) -> Application:
        return await work.lookup.application(application_id, Permission.READ)

    return await _collect(ctx, version, find, listed, judge, judge.compare)


async def impact_of_revision(ctx: Context, revision_id: str, request: RevisionRequest | None = None) -> Impact:
    """Return what a revision would do to the instances that have it.

    They keep parameters that they were given themselves.
    With a request, the revision is as that would change it; raises BadRequest as the change does.
    """
    async with ctx.read() as work:
        revision = await work.lookup.revision(revision_id, Permission.READ)
        if request is not None:
            revision = await plan_revision(work, revision, request)
        manifest = await work.manifest(revision.application_id, revision.version)
        text = await manifest_text(work, revision.application_id, revision.version)
    unsupported = tuple(unsupported_components(manifest, ctx.app.runnable_types))
    judge = _ManifestJudge(manifest, text, revision.version, _read_parameters(revision.parameters), unsupported)

    async def find(work: Work) -> Revision:
        return await work.lookup.revision(revision_id, Permission.READ)

    listed = partial(store.list_for_impact_of_revision, revision_id=revision.id)
    return await _collect(ctx, revision.version, find, listed, judge, judge.compare)


async def impact_of_environment(ctx: Context, environment_id: str, change: EnvironmentChange | None = None) -> Impact:
    """Return what the next reconfigurations take from an environment.

    With a change, the settings are as it would make them; raises BadRequest as the change does.
    """
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        view = environment_view(environment)
        offered = await environments.list_services(work.connection, environment_id=environment.id)
        if change is not None:
            environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
            view = _changed_view(view, change)
            if change.services is not None:
                offered = await plan_services(work, environment, change.services)
        instances = await environments.list_offered_instances(work.connection, environment_id=environment.id)
        manifests = await offered_manifests(work, instances)
        dependents: dict[str, set[str]] = {}
        for row in await store.list_foundations(work.connection, instance_ids=[each.id for each in instances]):
            dependents.setdefault(row.id, set()).add(row.offered_id)
    offers = partial(service_offers, ctx.app.service_types, offered, instances, manifests)
    judge = _EnvironmentJudge(view, ctx.app.runnable_types, offers, dependents)

    async def find(work: Work) -> Environment:
        return await work.lookup.environment(environment_id, Permission.READ)

    listed = partial(store.list_for_impact_of_environment, environment_id=environment.id)
    return await _collect(ctx, None, find, listed, judge)


def _changed_view(view: EnvironmentView, change: EnvironmentChange) -> EnvironmentView:
    changed: dict[str, Any] = {}
    if change.policies is not None:
        changed["policies"] = validate_policies(change.policies)
    if change.markers is not None:
        changed["markers"] = [marker.name for marker in validate_markers(change.markers)]
    if change.properties is not None:
        changed["properties"] = {entry.name: entry.value for entry in validate_properties(change.properties)}
    return msgspec.structs.replace(view, **changed)


async def impact_of_service(ctx: Context, service_id: str, parameters: Mapping[str, Any] | None = None) -> Impact:
    """Return what the next reconfigurations take from a service.

    With parameters, the service is as they would change it; raises FieldErrors as the change does.
    """
    async with ctx.begin() as work:
        permission = Permission.READ if parameters is None else Permission.EDIT_SERVICE
        service = await work.lookup.service(service_id, permission)
        new = await plan_parameters(work, service, parameters or {})
    errors: tuple[str, ...] = ()
    signals: dict[str, Any] = {}
    try:
        signals = published_signals(service.name, ctx.app.service_types.find(service.type_id), new.open)
    except BadRequest as error:
        errors = tuple(error.messages)
    judge = _ServiceJudge(service.id, ctx.app.secret_key, new.open, new.secret, signals, errors)

    async def find(work: Work) -> Service:
        return await work.lookup.service(service_id, Permission.READ)

    page = partial(store.list_for_impact_of_service, service_id=service.id)
    found = await _collect(ctx, None, find, page, judge)
    if readers := (await count_readers(ctx, service.organization_id)).get(service.id, 0):
        some = "1 instance reads secrets" if readers == 1 else f"{readers} instances read secrets"
        found.warnings.append(f"{some} from it, with what changes from its next step on.")
    return found


async def _collect(
    ctx: Context,
    version: int | None,
    find: Callable[[Work], Awaitable[Application | Environment | Revision | Service]],
    list_page: Callable[..., Awaitable[list[ImpactRow]]],
    judge: _Judge,
    compare: Callable[[Work, tuple[str, int], CompiledManifest], Awaitable[None]] | None = None,
) -> Impact:
    """Return what is judged of the instances that the caller may read.

    `find` looks the changed object up again for each page, and `compare` gets each manifest that they have.
    """
    found = Impact(version)
    reached: set[tuple[str, str]] = set()  # applications and environments of the instances that it changes
    after = ""
    while True:
        manifests: dict[tuple[str, int], CompiledManifest | InvalidManifest] = {}
        async with ctx.read() as work:
            organization_id = (await find(work)).organization_id
            rows = await list_page(work.connection, after=after, count=_PAGE)
            visible = [
                row
                for row in rows
                if work.lookup.allows(
                    organization_id,
                    Permission.READ,
                    permissions.instance(row.application_id, row.id),
                    permissions.environment(row.environment_id),
                )
            ]
            for row in visible:
                key = (row.application_id, row.version)
                if key not in manifests:
                    try:
                        manifests[key] = manifest = await work.manifest(*key)
                        if compare is not None:
                            await compare(work, key, manifest)
                    except InvalidManifest as error:
                        manifests[key] = error
        for start in range(0, len(visible), _BATCH):
            batch = visible[start : start + _BATCH]
            outcomes = await asyncio.to_thread(_outcomes, batch, manifests, judge)
            for row, outcome in zip(batch, outcomes, strict=True):
                if outcome is None:
                    found.present += 1
                    continue
                if outcome.kind == "changes":
                    reached.add((row.application_id, row.environment_id))
                group = found.groups.setdefault(outcome, ImpactGroup(outcome))
                group.count += 1
                if len(group.first) < _NAMED:
                    group.first.append((row.id, row.name))
        if len(rows) < _PAGE:
            found.warnings = await _freezes(ctx, find, reached)
            return found
        after = rows[-1].id


async def _freezes(
    ctx: Context,
    find: Callable[[Work], Awaitable[Application | Environment | Revision | Service]],
    reached: Collection[tuple[str, str]],
) -> list[str]:
    """Return what freezes of places that the caller may read say."""
    async with ctx.read() as work:
        organization_id = (await find(work)).organization_id
        allows = partial(work.lookup.allows, organization_id, Permission.READ)
        applications = {each for each, _ in reached if allows(permissions.application(each))}
        places = {each for _, each in reached if allows(permissions.environment(each))}
        frozen = [
            *await list_frozen(work, organization_id, "application", sorted(applications)),
            *await list_frozen(work, organization_id, "environment", sorted(places)),
        ]
    return [f"No instance there changes now. {each}" for each in frozen[:_NAMED]]


def _outcomes(
    rows: Sequence[ImpactRow],
    manifests: Mapping[tuple[str, int], CompiledManifest | InvalidManifest],
    judge: _Judge,
) -> list[Outcome | None]:
    outcomes: list[Outcome | None] = []
    for row in rows:
        manifest = manifests[row.application_id, row.version]
        if isinstance(manifest, InvalidManifest):
            outcomes.append(Outcome(row.application_id, row.version, errors=tuple(manifest.messages)))
        else:
            outcomes.append(judge(row, manifest))
    return outcomes


@dataclass(frozen=True, slots=True)
class _ManifestJudge:
    """Judges by a manifest, and by the parameters of a revision."""

    manifest: CompiledManifest
    text: str
    version: int | None
    parameters: Mapping[str, object] | None
    unsupported: tuple[str, ...]
    known: dict[tuple[int, str, str, str, str], Outcome | None] = field(default_factory=dict)
    views: dict[str, EnvironmentView] = field(default_factory=dict)
    code: dict[int, dict[str, CodeChange]] = field(default_factory=dict)  # by the version that instances have

    async def compare(self, work: Work, key: tuple[str, int], manifest: CompiledManifest) -> None:
        """Compare the code with that of a version that instances have."""
        if key[1] != self.version and key[1] not in self.code:
            self.code[key[1]] = await changed_code(work, *key, manifest, self.manifest, self.text)

    def __call__(self, row: ImpactRow, manifest: CompiledManifest) -> Outcome | None:
        if self.parameters is None and row.version == self.version:
            return None
        key = (row.version, row.parameters, row.parameter_origins, row.state, row.environment_view)
        if key not in self.known:
            self.known[key] = self._outcome(row, manifest)
        found = self.known[key]
        if found is None or not row.is_submodule:
            return found
        return Outcome(row.application_id, row.version, errors=(_OF_SUBMODULE,))

    def _outcome(self, row: ImpactRow, manifest: CompiledManifest) -> Outcome | None:
        old = new = _read_parameters(row.parameters)
        if self.parameters is not None:
            origins = _read_origins(row.parameter_origins)
            own = {name: value for name, value in old.items() if origins.get(name) != "revision"}
            new = {**self.parameters, **own}
            if (row.version, old) == (self.version, new):
                return None
        if row.environment_view not in self.views:
            self.views[row.environment_view] = read_environment_view(row.environment_view)
        errors = (*self.unsupported, *unmet_needs(self.manifest, self.views[row.environment_view]))
        return _outcome(row, manifest, self.manifest, old, new, errors, self.code.get(row.version, {}))


@dataclass(frozen=True, slots=True)
class _EnvironmentJudge:
    """Judges by the settings of an environment.

    `dependents` are the offered instances that depend on an instance, which therefore can't use them.
    """

    view: EnvironmentView
    runnable: frozenset[str]
    offers: Callable[[frozenset[str]], ServiceOffers]
    dependents: Mapping[str, set[str]]
    known: dict[tuple[str, int, str, str, frozenset[str]], Outcome | None] = field(default_factory=dict)
    found_offers: dict[frozenset[str], ServiceOffers] = field(default_factory=dict)

    def __call__(self, row: ImpactRow, manifest: CompiledManifest) -> Outcome | None:
        dependents = frozenset(self.dependents.get(row.id, ()))
        key = (row.application_id, row.version, row.environment_view, row.links, dependents)
        if key not in self.known:
            self.known[key] = self._outcome(row, manifest, dependents)
        return self.known[key]

    def _outcome(self, row: ImpactRow, manifest: CompiledManifest, dependents: frozenset[str]) -> Outcome | None:
        if dependents not in self.found_offers:
            self.found_offers[dependents] = self.offers(dependents)
        before = read_environment_view(row.environment_view)
        former = {component: (target, kind) for component, target, kind in _read_links(row.links)}
        former_ids = {component: target for component, (target, _) in former.items()}
        chosen, conflicts = choose_all(manifest, self.found_offers[dependents], former_ids)
        errors = (*unsupported_components(manifest, self.runnable), *unmet_needs(manifest, self.view), *conflicts)
        if errors:
            return Outcome(row.application_id, row.version, errors=errors)
        components: list[tuple[str, str, tuple[PinValues, ...]]] = []
        settings = _changed_settings(manifest, before, self.view)
        for path in service_shapes(manifest):
            old = former.get(path)
            new = (chosen[path].offer.id, chosen[path].offer.kind.value) if path in chosen else None
            if old != new:
                components += [(path, Change.STOPS.value, ()), (path, Change.STARTS.value, ())]
                if old is not None:
                    settings.append(_setting("service", old[0], path, old[0], None))
                if new is not None:
                    settings.append(_setting("service", new[0], path, None, new[0]))
        if not components and _has_same_contents(before, self.view):
            return None
        return Outcome(row.application_id, row.version, tuple(components), settings=tuple(settings))


def _has_same_contents(one: EnvironmentView, other: EnvironmentView) -> bool:
    return (one.policies, set(one.markers), one.properties) == (other.policies, set(other.markers), other.properties)


def _changed_settings(manifest: CompiledManifest, before: EnvironmentView, after: EnvironmentView) -> list[Setting]:
    """Return what the manifest uses of an environment and what changes there."""
    used = {
        step.action.partition(".")[0]
        for component in manifest.components.values()
        for workflow in component.workflows.values()
        for step in workflow.all_steps
    }.union(_GENERAL_POLICIES)
    settings = [
        _setting("policy", name, None, before.policies.get(name), after.policies.get(name))
        for name in sorted(before.policies.keys() | after.policies.keys())
        if before.policies.get(name) != after.policies.get(name) and name.partition(".")[0] in used
    ]
    for path, component in manifest.components.items():
        if component.type != SERVICE:
            continue
        settings += [
            _setting("marker", pin.name, path, pin.name in before.markers, pin.name in after.markers)
            for pin in markers(component)
            if (pin.name in before.markers) != (pin.name in after.markers)
        ]
        settings += [
            _setting("property", pin.name, path, before.properties.get(pin.name), after.properties.get(pin.name))
            for pin in properties(component)
            if before.properties.get(pin.name) != after.properties.get(pin.name)
        ]
    return settings


@dataclass(frozen=True, slots=True)
class _ServiceJudge:
    """Judges by the parameters and signals of a service."""

    service_id: str
    secret_key: SecretKey
    open: Mapping[str, Any]
    secret: Mapping[str, Any]
    signals: Mapping[str, Any]
    errors: tuple[str, ...]
    known: dict[str, tuple[Setting, ...]] = field(default_factory=dict)

    def __call__(self, row: ImpactRow, _manifest: CompiledManifest) -> Outcome | None:
        if self.errors:
            return Outcome(row.application_id, row.version, errors=self.errors)
        if row.links not in self.known:
            self.known[row.links] = tuple(self._settings(row.links))
        settings = self.known[row.links]
        return Outcome(row.application_id, row.version, settings=settings) if settings else None

    def _settings(self, links: str) -> list[Setting]:
        settings: list[Setting] = []
        for component, binding in _read_bindings(links):
            bound = binding.service
            if bound is None:
                continue
            secret = open_values(self.secret_key, self.service_id, bound.secrets)
            used = frozenset(binding.pins.values())
            settings += _differences("parameter", component, bound.parameters, self.open)
            settings += _differences("secret", component, secret, self.secret)
            settings += [
                each for each in _differences("signal", component, bound.signals, self.signals) if each.name in used
            ]
        return settings


def _differences(kind: str, component: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Setting]:
    names = dict.fromkeys((*old, *new))
    return [
        _setting(kind, name, component, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _setting(kind: str, name: str, component: str | None, before: Any, after: Any) -> Setting:
    shown = [None if each is None else REDACTED if kind == "secret" else each for each in (before, after)]
    return Setting(kind, name, component, *(_json(_redactor.named(name, each)) for each in shown))


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


_redactor = Redactor()


class _Part(msgspec.Struct, frozen=True):
    launched: bool = False
    scale: Scale | None = None


_read_parts = msgspec.json.Decoder(dict[str, _Part]).decode
_read_parameters = msgspec.json.Decoder(dict[str, object]).decode
_read_origins = msgspec.json.Decoder(dict[str, str]).decode
_read_links = msgspec.json.Decoder(list[tuple[str, str, str]]).decode
_read_bindings = msgspec.json.Decoder(list[tuple[str, Binding]]).decode


def _outcome(
    row: ImpactRow,
    before: CompiledManifest,
    after: CompiledManifest,
    parameters: Mapping[str, object],
    new_parameters: Mapping[str, object],
    errors: tuple[str, ...],
    code: Mapping[str, CodeChange],
) -> Outcome:
    parts = _read_parts(row.state)
    try:
        old = _configured(before, parameters, parts)
        new = _configured(after, new_parameters, parts)
    except BadRequest as error:
        return Outcome(row.application_id, row.version, errors=(*error.messages, *errors))
    if errors:
        return Outcome(row.application_id, row.version, errors=errors)
    launched = {path for path, part in parts.items() if part.launched}
    changes = restarting(difference(old, new), launched.__contains__)
    runs = [
        (change.path, name)
        for change in changes
        for kind, name, side in ((Change.STOPS, DESTROY, old), (Change.STARTS, LAUNCH, new))
        if change.change is kind and name in side.manifest.components[change.path].workflows
    ]
    runs += triggered(new.manifest, changes)
    redactor = Redactor([parameters, new_parameters]) if any(change.pins for change in changes) else _redactor

    def values_of(pin: PinChange) -> PinValues:
        return PinValues(pin.pin, *(_json(redactor.named(pin.pin, each)) for each in (pin.before, pin.after)))

    return Outcome(
        row.application_id,
        row.version,
        tuple(
            (change.path, change.change.value, tuple(map(values_of, change.pins)))
            for change in changes
            if change.change is not Change.KEEPS
        ),
        tuple(workflow_path(*run) for run in runs),
        code=tuple(code[change.path] for change in changes if change.change in STAYS and change.path in code),
    )


def _configured(manifest: CompiledManifest, parameters: Mapping[str, object], parts: Mapping[str, _Part]) -> Configured:
    def quantity(path: str, configured: int) -> int:
        return effective_scale(parts.get(path, _Part()).scale, configured).quantity

    return Configured(*scaled(manifest, configure(manifest, parameters), quantity), {}, frozenset(parameters))
