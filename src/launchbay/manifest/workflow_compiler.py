"""Typed workflows to runnable ones: their expressions compiled, their phases filled in (manifest-language §5)."""

from collections.abc import Mapping, Sequence
from typing import Any

from launchbay.manifest.graph import Step, Workflow, WorkflowParameter
from launchbay.manifest.phases import IMPLICIT_PHASE
from launchbay.manifest.syntax import ParameterSyntax, StepSyntax, WorkflowSyntax
from launchbay.manifest.templates import Templates
from launchbay.model.values import CoercionError, coerce


def compile_workflows(
    workflows: Mapping[str, WorkflowSyntax], title: str, templates: Templates
) -> Mapping[str, Workflow]:
    """Return runnable workflows by name; expressions that are malformed become findings."""
    return {name: _workflow(workflow, title, templates) for name, workflow in workflows.items()}


def _workflow(syntax: WorkflowSyntax, title: str, templates: Templates) -> Workflow:
    where = f"{title}: workflow '{syntax.name}'"
    implied = _implied(syntax.steps)
    return Workflow(
        syntax.name,
        {name: _parameter(parameter) for name, parameter in syntax.parameters.items()},
        tuple(_step(step, _preceding(step, implied), where, templates) for step in syntax.steps),
        {
            name: templates.of(entry.value, f"{where}: the return value '{name}'")
            for name, entry in syntax.returns.items()
        },
    )


def _parameter(syntax: ParameterSyntax) -> WorkflowParameter:
    return WorkflowParameter(
        syntax.name, syntax.type, syntax.has_default, _default(syntax), syntax.description, syntax.suggestions
    )


def _default(syntax: ParameterSyntax) -> Any:
    """Return the default as its type where that loses nothing (language §3, Types)."""
    if syntax.type is None or syntax.default is None:
        return syntax.default
    try:
        return coerce(syntax.type, syntax.default)
    except CoercionError:
        return syntax.default


def _implied(steps: Sequence[StepSyntax]) -> tuple[str, ...]:
    """Return the phases that the implicit phase stands for: itself where a step declares it, else names of steps."""
    if any((step.phase or step.name) == IMPLICIT_PHASE for step in steps):
        return (IMPLICIT_PHASE,)
    return tuple(step.name for step in steps if step.phase is None and not step.preceding_phases)


def _preceding(step: StepSyntax, implied: tuple[str, ...]) -> tuple[str, ...]:
    """Return the step's preceding phases, with the implicit one written out."""
    phases = tuple(phase.text for phase in step.preceding_phases)
    if IMPLICIT_PHASE not in phases:
        return phases
    return (*(phase for phase in phases if phase != IMPLICIT_PHASE), *implied)


def _step(syntax: StepSyntax, preceding: tuple[str, ...], where: str, templates: Templates) -> Step:
    what = f"{where}: step '{syntax.name}'"
    return Step(
        syntax.name,
        "" if syntax.action is None else syntax.action.text,
        syntax.phase or syntax.name,
        preceding,
        templates.of_map(syntax.parameters, what),
        syntax.outputs,
        None if syntax.retry_count is None else templates.of(syntax.retry_count, what),
        None if syntax.ignore_fail is None else templates.of(syntax.ignore_fail, what),
        syntax.line,
    )
