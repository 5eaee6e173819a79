"""The compiled manifest: a flat graph of components with their links, ready to run, and the types of components.

`compiler.py` makes it once per manifest version. It has no parameters, environment or instance, is immutable, and is
shared between all instances of that version.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from launchbay.manifest.expressions import Template
from launchbay.manifest.meaning import Meant
from launchbay.model.findings import Finding
from launchbay.model.places import ConcurrencyLimit
from launchbay.model.types import PinKind, PinType, Type


class Pin(msgspec.Struct, frozen=True, gc=False):
    """One pin of a component's interface (manifest-language §3, "Pin kinds")."""

    interface: str
    name: str
    type: PinType
    label: str | None = None
    suggestions: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """Return `interface.pin`, the name by which configuration, triggers and the API address it."""
        return f"{self.interface}.{self.name}"


class WorkflowParameter(msgspec.Struct, frozen=True, gc=False):
    """A declared parameter of a workflow; `default` applies only if `has_default`."""

    name: str
    type: Type | None
    has_default: bool
    default: Any
    description: str | None = None
    suggestions: Mapping[str, Any] | None = None


class Control(msgspec.Struct, frozen=True, gc=False):
    """When, how often and how long a step runs, as whom, with which secrets.

    See the reference, "Conditions and loops" and "Identity of a job".
    """

    when: Template | None = None
    each: Template | None = None
    parallel: Template | None = None
    until: Template | None = None
    delay: Template | None = None
    timeout: Template | None = None
    identity: Template | None = None
    secrets: Template | None = None

    @property
    def templates(self) -> Mapping[str, Template]:
        """Return what is written, by key."""
        written = {
            "when": self.when,
            "each": self.each,
            "parallel": self.parallel,
            "until": self.until,
            "delay": self.delay,
            "timeout": self.timeout,
            "identity": self.identity,
            "secrets": self.secrets,
        }
        return {key: template for key, template in written.items() if template is not None}


NO_CONTROL = Control()


class Step(Meant, msgspec.Struct, frozen=True, gc=False, eq=False):
    """One step of a workflow (manifest-language §5, "Steps").

    `outputs` maps a variable to the output of the action that fills it. `parameters` excludes `retryCount`,
    `ignoreFail` and `phase`, which have their own fields.
    """

    name: str
    action: str
    phase: str
    preceding_phases: tuple[str, ...]
    parameters: Template
    outputs: Mapping[str, str]
    retry_count: Template | None
    ignore_fail: Template | None
    line: int
    control: Control = NO_CONTROL


class Workflow(Meant, msgspec.Struct, frozen=True, gc=False, eq=False):
    """A workflow, command or macro of one component. A macro's name starts with a dot.

    After `steps`, `on_failure` runs if one of them has failed, then `finally_` in any case.
    """

    name: str
    parameters: Mapping[str, WorkflowParameter]
    steps: tuple[Step, ...]
    returns: Mapping[str, Template]
    on_failure: tuple[Step, ...] = ()
    finally_: tuple[Step, ...] = ()
    timeout: Template | None = None
    concurrency: tuple[ConcurrencyLimit, ...] = ()

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """Return the steps of all three lists."""
        return (*self.steps, *self.on_failure, *self.finally_)


@dataclass(frozen=True, slots=True)
class Target:
    """A pin of a leaf component."""

    component: str
    pin: str  # `interface.pin` of that component


@dataclass(frozen=True, slots=True)
class UrlTarget(Target, Meant):
    """A URL made of several signals. `component` and `pin` are those of the host.

    `parts` are the other signals: some of `protocol`, `port` and `path`.
    """

    parts: tuple[tuple[str, Target], ...] = ()

    def meant(self) -> dict[str, Any]:
        """Return what counts: without parts it still isn't the host alone."""
        return {"component": self.component, "pin": self.pin, "url": dict(self.parts), "is_url": True}


