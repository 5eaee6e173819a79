"""Form fields for parameters: created from a manifest, and read back into values (manifest-language §3)."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from launchbay.console.forms import FIX_FIELDS, Form, has_lines, is_unchanged, parse_number
from launchbay.console.rendering import compact, pretty
from launchbay.console.request import PageRequest
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.manifest.graph import ApplicationPin, CompiledManifest, WorkflowParameter
from launchbay.model.redaction import is_secret_name
from launchbay.model.types import BOOL, DOUBLE, INT, OBJECT, STRING, ListType, MapType, Type
from launchbay.model.values import CoercionError, coerce, coerce_text
from launchbay.planning.names import LAUNCH
from launchbay.store.applications import Application
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.jobs import JobDetails
from launchbay.usecases.launch_request import SubmoduleRequest
from launchbay.usecases.preview import Preview
from launchbay.usecases.submodule_shapes import ModulePath, SubmoduleChoices, SubmoduleShape, submodule_shapes

Control = Literal["text", "number", "choice", "block"]
PARAMETER = "parameter:"  # prefix of the names of the root module's fields
ARGUMENT = "argument:"  # prefix of the names of the fields of a workflow or command
RENEW_FIELDS = "fields"  # shows the fields of another choice, without errors for missing values
_REQUIRED = "Missing required parameter."


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One parameter on a form. An empty `value` means the default."""

    name: str
    label: str
    declared: Type | None
    required: bool = False
    has_default: bool = False
    default: Any = None
    description: str = ""
    suggestions: Mapping[str, Any] = field(default_factory=dict)
    value: str = ""
    given: tuple[Any, ...] = ()  # the stored value, if there is one
    is_kept: bool = False  # a stored secret, which an empty field leaves unchanged
    is_unchanged: bool = False  # the stored value came back as it was shown
    error: str = ""
    is_sealed: bool = False  # declared as a secret, regardless of its name

    @property
    def type(self) -> str:
        return "any type" if self.declared is None else str(self.declared)

    @property
    def takes(self) -> str:
        """What a text for a type without a control of its own becomes; "" for other types."""
        if self.declared is None:
            return "Takes any text."
        if self.declared == OBJECT:
            return (
                "Takes text or JSON: a list, an object, and a number, true, false or null exactly as JSON writes it. "
                "Other text stays as it is, such as 1.10."
            )
        if isinstance(self.declared, ListType):
            return (
                "Takes a JSON list, such as [1, 2]."
                if self.declared.item in {INT, DOUBLE}
                else 'Takes a JSON list, such as ["a", "b"].'
            )
        return 'Takes a JSON object, such as {"name": "value"}.' if isinstance(self.declared, MapType) else ""

    @property
    def control(self) -> Control:
        if self.declared == BOOL:
            return "choice"
        if self.declared in {INT, DOUBLE}:
            return "number"
        return "text" if self.declared in {STRING, None} and not has_lines(self.value) else "block"

    @property
    def is_secret(self) -> bool:
        return self.is_sealed or is_secret_name(self.name)

    @property
    def shown(self) -> str:
        """The text that a page has: never that of a secret."""
        return "" if self.is_secret else self.value

    @property
    def is_left_out(self) -> bool:
        """Whether the page leaves out what was typed."""
        return self.shown != self.value

    @property
    def default_text(self) -> str:
        return "" if self.default is None or self.is_secret else compact(self.default)

    @property
    def placeholder(self) -> str:
        return "Unchanged" if self.is_kept else self.default_text

    @property
    def options(self) -> list[tuple[str, str]]:
        """The suggested values with their labels; for a choice, all values."""
        if self.declared == BOOL:
            return [("true", "true"), ("false", "false")]
        return [(compact(value), label) for label, value in self.suggestions.items()]


def launch_fields(manifest: CompiledManifest, given: Mapping[str, Any] | None = None) -> list[Field]:
    """Return the fields for the parameters of a launch or reconfiguration, filled with the given values."""
    given = given or {}
    return [_of_pin(manifest, name, pin, given) for name, pin in manifest.parameters.items()]


