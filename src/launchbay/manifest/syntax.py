"""The typed manifest: what an author wrote, sorted into kinds and with places, before rules across parts are applied.

`components.py` reads it from a component manifest, `v1.py` makes it from a workflow manifest; `compiler.py` goes on.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from launchbay.manifest.references import BindTarget, Endpoint
from launchbay.manifest.tree import Node
from launchbay.model.types import PinType, Type


class Named(msgspec.Struct, frozen=True):
    """A name or another short text, with its place."""

    text: str
    line: int
    column: int


class TypedPin(msgspec.Struct, frozen=True):
    """A pin with a kind and a type: `configuration(int)`."""

    name: str
    type: PinType
    label: str | None
    suggestions: Mapping[str, Any] | None
    line: int
    column: int


class BoundPin(msgspec.Struct, frozen=True):
    """A pin of a composite or the application: `bind(…)`. The name `*` stands for all pins of the targets."""

    name: str
    targets: tuple[BindTarget, ...]
    line: int
    column: int


PinSyntax: TypeAlias = TypedPin | BoundPin
Interfaces: TypeAlias = Mapping[str, Mapping[str, PinSyntax]]


class BindingSyntax(msgspec.Struct, frozen=True):
    """An unordered pair of ends."""

    first: Endpoint
    second: Endpoint
    line: int
    column: int


class ParameterSyntax(msgspec.Struct, frozen=True):
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


class StepSyntax(msgspec.Struct, frozen=True):
    """One step. `phase` is None where the author gave none; `parameters` are without those that stand beside them."""

    name: str
    action: Named | None
    phase: str | None
    preceding_phases: tuple[Named, ...]
    parameters: Mapping[str, Node]
    retry_count: Node | None
    ignore_fail: Node | None
    outputs: Mapping[str, str]
    line: int
    column: int


class ReturnSyntax(msgspec.Struct, frozen=True):
    """One entry of a workflow's `return`."""

    name: str
    value: Node
    line: int
    column: int


class WorkflowSyntax(msgspec.Struct, frozen=True):
    """A workflow, command or macro."""

    name: str
    parameters: Mapping[str, ParameterSyntax]
    steps: tuple[StepSyntax, ...]
    returns: Mapping[str, ReturnSyntax]
    line: int
    column: int


class WorkflowsSyntax(msgspec.Struct, frozen=True):
    """What `workflow.Instance` has in its configuration besides values of pins (manifest-language §5)."""

    workflows: Mapping[str, WorkflowSyntax] = {}
    triggers: Mapping[str, Named] = {}
    schedule: Mapping[str, Named] = {}
    propagate_status: tuple[Named, ...] = ()


class ComponentSyntax(msgspec.Struct, frozen=True):
    """A component, a composite (`type` is None) or, with the path "", the application itself.

    `configuration` holds the entries without those that `workflows` has taken.
    """

    path: str
    type: Named | None
    interfaces: Interfaces
    configuration: Mapping[str, Node]
    required: tuple[Named, ...]
    components: "Mapping[str, ComponentSyntax]"
    bindings: tuple[BindingSyntax, ...]
    workflows: WorkflowsSyntax
    line: int
    column: int

    @property
    def title(self) -> str:
        """Name the component for a sentence."""
        return f"Component '{self.path}'" if self.path else "Application"


class ManifestSyntax(msgspec.Struct, frozen=True):
    """A whole manifest. A workflow manifest (v1) shows its parameters and results by plain names."""

    application: ComponentSyntax
    is_component_manifest: bool
