"""The typed manifest: what an author wrote, by kind and with places, before rules across parts are checked.

`parser.py` reads it from a component manifest, `v1.py` makes it from a workflow manifest; `compiler.py` compiles it.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from launchbay.limits import MANIFEST_DEPTH, NAME_CHARS
from launchbay.manifest.tree import Node
from launchbay.model.findings import Place
from launchbay.model.places import ConcurrencyLimit
from launchbay.model.types import PinType, Type

WILDCARD = "*"
_NAME = re.compile(r"[^#,()]+")


class BindTarget(msgspec.Struct, frozen=True, gc=False):
    """One target: the path of a component, and `interface.pin` or `interface.*` there."""

    component: str
    pin: str

    def __str__(self) -> str:
        return f"{self.component}#{self.pin}"

    @property
    def wildcard_interface(self) -> str | None:
        """The interface whose pins are all meant; None for a single pin."""
        return self.pin[:-2] if self.pin.endswith(".*") else None


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One end of a binding: the path of a component, optionally with one of its interfaces."""

    component: str
    interface: str | None
    line: int
    column: int

    def __str__(self) -> str:
        return self.component if self.interface is None else f"{self.component}#{self.interface}"


def parse_bind(text: str) -> tuple[BindTarget, ...]:
    """Return the targets of a `bind(…)`, ignoring white space. Raises `ValueError` with a message."""
    inner = text.strip().removeprefix("bind").lstrip()
    if not (text.lstrip().startswith("bind") and inner.startswith("(") and inner.endswith(")")):
        raise ValueError(f"Invalid bind {_shown(text)}. Write bind(component#interface.pin).")
    return tuple(dict.fromkeys(_parse_target(part) for part in inner[1:-1].split(",")))


def parse_endpoint(text: str, line: int, column: int) -> Endpoint:
    """Return one end of a binding. Raises `ValueError` with a message."""
    component, hash_sign, interface = text.partition("#")
    path, interface = _parts(component), interface.strip()
    if not all(map(_is_name, path)) or (hash_sign and not _is_name(interface)):
        raise ValueError(f"Invalid end of a binding {_shown(text)}. Write component or component#interface.")
    return Endpoint(".".join(path), interface or None, line, column)


def _parse_target(text: str) -> BindTarget:
    component, _, pin = text.partition("#")
    path, pin_parts = _parts(component), _parts(pin)
    if not all(map(_is_name, path)) or len(pin_parts) < 2 or not all(map(_is_name, pin_parts)):
        raise ValueError(f"Invalid bind target {_shown(text.strip())}. Write component#interface.pin.")
    return BindTarget(".".join(path), ".".join(pin_parts))


def _parts(dotted: str) -> list[str]:
    """Return the names between the dots; one empty, invalid name if there are more than the nesting limit."""
    parts = dotted.split(".", MANIFEST_DEPTH)
    return [part.strip() for part in parts] if len(parts) <= MANIFEST_DEPTH else [""]


def _is_name(text: str) -> bool:
    return len(text) <= NAME_CHARS and _NAME.fullmatch(text) is not None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


class Named(msgspec.Struct, frozen=True, gc=False):
    """A name or another short string, with its place."""

    text: str
    line: int
    column: int


class TypedPin(msgspec.Struct, frozen=True, gc=False):
    """A pin with a kind and a type: `configuration(int)`."""

    name: str
    type: PinType
    label: str | None
    suggestions: Mapping[str, Any] | None
    line: int
    column: int


class BoundPin(msgspec.Struct, frozen=True, gc=False):
    """A pin of a composite or the application: `bind(…)`. The name `*` means all pins of the targets."""

    name: str
    targets: tuple[BindTarget, ...]
    line: int
    column: int


PinSyntax: TypeAlias = TypedPin | BoundPin
Interfaces: TypeAlias = Mapping[str, Mapping[str, PinSyntax]]


class BindingSyntax(msgspec.Struct, frozen=True, gc=False):
    """An unordered pair of ends."""

    first: Endpoint
    second: Endpoint
    line: int
    column: int