def compose_url(values: Mapping[str, Any]) -> Any:
    """Return the URL of `host`, `protocol`, `port` and `path`, or None without a host.

    A list of hosts makes a list of URLs. A host with a protocol keeps it.
    """
    host = values.get("host")
    if isinstance(host, list):
        return [compose_url({**values, "host": each}) for each in host]
    if host in (None, ""):
        return None
    base = str(host).rstrip("/")
    if "://" not in base:
        protocol = str(values.get("protocol") or "http").removesuffix("://")
        if base.count(":") > 1 and not base.startswith("["):
            base = f"[{base}]"  # IPv6
        base = f"{protocol}://{base}"
    port, path = values.get("port"), str(values.get("path") or "")
    if port not in (None, ""):
        base = f"{base}:{port}"
    return f"{base}/{path.removeprefix('/')}" if path else base


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a link, as the author named it.

    `component` may be a composite with its own `interface`. `pins` maps each needed pin, by its bare name in the
    interface that needs it, to the leaf pin that fills it. A composite may combine and rename pins of several
    components, so the names of the two ends can differ.
    """

    component: str
    interface: str
    pins: Mapping[str, Target]


@dataclass(frozen=True, slots=True, eq=False)
class Component(Meant):
    """A leaf component. The graph has no composites: `path` is the dotted path through them, such as `web.workflow`.

    `pins` has every pin by `interface.pin`, including built-in ones. `configuration` is the component's own map, with
    the keys as written (`input.port`, `__locator.application-id`, `configuration.values`, …), without the workflow
    fields. `peers` maps each interface with bound needs to those that fill it, in binding order. `required` names
    interfaces that must be filled before launch. `triggers` has one entry for each pin, with wildcards expanded.
    `always_configured` are bare names of configuration pins that return values never hide (`workflow_rules.py`). The
    workflow fields are empty except for `workflow.Instance`.
    """

    path: str
    type: str
    pins: Mapping[str, Pin]
    configuration: Mapping[str, Any]
    required: tuple[str, ...]
    peers: Mapping[str, tuple[Peer, ...]]
    workflows: Mapping[str, Workflow] = field(default_factory=dict)
    triggers: Mapping[str, str] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=dict)
    propagate_status: frozenset[str] = frozenset({"launch"})
    always_configured: frozenset[str] = frozenset()
    # What checks of drift run: names of its workflows, and `plan` for the plan of its launch. None: the plan.
    checks: tuple[str, ...] | None = None
    replans: bool = False  # whether a step that isn't as approved is planned again (`onDifference`)
    scaler: str | None = None  # path of the composite.Scaler whose template this is
    line: int = 1

    def meant(self) -> dict[str, Any]:
        """Return what counts, by the names that messages use.

        The values of its pins aren't here: outer ones win (`CompiledManifest.configuration_pins`). `always_configured`
        follows from the workflows.
        """
        settings = {
            key: value
            for key, value in self.configuration.items()
            if (pin := self.pins.get(key)) is None or pin.type.kind is not PinKind.CONFIGURATION
        }
        return {
            "path": self.path,
            "type": self.type,
            "interfaces": self.pins,
            "bindings": self.peers,
            "required": self.required,
            "triggers": self.triggers,
            "schedule": self.schedule,
            "status": self.propagate_status,
            "Scaler": self.scaler,
            "checks": None if self.checks is None else {"run": self.checks},
            "onDifference": "replan" if self.replans else None,
            "configuration": settings,
            "workflows": self.workflows,
        }


def required_components(component: Component) -> set[str]:
    """Return the components that must be launched before this one."""
    return {
        target.component
        for interface in component.required
        for peer in component.peers.get(interface, ())
        for target in peer.pins.values()
    }


@dataclass(frozen=True, slots=True)
class ApplicationPin:
    """A pin of the application's own interfaces; `key` is its name in the API (`interface.pin`; plain names for v1)."""

    key: str
    type: PinType
    targets: tuple[Target, ...]
    label: str | None = None
    suggestions: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationPin:
    """A configuration pin of a component, with the origin of its value (manifest-language §3, value order).

    `parameter` is the first application pin bound to it, or None; `default` is the first that exists of
    application.configuration, each composite's configuration, the component's own and the default of a workflow's
    parameter. It is coerced to the type, unless it doesn't match (a warning; `configure` rejects it).
    """

    component: str
    pin: str
    type: Type
    parameter: str | None
    has_default: bool
    default: Any


