"""What two manifests differ in, as a whole and in the code of components.

Values of configuration pins aren't code: they depend on the instance (`configuration.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, TypeAlias

from launchbay.manifest.expressions import plain_data
from launchbay.manifest.graph import CompiledManifest, Step, Workflow
from launchbay.manifest.meaning import meaning
from launchbay.model.code_change import CodeChange, StepChange, WorkflowChange
from launchbay.model.manifest_difference import DefaultChange, ManifestDifference, NameChanges

_DIFF_LINES = 60  # of a step
_COMPARED_LINES = 400  # of a step on each side: comparing takes the square of it
_OF_WORKFLOW = ("parameters", "returns", "timeout", "concurrency")
# What a component has beside its workflows and the values of its configuration pins, as messages call it.
_OF_COMPONENT = {
    "type": "type",
    "pins": "interfaces",
    "peers": "bindings",
    "required": "required",
    "triggers": "triggers",
    "schedule": "schedule",
    "propagate_status": "status",
    "scaler": "Scaler",
}


def compare_manifests(
    before: CompiledManifest, after: CompiledManifest, texts: tuple[str, str] | None = None
) -> ManifestDifference:
    """Return all that two manifests differ in.

    With their two texts, steps have their source lines.
    """

    def names(field: str) -> NameChanges:
        return _name_changes(getattr(before, field), getattr(after, field))

    return ManifestDifference(
        components=names("components"),
        parameters=names("parameters"),
        results=names("results"),
        commands=names("commands"),
        needs=names("needs"),
        concurrency=_differs(before, after, "concurrency"),
        defaults=list(_default_changes(before, after)),
        code=list(code_changes(before, after, texts).values()),
    )


def _name_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> NameChanges:
    return NameChanges(
        [name for name in new if name not in old],
        [name for name in old if name not in new],
        [name for name in new if name in old and meaning(old[name]) != meaning(new[name])],
    )


def _default_changes(before: CompiledManifest, after: CompiledManifest) -> Iterator[DefaultChange]:
    for path, pins in after.configuration_pins.items():
        if path not in before.components:
            continue
        former = before.configuration_pins.get(path, {})
        for key in dict.fromkeys((*former, *pins)):
            old, new = (each.get(key) for each in (former, pins))
            values = [None if each is None or not each.has_default else each.default for each in (old, new)]
            if meaning(values[0]) != meaning(values[1]):
                yield DefaultChange(path, key, *(plain_data(each) for each in values))


def code_changes(
    before: CompiledManifest, after: CompiledManifest, texts: tuple[str, str] | None = None
) -> dict[str, CodeChange]:
    """Return what differs in components that both manifests have, by path.

    Values of configuration pins don't count. With their two texts, steps have their source lines.
    """
    found = {}
    for path, new in after.components.items():
        old = before.components.get(path)
        if old is None or old is new:
            continue
        parts = [shown for field, shown in _OF_COMPONENT.items() if _differs(old, new, field)]
        if _settings(before, path) != _settings(after, path):
            parts.append("configuration")
        workflows = list(_workflow_changes(old.workflows, new.workflows, _Lines(*texts) if texts else None))
        if parts or workflows:
            found[path] = CodeChange(path, parts, workflows)
    return found


def _differs(old: object, new: object, field: str) -> bool:
    return meaning(getattr(old, field)) != meaning(getattr(new, field))


def _settings(manifest: CompiledManifest, path: str) -> str:
    """Return the configuration of a component that isn't the value of a pin."""
    pins = manifest.configuration_pins.get(path, {})
    own = manifest.components[path].configuration
    return meaning({key: value for key, value in own.items() if key not in pins})


class _Lines:
    """The lines of both texts."""

    def __init__(self, before: str, after: str) -> None:
        self._before = before.splitlines()
        self._after = after.splitlines()

    def diff(self, old: Step | None, new: Step | None) -> list[str]:
        """Return the source lines of a step that differs, without its indentation."""
        before = [] if old is None else step_lines(self._before, old.line)
        after = [] if new is None else step_lines(self._after, new.line)
        if max(len(before), len(after)) > _COMPARED_LINES:
            return [f"  … {len(before)} lines before, {len(after)} lines after"]
        found = list(islice(_diff(before, after), _DIFF_LINES + 1))
        return [*found[:_DIFF_LINES], "  …"] if len(found) > _DIFF_LINES else found


def _diff(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for tag, first, end, new_first, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f"  {line}" for line in before[first:end])
        else:
            yield from (f"- {line}" for line in before[first:end])
            yield from (f"+ {line}" for line in after[new_first:new_end])


def _workflow_changes(
    old: Mapping[str, Workflow], new: Mapping[str, Workflow], lines: _Lines | None
) -> Iterator[WorkflowChange]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield WorkflowChange(name, "added" if before is None else "removed")
        elif before != after:
            parts = [part for part in _OF_WORKFLOW if _differs(before, after, part)]
            yield WorkflowChange(name, "changed", parts, list(_step_changes(before, after, lines)))


_StepKey: TypeAlias = tuple[str, str, int]


def _step_changes(before: Workflow, after: Workflow, lines: _Lines | None) -> Iterator[StepChange]:
    old, new = _steps(before), _steps(after)

    def changed(change: str, one: Step | None, other: Step | None) -> StepChange:
        step = one if other is None else other
        assert step is not None
        return StepChange(
            step.name,
            change,
            None if one is None else one.line,
            None if other is None else other.line,
            [] if lines is None or change == "moved" else lines.diff(one, other),
        )

    for key, step in old.items():
        if key not in new:
            yield changed("removed", step, None)
    kept = [key for key in old if key in new]
    for place, key in enumerate(key for key in new if key in old):
        if old[key] != new[key]:
            yield changed("changed", old[key], new[key])
        elif kept[place] != key:
            yield changed("moved", old[key], new[key])
    for key, step in new.items():
        if key not in old:
            yield changed("added", None, step)


def _steps(workflow: Workflow) -> dict[_StepKey, Step]:
    """Return steps by list and name, and by number among those of the same name."""
    found: dict[_StepKey, Step] = {}
    for list_name in ("steps", "on_failure", "finally_"):
        steps: Sequence[Step] = getattr(workflow, list_name)
        for step in steps:
            number = 0
            while (list_name, step.name, number) in found:
                number += 1
            found[list_name, step.name, number] = step
    return found


def step_lines(lines: Sequence[str], line: int) -> list[str]:
    """Return the lines of the step that begins at this line.

    The first line is 1. Their common indentation is left out. They are all that
    follow and are indented deeper: none for a line that the text doesn't have.
    """
    rest = lines[line - 1 :]
    if not rest:
        return []
    indent = _indent(rest[0])
    end = 1
    for at, each in enumerate(rest[1:], 1):
        if each.strip():
            if _indent(each) <= indent:
                break
            end = at + 1
    return [each[indent:] for each in rest[:end]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
