"""What two manifests differ in, as a whole and in the code of components.

Values of configuration pins aren't code: they depend on the instance (`configuration.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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


def compare_manifests(
    before: CompiledManifest, after: CompiledManifest, texts: tuple[str, str] | None = None
) -> ManifestDifference:
    """Return all that two manifests differ in.

    That is nothing if and only if they are equal. With their two texts, steps have their source lines.
    """
    old, new = before.meant(), after.meant()
    defaults = list(_default_changes(old["defaults"], new["defaults"]))
    code = code_changes(before, after, texts)
    changed = {*code, *(each.component for each in defaults)}
    paths = _name_changes(before.components, after.components, lambda path: path in changed)

    def names(part: str) -> NameChanges:
        return _name_changes(old[part], new[part], lambda name: meaning(old[part][name]) != meaning(new[part][name]))

    return ManifestDifference(
        components=paths,
        parameters=names("parameters"),
        results=names("results"),
        commands=names("commands"),
        needs=names("needs"),
        concurrency=meaning(old["concurrency"]) != meaning(new["concurrency"]),
        checks=meaning(old["checks"]) != meaning(new["checks"]),
        kind=old["kind"] != new["kind"],
        defaults=defaults,
        code=list(code.values()),
    )


def _name_changes(old: Mapping[str, Any], new: Mapping[str, Any], differs: Callable[[str], bool]) -> NameChanges:
    return NameChanges(
        [name for name in new if name not in old],
        [name for name in old if name not in new],
        [name for name in new if name in old and differs(name)],
    )


_Defaults: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]


def _default_changes(before: _Defaults, after: _Defaults) -> Iterator[DefaultChange]:
    for path in (path for path in after if path in before):
        former, pins = before[path], after[path]
        for key in dict.fromkeys((*former, *pins)):
            old, new = former.get(key), pins.get(key)
            if meaning(old) != meaning(new):
                change = "added" if old is None else "removed" if new is None else "changed"
                values = [plain_data(each[0]) if each else None for each in (old, new)]
                yield DefaultChange(path, key, values[0], values[1], change)


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
        former, present = old.meant(), new.meant()
        parts = [part for part in present if part != "workflows" and meaning(former[part]) != meaning(present[part])]
        workflows = list(_workflow_changes(old.workflows, new.workflows, _Lines(*texts) if texts else None))
        if parts or workflows:
            found[path] = CodeChange(path, parts, workflows)
    return found


def _differs(old: object, new: object, field: str) -> bool:
    return meaning(getattr(old, field)) != meaning(getattr(new, field))


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
