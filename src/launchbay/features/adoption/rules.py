"""What of a running system an instance can adopt, and whether it fits. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.features.plans.rules import PlannedStep
from launchbay.manifest.graph import SUBMODULE, CompiledManifest
from launchbay.model.document_name import DOCUMENT_NAMES, is_document_name
from launchbay.model.existing import Existing, read_existing
from launchbay.model.machine import Machine, host_and_port

OPENTOFU, HELM, HOSTS = "opentofu", "helm", "provisionVms"
_STATE_VERSION = 4  # of Terraform since 0.12, and of OpenTofu
_PROBLEMS = 3  # of steps, that are named
_ECHOED = 80  # characters of what the request gave
_ADDRESS = 1_000  # characters that are kept of one address


class StatePlace(NamedTuple):
    """Where a component keeps a state.

    `name` is None if only a run knows it.
    """

    component: str
    name: str | None


class GivenState(msgspec.Struct, frozen=True, kw_only=True):
    """A state for a component. The name is needed if the component has several."""

    component: str
    state: str
    name: str | None = None


class GivenRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A component that adopts a release of Helm, or all that it installs."""

    component: str
    release: str | None = None
    namespace: str | None = None


class GivenHosts(msgspec.Struct, frozen=True, kw_only=True):
    """A component that adopts the hosts that its steps name."""

    component: str


