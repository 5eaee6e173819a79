"""Forms of submodules: made from what each of them takes, nested as they are, and read back into a request."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launchbay.console.form import Form
from launchbay.console.parameter_fields import Field, filled, launch_fields, values, with_errors
from launchbay.console.visit import Visit
from launchbay.manifest.graph import CompiledManifest
from launchbay.store.applications import Application
from launchbay.usecases.launch_request import SubmoduleRequest
from launchbay.usecases.submodule_shapes import Asked, SubmoduleShape, Way, submodule_shapes

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
        return prefix(self.shape.way)

    @property
    def path(self) -> str:
        """Its way, as messages name it."""
        return ".".join(self.shape.way)

    @property
    def is_open(self) -> bool:
        """Whether it is to be seen at once: something is asked of it, wrong with it, or required by it."""
        asked = self.shape.asked
        own = asked.revision_id or asked.manifest_version or asked.parameters or self.error
        return bool(own) or any(each.required or each.error for each in self.fields) or self._is_open_inside()

    def _is_open_inside(self) -> bool:
        return any(each.is_open for each in self.inside)


def prefix(way: Way) -> str:
    """Return what the names of the controls of a submodule begin with; no component has a slash in its name."""
    return f"{PREFIX}{'/'.join(way)}:"


def asked_by(request: Mapping[str, Any]) -> Asked:
    """Return what the `submodules` of a request ask, by the way of each; those of a revision may have short names."""

    def find(way: Way) -> SubmoduleRequest:
        inside: Mapping[str, Any] = {"submodules": request}
        for path in way:
            known = inside.get("submodules") or {}
            inside = known.get(path, known.get(path.rpartition(".")[2])) or {}
        return SubmoduleRequest(
            inside.get("revisionId"), inside.get("manifestVersion"), inside.get("parameters") or {}, {}
        )

    return find


def asked_in(form: Form) -> Asked:
    """Return what a form asks; versions and values are texts in it, and are checked when they are used."""

    def find(way: Way) -> SubmoduleRequest:
        start = prefix(way)
        version = form.text(f"{start}version")
        given = {name: text for name, text in form.below(f"{start}parameter:").items() if text.strip()}
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
    visit: Visit, form: ModuleForm, parameters: Mapping[str, Any], environment_id: str | None
) -> list[SubmoduleGroup]:
    """Return the submodules of a form, with what was sent in it; `parameters` are those of the root, so far."""
    place = (visit.desk, visit.actor, form.application, form.manifest)
    shapes = await submodule_shapes(*place, form.parameters, environment_id, asked_by(form.submodules))
    before = by_way(shapes)
    if visit.request.method != "POST":
        return groups_of(shapes, before, None)
    shapes = await submodule_shapes(*place, parameters, environment_id, asked_in(visit.form))
    return groups_of(shapes, before, visit.form)


def groups_of(
    shapes: Iterable[SubmoduleShape], before: Mapping[Way, SubmoduleShape], form: Form | None
) -> list[SubmoduleGroup]:
    """Return the groups of a form, with what was sent where something was.

    `before` are the submodules as they were when the form was first shown: a secret stays in the one application alone
    that it was given to.
    """
    return [_group(shape, before, form) for shape in shapes]


def by_way(shapes: Iterable[SubmoduleShape]) -> dict[Way, SubmoduleShape]:
    """Return submodules at all levels by their ways."""
    found: dict[Way, SubmoduleShape] = {}
    for shape in shapes:
        found |= {shape.way: shape, **by_way(shape.inside)}
    return found


def request_of(groups: Iterable[SubmoduleGroup]) -> dict[str, Any]:
    """Return the `submodules` of a request, without what is left to defaults."""
    found: dict[str, Any] = {}
    for group in groups:
        asked = group.shape.asked
        parts = {
            "revisionId": asked.revision_id,
            "manifestVersion": asked.manifest_version,
            "parameters": values(group.fields, group.kept),
            "submodules": request_of(group.inside),
        }
        if present := {name: value for name, value in parts.items() if value}:
            found[group.shape.way[-1]] = present
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


def _group(shape: SubmoduleShape, before: Mapping[Way, SubmoduleShape], form: Form | None) -> SubmoduleGroup:
    if shape.manifest is None:
        return SubmoduleGroup(shape=shape)
    former = before.get(shape.way)
    is_same = former is not None and former.application is not None and former.application == shape.application
    kept = former.asked.parameters if former is not None and is_same else {}
    given = kept if form is None else {name: value for name, value in kept.items() if name not in shape.mapped}
    fields = [
        _with_outside(each, shape.outside)
        for each in launch_fields(shape.manifest, given)
        if each.name not in shape.mapped
    ]
    if form is not None:
        fields = filled(fields, form, f"{prefix(shape.way)}parameter:")
    return SubmoduleGroup(shape=shape, fields=fields, kept=kept, inside=groups_of(shape.inside, before, form))


def _with_outside(each: Field, outside: Mapping[str, Any]) -> Field:
    """Return a field whose default is what the module around the submodule, or the revision, brings."""
    if each.name not in outside:
        return each
    return replace(each, required=False, has_default=True, default=outside[each.name])