def workflow_fields(manifest: CompiledManifest, workflow: str, required: Container[str] = ()) -> list[Field]:
    """Return the fields for the arguments of a command; launch and destroy have none.

    `required` are the names of the arguments without which the workflow doesn't run.
    """
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
    return [_of_argument(name, kind, details.get(name), required=name in required) for name, kind in declared.items()]


def resume_fields(manifest: CompiledManifest, record: InstanceRecord, job: JobDetails) -> list[Field]:
    """Return the fields of a resumption, with their present values."""
    if job.plan.kind == "launch":
        return launch_fields(manifest, msgspec.json.decode(record.parameters))
    if job.plan.kind != "command":
        return []
    given = job.plan.arguments
    shown = job.redactor.value(given)
    return [
        replace(
            each,
            required=False,
            value=field_text(given[each.name]) if each.name in given and shown[each.name] == given[each.name] else "",
            given=(given[each.name],) if each.name in given and shown[each.name] == given[each.name] else (),
            is_kept=each.name in given and shown[each.name] != given[each.name],
        )
        for each in workflow_fields(manifest, job.plan.workflow)
    ]


def shared_resume_fields(manifest: CompiledManifest, workflow: str) -> list[Field]:
    """Return the fields of a resumption of many runs of a workflow.

    An empty field leaves each run its own value.
    """
    fields = launch_fields(manifest) if workflow == LAUNCH else workflow_fields(manifest, workflow)
    return [replace(each, required=False, is_kept=True) for each in fields]


def fill_fields(fields: Iterable[Field], form: Form, prefix: str) -> list[Field]:
    """Return the fields with the values of a form, and with an error for each invalid value."""
    return [_filled(each, form.raw(prefix + each.name)) for each in fields]


