"""What another version of a manifest changes in the code of its components, and the digests that tell it.

Values of configuration pins aren't code: they depend on the instance (`configuration.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from launchbay.manifest.graph import CompiledManifest, Step, Workflow
from launchbay.manifest.meaning import digest, meaning

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


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step that is `added`, `removed`, `changed` or `moved`; the lines are where it begins in each text."""

    name: str
    change: str
    old_line: int | None = None
    new_line: int | None = None


@dataclass(frozen=True, slots=True)
class WorkflowChange:
    """A workflow that is `added`, `removed` or `changed`: which of its own parts, and which steps."""

    name: str
    change: str
    parts: tuple[str, ...] = ()
    steps: tuple[StepChange, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeChange:
    """What differs of a component that is in both manifests, apart from values of its configuration pins.

    `parts` are of `interfaces`, `bindings`, `required`, `configuration`, `triggers`, `schedule`, `status`, `Scaler`.
    """

    path: str
    parts: tuple[str, ...] = ()
    workflows: tuple[WorkflowChange, ...] = ()


def digests(manifest: CompiledManifest) -> dict[str, dict[str, str]]:
    """Return, by path, the digests of each component (`component`) and of its workflows (`workflows.NAME`)."""
    return {
        path: {
            "component": digest(component),
            **{f"workflows.{name}": digest(workflow) for name, workflow in component.workflows.items()},
        }
        for path, component in manifest.components.items()
    }


def code_changes(before: CompiledManifest, after: CompiledManifest) -> dict[str, CodeChange]:
    """Return what differs in components that both manifests have, by path; not values of configuration pins."""
    found = {}
    for path, new in after.components.items():
        old = before.components.get(path)
        if old is None or old is new:
            continue
        parts = [shown for field, shown in _OF_COMPONENT.items() if _differs(old, new, field)]
        if _settings(before, path) != _settings(after, path):
            parts.append("configuration")
        workflows = tuple(_workflow_changes(old.workflows, new.workflows))
        if parts or workflows:
            found[path] = CodeChange(path, tuple(parts), workflows)
    return found


def _differs(old: object, new: object, field: str) -> bool:
    return meaning(getattr(old, field)) != meaning(getattr(new, field))


def _settings(manifest: CompiledManifest, path: str) -> str:
    """Return the configuration of a component that isn't the value of a pin."""
    pins = manifest.configuration_pins.get(path, {})
    own = manifest.components[path].configuration
    return meaning({key: value for key, value in own.items() if key not in pins})


def _workflow_changes(old: Mapping[str, Workflow], new: Mapping[str, Workflow]) -> Iterator[WorkflowChange]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield WorkflowChange(name, "added" if before is None else "removed")
        elif before != after:
            parts = tuple(part for part in _OF_WORKFLOW if _differs(before, after, part))
            yield WorkflowChange(name, "changed", parts, tuple(_step_changes(before, after)))


_StepKey: TypeAlias = tuple[str, str, int]


def _step_changes(before: Workflow, after: Workflow) -> Iterator[StepChange]:
    old, new = _steps(before), _steps(after)
    for key, step in old.items():
        if key not in new:
            yield StepChange(step.name, "removed", old_line=step.line)
    kept = [key for key in old if key in new]
    for place, key in enumerate(key for key in new if key in old):
        if old[key] != new[key]:
            yield StepChange(new[key].name, "changed", old[key].line, new[key].line)
        elif kept[place] != key:
            yield StepChange(new[key].name, "moved", old[key].line, new[key].line)
    for key, step in new.items():
        if key not in old:
            yield StepChange(step.name, "added", new_line=step.line)


def _steps(workflow: Workflow) -> dict[_StepKey, Step]:
    """Return steps by the list that they are in, their name, and their number among those of the same name."""
    found: dict[_StepKey, Step] = {}
    for list_name in ("steps", "on_failure", "finally_"):
        steps: Sequence[Step] = getattr(workflow, list_name)
        for step in steps:
            number = 0
            while (list_name, step.name, number) in found:
                number += 1
            found[list_name, step.name, number] = step
    return found


def step_lines(text: str, line: int) -> list[str]:
    """Return the lines of the step that begins at this line (the first is 1): all that are indented deeper."""
    lines = text.splitlines()[line - 1 :]
    if not lines:
        return []
    indent = _indent(lines[0])
    end = 1
    for at, each in enumerate(lines[1:], 1):
        if each.strip():
            if _indent(each) <= indent:
                break
            end = at + 1
    return lines[:end]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
