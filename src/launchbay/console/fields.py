"""Fields for parameters: made from what a manifest declares, and read back into values (manifest-language §3)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from launchbay.console.forms import Form
from launchbay.console.rendering import compact, pretty
from launchbay.console.request import PageRequest
from launchbay.manifest.graph import ApplicationPin, CompiledManifest, WorkflowParameter
from launchbay.model.redaction import is_secret_name
from launchbay.model.types import BOOL, DOUBLE, INT, STRING, Type
from launchbay.model.values import CoercionError, coerce_text
from launchbay.store.applications import Application
from launchbay.usecases.launch_request import SubmoduleRequest
from launchbay.usecases.submodule_shapes import ModulePath, SubmoduleChoices, SubmoduleShape, submodule_shapes

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


def fill_fields(fields: Iterable[Field], form: Form, prefix: str) -> list[Field]:
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


def string_values(fields: Iterable[Field]) -> dict[str, str]:
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


PREFIX = "submodule:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmoduleGroup:
    """One submodule on a form. `kept` are the secrets that stay where their fields are left empty."""

    shape: SubmoduleShape
    fields: list[Field] = field(default_factory=list)
    kept: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    inside: "list[SubmoduleGroup]" = field(default_factory=list)

    @property
    def id(self) -> str:
        """What the names of its controls begin with."""
        return prefix(self.shape.path)

    @property
    def path(self) -> str:
        """Its way, as messages name it."""
        return ".".join(self.shape.path)

    @property
    def is_open(self) -> bool:
        """Whether it is to be seen at once: something is asked of it, wrong with it, or required by it."""
        asked = self.shape.choice
        own = asked.revision_id or asked.manifest_version or asked.parameters or self.error
        return bool(own) or any(each.required or each.error for each in self.fields) or self._is_open_inside()

    def _is_open_inside(self) -> bool:
        return any(each.is_open for each in self.inside)


def prefix(path: ModulePath) -> str:
    """Return what the names of the controls of a submodule begin with; no component has a slash in its name."""
    return f"{PREFIX}{'/'.join(path)}:"


def choices_from_request(request: Mapping[str, Any]) -> SubmoduleChoices:
    """Return what the `submodules` of a request ask, by the way of each; those of a revision may have short names."""

    def find(module_path: ModulePath) -> SubmoduleRequest:
        inside: Mapping[str, Any] = {"submodules": request}
        for path in module_path:
            known = inside.get("submodules") or {}
            inside = known.get(path, known.get(path.rpartition(".")[2])) or {}
        return SubmoduleRequest(
            inside.get("revisionId"), inside.get("manifestVersion"), inside.get("parameters") or {}, {}
        )

    return find


def choices_from_form(form: Form) -> SubmoduleChoices:
    """Return what a form asks; versions and values are texts in it, and are checked when they are used."""

    def find(module_path: ModulePath) -> SubmoduleRequest:
        start = prefix(module_path)
        version = form.text(f"{start}version")
        given = {name: text for name, text in form.with_prefix(f"{start}parameter:").items() if text.strip()}
        return SubmoduleRequest(
            form.text(f"{start}revision") or None,
            int(version) if version.isascii() and version.isdecimal() and len(version) < 10 else None,
            given,
            {},
        )

    return find


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleForm:
    """What a form of a launch or reconfiguration is made from: the root module, and what holds of it before."""

    application: Application
    manifest: CompiledManifest
    parameters: Mapping[str, Any]
    submodules: Mapping[str, Any]


async def submodule_groups(
    request: PageRequest, form: ModuleForm, parameters: Mapping[str, Any], environment_id: str | None
) -> list[SubmoduleGroup]:
    """Return the submodules of a form, with what was sent in it; `parameters` are those of the root, so far."""
    place = (request.ctx, form.application, form.manifest)
    shapes = await submodule_shapes(*place, form.parameters, environment_id, choices_from_request(form.submodules))
    before = shapes_by_path(shapes)
    if request.http.method != "POST":
        return build_groups(shapes, before, None)
    shapes = await submodule_shapes(*place, parameters, environment_id, choices_from_form(request.form))
    return build_groups(shapes, before, request.form)


def build_groups(
    shapes: Iterable[SubmoduleShape], before: Mapping[ModulePath, SubmoduleShape], form: Form | None
) -> list[SubmoduleGroup]:
    """Return the groups of a form, with what was sent where something was.

    `before` are the submodules as they were when the form was first shown: a secret stays in the one application alone
    that it was given to.
    """
    return [_group(shape, before, form) for shape in shapes]


def shapes_by_path(shapes: Iterable[SubmoduleShape]) -> dict[ModulePath, SubmoduleShape]:
    """Return submodules at all levels by their ways."""
    found: dict[ModulePath, SubmoduleShape] = {}
    for shape in shapes:
        found |= {shape.path: shape, **shapes_by_path(shape.inside)}
    return found


def request_of(groups: Iterable[SubmoduleGroup]) -> dict[str, Any]:
    """Return the `submodules` of a request, without what is left to defaults."""
    found: dict[str, Any] = {}
    for group in groups:
        asked = group.shape.choice
        parts = {
            "revisionId": asked.revision_id,
            "manifestVersion": asked.manifest_version,
            "parameters": values(group.fields, group.kept),
            "submodules": request_of(group.inside),
        }
        if present := {name: value for name, value in parts.items() if value}:
            found[group.shape.path[-1]] = present
    return found


def with_submodule_errors(
    groups: Sequence[SubmoduleGroup], sentences: Iterable[str]
) -> tuple[list[SubmoduleGroup], list[str]]:
    """Put each sentence about a submodule to it, and to its field; return the groups, and the other sentences."""
    rest = list(sentences)
    changed: list[SubmoduleGroup] = []
    for group in groups:
        inside, rest = with_submodule_errors(group.inside, rest)
        start = f"Submodule {group.path}: "
        own = [text.removeprefix(start) for text in rest if text.startswith(start)]
        own += [text for text in rest if f" submodule {group.path} " in text]
        rest = [text for text in rest if not text.startswith(start) and f" submodule {group.path} " not in text]
        fields, left = with_errors(group.fields, own)
        changed.append(replace(group, fields=fields, inside=inside, error=" ".join(left)))
    return changed, rest


def fields_in(groups: Iterable[SubmoduleGroup]) -> Iterator[Field]:
    """Yield the fields of all levels."""
    for group in groups:
        yield from group.fields
        yield from fields_in(group.inside)


def without_errors(groups: Iterable[SubmoduleGroup]) -> list[SubmoduleGroup]:
    """Return the groups before anybody has said that they are filled in."""
    return [
        replace(group, fields=[replace(each, error="") for each in group.fields], inside=without_errors(group.inside))
        for group in groups
    ]


def _group(shape: SubmoduleShape, before: Mapping[ModulePath, SubmoduleShape], form: Form | None) -> SubmoduleGroup:
    if shape.manifest is None:
        return SubmoduleGroup(shape=shape)
    former = before.get(shape.path)
    is_same = former is not None and former.application is not None and former.application == shape.application
    kept = former.choice.parameters if former is not None and is_same else {}
    given = kept if form is None else {name: value for name, value in kept.items() if name not in shape.mapped}
    fields = [
        _with_outside(each, shape.outside)
        for each in launch_fields(shape.manifest, given)
        if each.name not in shape.mapped
    ]
    if form is not None:
        fields = fill_fields(fields, form, f"{prefix(shape.path)}parameter:")
    return SubmoduleGroup(shape=shape, fields=fields, kept=kept, inside=build_groups(shape.inside, before, form))


def _with_outside(each: Field, deps: Mapping[str, Any]) -> Field:
    """Return a field whose default is what the module around the submodule, or the revision, brings."""
    if each.name not in deps:
        return each
    return replace(each, required=False, has_default=True, default=deps[each.name])