def values(fields: Iterable[Field], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values by name, without defaults and without fields that have errors."""
    found: dict[str, Any] = {}
    for each in fields:
        if each.error:
            continue
        if each.is_unchanged:
            found[each.name] = each.given[0]
        elif each.value != "":
            found[each.name] = each.value if each.declared is None else _value(each, each.declared)
        elif each.is_kept and kept is not None and each.name in kept:
            found[each.name] = kept[each.name]
    return found


def _value(each: Field, declared: Type) -> Any:
    """Return the value of a field with a text. What is shown for an `object` may be a number or a string."""
    for shown in (*each.given, *each.suggestions.values()) if declared == OBJECT else ():
        if each.value in {field_text(shown), compact(shown)}:
            return shown
    return coerce_text(declared, each.value)


def string_values(fields: Iterable[Field]) -> dict[str, str]:
    """Return the values as workflows accept them: as strings (reference §4, run)."""
    return {each.name: each.value for each in fields if each.value != "" and not each.error}


def with_errors(fields: Sequence[Field], messages: Iterable[str]) -> tuple[list[Field], list[str]]:
    """Add each message that names a parameter to its field. Return the fields and the other messages."""
    by_name = {each.name: each for each in fields}
    rest: list[str] = []
    for message in messages:
        named = next((name for name in by_name if f"'{name}'" in message or message.startswith(f"{name}:")), None)
        if named is None:
            rest.append(message)
        else:
            known = by_name[named].error
            by_name[named] = replace(by_name[named], error=f"{known} {message}".strip())
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
        value="" if secret_kept or name not in given else field_text(given[name]),
        given=() if secret_kept or name not in given else (given[name],),
        is_kept=secret_kept,
    )


def _of_argument(name: str, declared: Type | None, detail: WorkflowParameter | None, *, required: bool) -> Field:
    if detail is None:
        return Field(name=name, label=name, declared=declared, required=required)
    return Field(
        name=name,
        label=name,
        declared=declared,
        required=required,
        has_default=detail.has_default,
        default=detail.default,
        description=detail.description or "",
        suggestions=detail.suggestions or {},
    )


def _filled(each: Field, value: str) -> Field:
    """Return the field with a text as typed: spaces are part of a string.

    A stored value that comes back as it was shown stays, also where its text could be another value.
    """
    if each.given and is_unchanged(each.value, value) and _fits(each):
        return replace(each, is_unchanged=True)
    if value.strip() == "":
        return replace(each, value="", error=_REQUIRED if each.required and not each.is_kept else "")
    error = ""
    if each.declared is not None:
        try:
            coerce_text(each.declared, value)
        except CoercionError as problem:
            error = str(problem)
    return replace(each, value=value, error=error)


def _fits(each: Field) -> bool:
    """Whether the stored value still has the type: another version may declare another one."""
    try:
        if each.declared is not None:
            coerce(each.declared, each.given[0])
    except CoercionError:
        return False
    return True


def field_text(value: Any) -> str:
    """Return a value as the text of its field: lists and objects as JSON on several lines."""
    return pretty(value) if isinstance(value, dict | list) else compact(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmoduleGroup:
    """One submodule on a form. `kept` are the stored secrets, which empty fields leave unchanged.

    `is_own`: the form asks for an own child instead of the shared instance that it was before.
    """

    shape: SubmoduleShape
    fields: list[Field] = field(default_factory=list)
    kept: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    is_own: bool = False
    children: "list[SubmoduleGroup]" = field(default_factory=list)

    @property
    def id(self) -> str:
        return prefix(self.shape.path)

    @property
    def path(self) -> str:
        return ".".join(self.shape.path)

    @property
    def is_open(self) -> bool:
        """Whether it is shown open: it has a choice, an error, or a required field."""
        choice = self.shape.choice
        return (
            bool(choice.revision_id or choice.manifest_version or choice.parameters or self.error)
            or any(each.required or each.error for each in self.fields)
            or any(each.is_open for each in self.children)
        )


def prefix(path: ModulePath) -> str:
    """Return the prefix of the names of a submodule's controls; component names contain no slash."""
    return f"submodule:{'/'.join(path)}:"


def choices_from_request(request: Mapping[str, Any]) -> SubmoduleChoices:
    """Return the choices in the `submodules` of a request, by path. A revision may have short names."""

    def find(module_path: ModulePath) -> SubmoduleRequest:
        found: Mapping[str, Any] = {"submodules": request}
        for path in module_path:
            known = found.get("submodules") or {}
            found = known.get(path, known.get(path.rpartition(".")[2])) or {}
        parameters = found.get("parameters") or {}
        return SubmoduleRequest(found.get("revisionId"), found.get("manifestVersion"), parameters, {})

    return find


def choices_from_form(form: Form) -> SubmoduleChoices:
    """Return the choices in a form. Versions and values are strings, and checked when used."""

    def find(module_path: ModulePath) -> SubmoduleRequest:
        start = prefix(module_path)
        given = {name: text for name, text in form.with_prefix(f"{start}parameter:").items() if text.strip()}
        version = parse_number(form.text(f"{start}version"))
        return SubmoduleRequest(form.text(f"{start}revision") or None, version, given, {})

    return find


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleForm:
    """The root module of a form, with its parameters and submodules before the change."""

    application: Application
    manifest: CompiledManifest
    parameters: Mapping[str, Any]
    submodules: Mapping[str, Any]


async def submodule_groups(
    request: PageRequest, form: ModuleForm, parameters: Mapping[str, Any], environment_id: str | None
) -> list[SubmoduleGroup]:
    """Return the submodules of a form, filled from the request; `parameters` are the root's, so far."""
    root = (request.ctx, form.application, form.manifest)
    shapes = await submodule_shapes(*root, form.parameters, environment_id, choices_from_request(form.submodules))
    before = shapes_by_path(shapes)
    if request.http.method != "POST":
        return build_groups(shapes, before, None)
    shapes = await submodule_shapes(*root, parameters, environment_id, choices_from_form(request.form))
    return build_groups(shapes, before, request.form)


def build_groups(
    shapes: Iterable[SubmoduleShape], before: Mapping[ModulePath, SubmoduleShape], form: Form | None
) -> list[SubmoduleGroup]:
    """Return the groups of a form; `form` is None before it is sent.

    `before` are the submodules before the change: a stored secret stays only if the application is the same.
    """
    return [_group(shape, before, form) for shape in shapes]


def shapes_by_path(shapes: Iterable[SubmoduleShape]) -> dict[ModulePath, SubmoduleShape]:
    found: dict[ModulePath, SubmoduleShape] = {}
    for shape in shapes:
        found |= {shape.path: shape, **shapes_by_path(shape.inside)}
    return found


def request_of(groups: Iterable[SubmoduleGroup]) -> dict[str, Any]:
    """Return the `submodules` of a request, without defaults."""
    found: dict[str, Any] = {}
    for group in groups:
        choice = group.shape.choice
        members = {
            "revisionId": choice.revision_id,
            "manifestVersion": choice.manifest_version,
            "parameters": values(group.fields, group.kept),
            "submodules": request_of(group.children),
        }
        present: dict[str, Any] = {name: value for name, value in members.items() if value}
        if group.is_own:
            present["revisionId"] = None
        if present:
            found[group.shape.path[-1]] = present
    return found


def with_submodule_errors(
    groups: Sequence[SubmoduleGroup], messages: Iterable[str]
) -> tuple[list[SubmoduleGroup], list[str]]:
    """Add each message about a submodule to it or its field. Return the groups and the other messages."""
    rest = list(messages)
    changed: list[SubmoduleGroup] = []
    for group in groups:
        children, rest = with_submodule_errors(group.children, rest)
        start = f"Submodule {group.path}: "
        own = [text.removeprefix(start) for text in rest if text.startswith(start)]
        own += [text for text in rest if f" submodule {group.path} " in text]
        rest = [text for text in rest if not text.startswith(start) and f" submodule {group.path} " not in text]
        fields, left = with_errors(group.fields, own)
        changed.append(replace(group, fields=fields, children=children, error=" ".join(left)))
    return changed, rest


def fields_in(groups: Iterable[SubmoduleGroup]) -> Iterator[Field]:
    """Yield the fields of all levels."""
    for group in groups:
        yield from group.fields
        yield from fields_in(group.children)


def without_errors(groups: Iterable[SubmoduleGroup]) -> list[SubmoduleGroup]:
    return [
        replace(group, fields=_without_field_errors(group.fields), children=without_errors(group.children))
        for group in groups
    ]


def _without_field_errors(fields: Iterable[Field]) -> list[Field]:
    return [replace(each, error="") for each in fields]


@dataclass(slots=True, kw_only=True)
class Draft:
    """A launch or reconfiguration that is being filled in; `problems` are the messages that belong to no field."""

    version: int
    fields: list[Field]
    submodules: list[SubmoduleGroup]
    problems: list[str] = field(default_factory=list)
    preview: Preview | None = None

    @property
    def has_field_errors(self) -> bool:
        return any(each.error for each in (*self.fields, *fields_in(self.submodules)))

    def place_errors(self, messages: Iterable[str]) -> None:
        """Add each message to the submodule or field that it is about."""
        self.submodules, rest = with_submodule_errors(self.submodules, messages)
        self.fields, self.problems = with_errors(self.fields, rest)

    def clear_errors(self) -> None:
        self.fields = _without_field_errors(self.fields)
        self.submodules = without_errors(self.submodules)

    def problem(self, error: LaunchbayError | None) -> LaunchbayError | None:
        """Return what the page shows above the form; `error` is why the request failed, if it did."""
        if self.problems:
            return BadRequest(*self.problems, field="" if error is None else error.field)
        return BadRequest(FIX_FIELDS) if error is not None or self.has_field_errors else None


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
    was_shared = former is not None and former.shared_id is not None
    return SubmoduleGroup(
        shape=shape,
        fields=fields,
        kept=kept,
        is_own=form is not None and was_shared and shape.choice.revision_id is None,
        children=build_groups(shape.inside, before, form),
    )


def _with_outside(each: Field, outside: Mapping[str, Any]) -> Field:
    """Return the field with the default that the outer module or the revision sets."""
    if each.name not in outside:
        return each
    return replace(each, required=False, has_default=True, default=outside[each.name])