class ParameterSyntax(msgspec.Struct, frozen=True, gc=False):
    """A declared parameter of a workflow."""

    name: str
    type: Type | None
    has_default: bool
    default: Any
    description: str | None
    label: str | None
    suggestions: Mapping[str, Any] | None
    line: int
    column: int


class StepSyntax(msgspec.Struct, frozen=True, gc=False):
    """One step. `phase` is None if the author set none; `parameters` excludes `phase`, `retryCount`, `ignoreFail`.

    `parameter_places` has the places of the parameters' names. `control` has the values of `when`, `each`, `parallel`,
    `until`, `delay`, `timeout`, `identity` and `secrets`, and `control_places` the places of these keys.
    """

    name: str
    action: Named | None
    phase: str | None
    preceding_phases: tuple[Named, ...]
    parameters: Mapping[str, Node]
    retry_count: Node | None
    ignore_fail: Node | None
    outputs: Mapping[str, Named]
    line: int
    column: int
    parameter_places: Mapping[str, Place]
    control: Mapping[str, Node] = {}
    control_places: Mapping[str, Place] = {}


class ReturnSyntax(msgspec.Struct, frozen=True, gc=False):
    """One entry of a workflow's `return`."""

    name: str
    value: Node
    line: int
    column: int


class WorkflowSyntax(msgspec.Struct, frozen=True, gc=False):
    """A workflow, command or macro; `name_place` is the place of its name.

    `on_failure` and `finally_` are steps that run after `steps`.
    """

    name: str
    name_place: Place
    parameters: Mapping[str, ParameterSyntax]
    steps: tuple[StepSyntax, ...]
    returns: Mapping[str, ReturnSyntax]
    line: int
    column: int
    on_failure: tuple[StepSyntax, ...] = ()
    finally_: tuple[StepSyntax, ...] = ()
    timeout: Node | None = None
    concurrency: tuple[ConcurrencyLimit, ...] = ()

    @property
    def all_steps(self) -> tuple[StepSyntax, ...]:
        """Return the steps of all three lists."""
        return (*self.steps, *self.on_failure, *self.finally_)


class WorkflowsSyntax(msgspec.Struct, frozen=True, gc=False):
    """What a `workflow.Instance` configures in addition to values of pins (manifest-language §5)."""

    workflows: Mapping[str, WorkflowSyntax] = {}
    triggers: Mapping[str, Named] = {}
    schedule: Mapping[str, Named] = {}
    propagate_status: tuple[Named, ...] = ()


class ChecksSyntax(msgspec.Struct, frozen=True, gc=False):
    """What checks run, and when those of an application are made.

    `run` has names of its workflows, and `plan` for the plan of its launch; None where nobody says it.
    """

    run: tuple[Named, ...] | None
    line: int
    column: int
    cron: Named | None = None
    zone: Named | None = None


class ComponentSyntax(msgspec.Struct, frozen=True, gc=False):
    """A component, a composite (`type` is None) or, with the path "", the application itself.

    `label` is its name in findings: its path, "application", or what the author of a workflow manifest calls it, which
    is nothing for the component that the rewriting adds. `configuration` excludes the entries that `workflows` has.
    """

    path: str
    label: str
    type: Named | None
    interfaces: Interfaces
    configuration: Mapping[str, Node]
    required: tuple[Named, ...]
    components: "Mapping[str, ComponentSyntax]"
    bindings: tuple[BindingSyntax, ...]
    workflows: WorkflowsSyntax
    line: int
    column: int
    configuration_places: Mapping[str, Place] = {}  # of the keys
    concurrency: tuple[ConcurrencyLimit, ...] = ()  # of the application
    checks: ChecksSyntax | None = None
    replans: bool = False  # whether a step that isn't as approved is planned again


class ManifestSyntax(msgspec.Struct, frozen=True, gc=False):
    """A manifest. A workflow manifest (v1) shows its parameters and results by plain names."""

    application: ComponentSyntax
    is_component_manifest: bool