class Adoptee(NamedTuple):
    """What a component adopts.

    `document` is what its step would have stored under `name`; of a host, the machine that it would have put into its
    role. `identity` names it in the organization, and `resources` are its first addresses. `about` is what else is
    shown.
    """

    component: str
    action: str
    name: str
    identity: str
    document: bytes
    resources: list[str]
    resource_count: int
    about: dict[str, Any] | None = None

    @property
    def what(self) -> str:
        """What it is, in a sentence."""
        if self.action == HELM:
            return f"The release for {self.component!r} ({self.identity})"
        if self.action == HOSTS and self.about is not None:
            return f"The host for {self.component!r} ({self.about['address']})"
        return f"The state for {self.component!r} (lineage {self.identity})"

    @property
    def shown(self) -> str:
        """What the instance was made of, for its page."""
        if self.about is None:
            resources = _counted(self.resource_count, "resource")
            return f"the state {self.name!r} of {self.component}, with {resources} (lineage {self.identity})"
        about = self.about
        if self.action == HOSTS:
            return f"the host {about['address']} of {self.component}, in its role {about['role']}"
        return (
            f"the release {about['namespace']}/{about['release']} of {self.component}: chart {about['chart']}, "
            f"revision {about['revision']}, {_counted(self.resource_count, 'object')}"
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


class AdoptedState(msgspec.Struct, frozen=True, kw_only=True):
    """A state that fits its place.

    `resources` are addresses, of which some are kept. `lineage` names the state at all times.
    """

    component: str
    name: str
    lineage: str
    text: str
    resources: list[str]
    resource_count: int


# Attributes may hold what a body of JSON may not, such as any number, so the reader of bodies isn't the one of states.
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Lineage = Annotated[str, msgspec.Meta(max_length=255)]


class _Instance(msgspec.Struct, frozen=True):
    index_key: int | str | None = None


class _Resource(msgspec.Struct, frozen=True):
    type: str
    name: str
    mode: str = "managed"
    module: str | None = None
    instances: list[_Instance] = []

    def addresses(self) -> Iterable[str]:
        prefix = "" if self.module is None else f"{self.module}."
        for each in self.instances:
            key = "" if each.index_key is None else f"[{msgspec.json.encode(each.index_key).decode()}]"
            yield f"{prefix}{self.type}.{self.name}{key}"[:_ADDRESS].replace("\0", "\ufffd")


class _State(msgspec.Struct, frozen=True):
    version: int
    lineage: _Lineage = ""
    serial: _Whole = 0
    resources: list[_Resource] = []


def state_places(manifest: CompiledManifest) -> list[StatePlace]:
    """Return where the components of a manifest keep states."""
    found: dict[StatePlace, None] = {}
    for path, component in manifest.components.items():
        for workflow in component.workflows.values():
            for step in workflow.all_steps:
                parameters = step.parameters.written if step.action == OPENTOFU else None
                if isinstance(parameters, Mapping) and parameters.get("operation", "apply") not in {"plan", "destroy"}:
                    name = step.parameters.expressions.get("name")
                    written = parameters.get("name", "default")
                    is_known = name is None and isinstance(written, str) and "$" not in written
                    found[StatePlace(path, written if is_known else None)] = None
    return list(found)


def check_manifest(manifest: CompiledManifest) -> None:
    """Raise BadRequest for a manifest of which an instance can't only be observed."""
    for path, component in manifest.components.items():
        if component.type == SUBMODULE:
            raise BadRequest(
                f"Component {path!r} is a submodule, which is an instance of its own.",
                "Adopt the submodule's application by itself.",
                code="CannotAdopt",
            )
        if component.scaler is not None:
            raise BadRequest(
                f"Component {path!r} belongs to a Scaler, whose members only a launch makes.", code="CannotAdopt"
            )


def require_something(manifest: CompiledManifest, *given: Sequence[object]) -> None:
    """Raise BadRequest if nothing is given."""
    if any(given):
        return
    names = _names(state_places(manifest))
    installing, adopting = (", ".join(components_with(manifest, action)) for action in (HELM, HOSTS))
    remedies = [
        f"Give the state of at least one of: {names}." if names else "",
        f"Or name a component with a release of Helm: {installing}." if installing else "",
        f"Or name a component with hosts: {adopting}." if adopting else "",
    ]
    raise BadRequest(
        "There is nothing to adopt: no state, no release and no hosts are given.",
        " ".join(filter(None, remedies)) or "No component of this version has a step opentofu, helm or provisionVms.",
        code="CannotAdopt",
    )


def components_with(manifest: CompiledManifest, action: str) -> list[str]:
    """Return the components that have a step of an action."""
    return [
        path
        for path, component in manifest.components.items()
        if any(step.action == action for workflow in component.workflows.values() for step in workflow.all_steps)
    ]


def check_releases(manifest: CompiledManifest, given: Sequence[GivenRelease]) -> None:
    """Raise BadRequest for a component that installs no release, or is given twice."""
    known = components_with(manifest, HELM)
    for each in given:
        if each.component not in known:
            raise BadRequest(
                f"releases: no step of {each.component[:_ECHOED]!r} installs a release of Helm.",
                f"Name one of: {', '.join(known)}." if known else "No component of this version has a step helm.",
                code="InvalidRelease",
            )
    for each, count in Counter(given).items():
        if count > 1:
            raise BadRequest(f"releases: {each.component!r} is given {count} times.", code="InvalidRelease")


def check_hosts(manifest: CompiledManifest, given: Sequence[GivenHosts]) -> None:
    """Raise BadRequest for a component that has no hosts, or is given twice."""
    known = components_with(manifest, HOSTS)
    for each, count in Counter(given).items():
        if each.component not in known:
            raise BadRequest(
                f"hosts: no step of {each.component[:_ECHOED]!r} adopts hosts.",
                f"Name one of: {', '.join(known)}."
                if known
                else "No component of this version has a step provisionVms.",
                code="InvalidHosts",
            )
        if count > 1:
            raise BadRequest(f"hosts: {each.component!r} is given {count} times.", code="InvalidHosts")


def found_hosts(
    steps: Sequence[PlannedStep], artifacts: Mapping[str, bytes], given: GivenHosts, application_id: str
) -> list[Adoptee]:
    """Return the hosts of a component, of which each has answered.

    One host may serve several applications, so it is named with its place in this one. Raises BadRequest if a step has
    other machines, because taking over would make these.
    """
    own = [each for each in steps if each.component == given.component and each.action == HOSTS]
    problems = [effect.note for each in own if each.path not in artifacts for effect in each.effects]
    if problems or not own:
        raise BadRequest(
            f"hosts: {given.component!r} adopts nothing.",
            *(problems[:_PROBLEMS] or ["None of its steps runs at a launch with these parameters."]),
            code="InvalidHosts",
        )
    machines = [machine for each in own for machine in _read_machines(read_existing(artifacts[each.path]).document)]
    return [_host(given.component, machine, application_id) for machine in machines]


def _host(component: str, machine: Machine, application_id: str) -> Adoptee:
    place = host_and_port(machine.host, machine.port)
    name = f"{machine.role} {place}"
    return Adoptee(
        component=component,
        action=HOSTS,
        name=name,
        identity=f"{name} for {component} of {application_id}"[: limits.ADOPTED_IDENTITY_CHARS],
        document=msgspec.json.encode(machine),
        resources=[place],
        resource_count=1,
        about={"role": machine.role, "address": place, "login": machine.login or "root"},
    )


_read_machines = msgspec.json.Decoder(list[Machine]).decode
_read_machine = msgspec.json.Decoder(Machine).decode


def found_releases(steps: Sequence[PlannedStep], artifacts: Mapping[str, bytes], given: GivenRelease) -> list[Existing]:
    """Return the release that a component adopts, or several that fit.

    Raises BadRequest that says why it can't be adopted.
    """
    own = [each for each in steps if each.component == given.component and each.action == HELM]
    found = [read_existing(artifacts[each.path]) for each in own if each.path in artifacts]
    fitting = [
        each
        for each in found
        if given.release in {None, each.about["release"]} and given.namespace in {None, each.about["namespace"]}
    ]
    if fitting:
        return fitting
    problems = [effect.note for each in own if each.path not in artifacts for effect in each.effects]
    if problems:
        raise BadRequest(f"releases: {given.component!r} adopts nothing.", *problems[:_PROBLEMS], code="InvalidRelease")
    names = ", ".join(f"{each.about['namespace']}/{each.about['release']}" for each in found)
    raise BadRequest(
        f"releases: {given.component!r} has no step for this release.",
        f"It has: {names}." if names else "None of its steps runs at a launch with these parameters.",
        code="InvalidRelease",
    )


def placed(manifest: CompiledManifest, given: Sequence[GivenState]) -> list[AdoptedState]:
    """Return the states in their places.

    Raises BadRequest that names each state that can't be read, has no place, or is given twice.
    """
    places = state_places(manifest)
    found = [_placed(places, each) for each in given]
    for (component, name), count in Counter((each.component, each.name) for each in found).items():
        if count > 1:
            raise BadRequest(f"states: {count} are given for {name!r} of {component!r}.", code="InvalidState")
    for lineage, count in Counter(each.lineage for each in found).items():
        if count > 1:
            raise BadRequest(
                f"states: the state with the lineage {lineage} is given {count} times.", code="InvalidState"
            )
    return found


def _placed(places: Sequence[StatePlace], given: GivenState) -> AdoptedState:
    names = [each.name for each in places if each.component == given.component]
    if not names:
        others = _names(places)
        raise BadRequest(
            f"states: no step of {given.component[:_ECHOED]!r} keeps a state.",
            f"Give it for one of: {others}." if others else "No component of this version has a step opentofu.",
            code="InvalidState",
        )
    name = given.name if given.name is not None else (names[0] if len(names) == 1 else None)
    if name is None or (name not in names and None not in names):
        known = ", ".join(str(each) for each in names if each is not None)
        raise BadRequest(
            f"states: {given.component!r} has {'several states' if name is None else f'no state {name[:_ECHOED]!r}'}.",
            f"Give its name{f', such as {known}' if known else ': the parameter name of its step opentofu'}.",
            code="InvalidState",
        )
    if not is_document_name(name):
        raise BadRequest(
            f"states: the name {name[:_ECHOED]!r} of {given.component!r} is wrong.",
            f"A step reads a state whose name has {DOCUMENT_NAMES}.",
            code="InvalidState",
        )
    return _read(given, name)


def _read(given: GivenState, name: str) -> AdoptedState:
    where = f"The state for {given.component!r}"
    raw = _decoded(given.state, where)
    version = raw.get("version") if isinstance(raw, dict) else None
    if version is not None and type(version) is not int:
        raise BadRequest(
            f"{where} has the version {_shown(version)}, which isn't a whole number.",
            "A state has the number 4 there.",
            code="InvalidState",
        )
    if version != _STATE_VERSION:
        shown = "no version, so it isn't a state" if version is None else f"the version {_shown(version)}"
        is_older = version is not None and version < _STATE_VERSION
        remedy = ["Write it again with a newer program: `terraform apply -refresh-only`."] if is_older else []
        raise BadRequest(f"{where} has {shown}. Launchbay reads version 4.", *remedy, code="InvalidState")
    try:
        state = msgspec.convert(raw, _State)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{where} can't be read: {str(error)[:300]}.", code="InvalidState") from None
    if not state.lineage:
        raise BadRequest(
            f"{where} has no lineage, so nothing names it.",
            "Save it once with the program: `tofu apply -refresh-only`.",
            code="InvalidState",
        )
    if not state.lineage.isprintable():
        raise BadRequest(f"{where} has control characters in its lineage.", code="InvalidState")
    managed = [each for each in state.resources if each.mode == "managed"]
    addresses = sorted(address for each in managed for address in each.addresses())
    return AdoptedState(
        component=given.component,
        name=name,
        lineage=state.lineage,
        text=given.state,
        resources=addresses[: limits.ADOPTED_ADDRESSES],
        resource_count=len(addresses),
    )


def _decoded(text: str, where: str) -> Any:
    try:
        msgspec.json.decode(text)  # it says best what isn't JSON
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise BadRequest(f"{where} is nested too deep to be a state.", code="InvalidState") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadRequest(
            f"{where} isn't JSON: {error}.",
            "Give the file terraform.tfstate, or what `tofu state pull` prints.",
            code="InvalidState",
        ) from None
    except ValueError as error:
        raise BadRequest(f"{where} isn't a state: {error}.", code="InvalidState") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {_shown(twice)} twice")
    return found


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)[:_ECHOED]


def adopted_state(adopted: Iterable[Adoptee]) -> str:
    """Return the state of an instance whose components run, as the engine stores it."""
    machines: dict[str, list[Machine]] = {}
    for each in adopted:
        machines.setdefault(each.component, []).extend([_read_machine(each.document)] if each.action == HOSTS else ())
    state = {
        path: {"launched": True, "machines": sorted(found, key=lambda machine: machine.number)}
        for path, found in machines.items()
    }
    return msgspec.json.encode(state).decode()


def _names(places: Iterable[StatePlace]) -> str:
    return ", ".join(
        dict.fromkeys(f"{each.component}{'' if each.name is None else f' ({each.name})'}" for each in places)
    )