class CheckTimes(NamedTuple):
    """When instances are checked for drift, unless somebody sets another schedule."""

    cron: str
    zone: str


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CompiledManifest(Meant):
    """One manifest version, ready to run.

    `order` is a launch order (providers of required interfaces first). `parameters` are the application-level
    configuration pins by API name, `required_parameters` those without any default, `results` the publish-signal pins,
    `commands` the receive-command pins, `needs` the consume-signal and send-command pins of the application itself.
    """

    is_component_manifest: bool
    components: Mapping[str, Component]
    order: tuple[str, ...]
    parameters: Mapping[str, ApplicationPin]
    required_parameters: tuple[str, ...]
    results: Mapping[str, ApplicationPin]
    commands: Mapping[str, ApplicationPin]
    needs: Mapping[str, ApplicationPin]
    configuration_pins: Mapping[str, Mapping[str, ConfigurationPin]]  # component path → `interface.pin`
    warnings: tuple[Finding, ...]
    concurrency: tuple[ConcurrencyLimit, ...] = ()  # of all jobs of the application
    checks: CheckTimes | None = None

    def meant(self) -> dict[str, Any]:
        """Return what counts: what two versions differ in is a difference of these.

        `defaults` are the values that win, each in a list, by component and pin. A parameter is its pin, whether it
        must be given, and for which targets it wins over parameters that are bound to the same.
        """
        required = frozenset(self.required_parameters)
        wins: dict[str, list[str]] = {}
        defaults: dict[str, dict[str, list[Any]]] = {}
        for path, pins in self.configuration_pins.items():
            defaults[path] = {key: [pin.default] for key, pin in pins.items() if pin.has_default}
            for key, pin in pins.items():
                if pin.parameter is not None:
                    wins.setdefault(pin.parameter, []).append(f"{path}#{key}")
        return {
            "components": self.components,
            "defaults": defaults,
            "parameters": {
                name: (pin, name in required, sorted(wins.get(name, ()))) for name, pin in self.parameters.items()
            },
            "results": self.results,
            "commands": self.commands,
            "needs": self.needs,
            "concurrency": self.concurrency,
            "checks": self.checks,
            "kind": "components" if self.is_component_manifest else "workflows",
        }


# For an application without a manifest.
NOTHING_COMPILED = CompiledManifest(
    is_component_manifest=False,
    components={},
    order=(),
    parameters={},
    required_parameters=(),
    results={},
    commands={},
    needs={},
    configuration_pins={},
    warnings=(),
)

Configuration: TypeAlias = Mapping[str, Mapping[str, Any]]  # component path → `interface.pin` → value

# Component types and the pins that they have undeclared (manifest-language §4). The set is open: a plug-in with a
# component type also provides its `ComponentType`, and the composition root passes both to the compiler.

APPROVAL = "approval"  # the action of a step that asks people
WORKFLOW_INSTANCE = "workflow.Instance"
SERVICE = "reference.Service"
SUBMODULE = "reference.Submodule"
CONSTANTS = "cobalt.common.Constants"
COMPUTE = "compute.Instance"
SCALER = "composite.Scaler"
HTTP_ENDPOINT = "cobalt.common.HttpEndpoint"
ADDRESS = "address"  # of an HttpEndpoint: what it makes a URL of, as far as the other side has it
URL_PARTS = ("host", "protocol", "port", "path")
LOCATOR = "__locator.application-id"
EXECUTOR_PINS = frozenset({"execute-workflow", "execute-command"})


@dataclass(frozen=True, slots=True)
class ComponentType:
    """One component type: `interfaces` maps each built-in interface to its pins, name to type.

    `is_composite` types contain inner components; `settings` are configuration keys that aren't pins.
    """

    name: str
    interfaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_composite: bool = False
    settings: Collection[str] = ()


_ALL = (
    ComponentType(WORKFLOW_INSTANCE),
    ComponentType(SERVICE),
    ComponentType(SUBMODULE, {"__locator": {"application-id": "configuration(string)"}}),
    ComponentType(CONSTANTS, settings=("configuration.values",)),
    ComponentType(
        COMPUTE,
        {
            "configuration": {
                "hardwareId": "configuration(string)",
                "imageId": "configuration(string)",
                "login": "configuration(string)",
                "locationId": "configuration(string)",
            },
            "compute": {
                "networks": "publish-signal(map<string, map<string, string>>)",
                "exec": (
                    "receive-command(string command, int timeout => string stdOut, string stdErr"
                    " => string stdOut, string stdErr, int exitCode)"
                ),
                "put-file": "receive-command(string filename, bytes payload)",
                "get-file": "receive-command(string filename => bytes payload)",
            },
        },
    ),
    ComponentType(
        SCALER,
        {
            "configuration": {"quantity": "configuration(int)", "minQuantity": "configuration(int)"},
            "scale": {"set-quantity": "receive-command(int quantity)"},
        },
        is_composite=True,
    ),
    ComponentType(
        HTTP_ENDPOINT,
        {
            "configuration": {"url": "configuration(string)"},
            "connection": {"url": "publish-signal(string)"},
            "endpoint": {"url": "publish-signal(string)"},
            "source": {"url": "consume-signal(string)"},
            ADDRESS: dict.fromkeys(URL_PARTS, "consume-signal(object)"),
        },
    ),
)
BUILTIN: Mapping[str, ComponentType] = {component_type.name: component_type for component_type in _ALL}


def is_workflow_service(type_name: str, pins: Collection[str]) -> bool:
    """Return whether these are the workflow service's pins, which are accepted and ignored (§3, "Bindings")."""
    return type_name == SERVICE and bool(pins) and EXECUTOR_PINS.issuperset(pins)
