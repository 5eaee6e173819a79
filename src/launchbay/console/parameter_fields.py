"""Fields for parameters: made from what a manifest declares, and read back into values (manifest-language §3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from launchbay.console.form import Form
from launchbay.console.wording import compact, pretty
from launchbay.manifest.graph import ApplicationPin, CompiledManifest, WorkflowParameter
from launchbay.model.redaction import is_secret_name
from launchbay.model.types import BOOL, DOUBLE, INT, STRING, Type
from launchbay.model.values import CoercionError, coerce_text

Control = Literal["text", "number", "choice", "block"]
_REQUIRED = "This parameter has no default; give a value."


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One parameter on a form. `value` is what stands in it; an empty one means the default, where there is one."""

    name: str
    label: str
    declared: Type | None
    required: bool = False
    has_default: bool = False
    default: Any = None
    description: str = ""
    suggestions: Mapping[str, Any] = field(default_factory=dict)
    value: str = ""
    is_kept: bool = False  # a secret that is there already, and stays where the field is left empty
    error: str = ""
    is_sealed: bool = False  # declared to be a secret, whatever its name

    @property
    def type(self) -> str:
        """The declared type in words."""
        return "any type" if self.declared is None else str(self.declared)

    @property
    def control(self) -> Control:
        """What kind of control fits."""
        if self.declared == BOOL:
            return "choice"
        if self.declared in {INT, DOUBLE}:
            return "number"
        return "text" if self.declared in {STRING, None} else "block"

    @property
    def is_secret(self) -> bool:
        """Whether the value is nobody's business: declared so, or by its name."""
        return self.is_sealed or is_secret_name(self.name)

    @property
    def default_text(self) -> str:
        """The default as it is shown; a secret one is not."""
        return "" if self.default is None or self.is_secret else compact(self.default)

    @property
    def placeholder(self) -> str:
        """What stands in the empty field."""
        return "unchanged" if self.is_kept else self.default_text

    @property
    def options(self) -> list[tuple[str, str]]:
        """Suggested values with their labels; of a choice, all there are."""
        if self.declared == BOOL:
            return [("true", "true"), ("false", "false")]
        return [(compact(value), label) for label, value in self.suggestions.items()]


def launch_fields(manifest: CompiledManifest, given: Mapping[str, Any] | None = None) -> list[Field]:
    """Return the fields for the parameters of a launch or reconfiguration, with what was given so far."""
    given = given or {}
    return [_of_pin(manifest, name, pin, given) for name, pin in manifest.parameters.items()]


def workflow_fields(manifest: CompiledManifest, workflow: str) -> list[Field]:
    """Return the fields for the arguments of a command; launch and destroy take none."""
    pin = manifest.commands.get(workflow)
    if pin is None:
        return []
    declared: dict[str, Type | None] = dict(pin.type.signature.arguments) if pin.type.signature else {}
    details: Mapping[str, WorkflowParameter] = {}
    for target in pin.targets[:1]:
        component = manifest.components.get(target.component)
        found = None if component is None else component.workflows.get(target.pin.partition(".")[2])
        details = {} if found is None else found.parameters
    for name, parameter in details.items():
        declared.setdefault(name, parameter.type)
    return [_of_argument(name, kind, details.get(name)) for name, kind in declared.items()]


def filled(fields: Iterable[Field], form: Form, prefix: str) -> list[Field]:
    """Return the fields with what a form brought, each with what is wrong with it."""
    return [_filled(each, form.raw(prefix + each.name)) for each in fields]


def values(fields: Iterable[Field], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values by name, without those that are left to their defaults. Fields with errors are left out."""
    found: dict[str, Any] = {}
    for each in fields:
        if each.error:
            continue
        if each.value != "":
            found[each.name] = each.value if each.declared is None else coerce_text(each.declared, each.value)
        elif each.is_kept and kept is not None and each.name in kept:
            found[each.name] = kept[each.name]
    return found


def texts(fields: Iterable[Field]) -> dict[str, str]:
    """Return the values as workflows take them: as texts (reference §4, run)."""
    return {each.name: each.value for each in fields if each.value != "" and not each.error}


def with_errors(fields: Sequence[Field], sentences: Iterable[str]) -> tuple[list[Field], list[str]]:
    """Put each sentence that names a parameter to its field; return the fields, and the sentences that name none."""
    by_name = {each.name: each for each in fields}
    rest: list[str] = []
    for sentence in sentences:
        named = next((name for name in by_name if f"'{name}'" in sentence or sentence.startswith(f"{name}:")), None)
        if named is None:
            rest.append(sentence)
        else:
            known = by_name[named].error
            by_name[named] = replace(by_name[named], error=f"{known} {sentence}".strip())
    return list(by_name.values()), rest


def _of_pin(manifest: CompiledManifest, name: str, pin: ApplicationPin, given: Mapping[str, Any]) -> Field:
    pins = [manifest.configuration_pins.get(target.component, {}).get(target.pin) for target in pin.targets]
    known = next((each for each in pins if each is not None and each.has_default), None)
    secret_kept = name in given and is_secret_name(name)
    return Field(
        name=name,
        label=pin.label or name,
        declared=pin.type.value_type,
        required=name in manifest.required_parameters,
        has_default=known is not None,
        default=None if known is None else known.default,
        suggestions=pin.suggestions or {},
        value="" if secret_kept or name not in given else _text(given[name]),
        is_kept=secret_kept,
    )


def _of_argument(name: str, declared: Type | None, detail: WorkflowParameter | None) -> Field:
    if detail is None:
        return Field(name=name, label=name, declared=declared)
    return Field(
        name=name,
        label=name,
        declared=declared,
        has_default=detail.has_default,
        default=detail.default,
        description=detail.description or "",
        suggestions=detail.suggestions or {},
    )


def _filled(each: Field, text: str) -> Field:
    value = text if each.control == "block" else text.strip()
    if value.strip() == "":
        return replace(each, value="", error=_REQUIRED if each.required and not each.is_kept else "")
    error = ""
    if each.declared is not None:
        try:
            coerce_text(each.declared, value)
        except CoercionError as problem:
            error = str(problem)
    return replace(each, value=value, error=error)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else pretty(value) if isinstance(value, dict | list) else compact(value)
