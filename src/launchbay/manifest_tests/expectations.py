"""Compares what an act did with what was expected. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.machines.dry_run import fits
from launchbay.manifest_tests.recorder import PerformedStep
from launchbay.manifest_tests.suite import Expectation, Expected, ExpectedStep
from launchbay.model.instance import InstanceStatus

_SHOWN_CHARS = 300
_STEPS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The result of an act. `error` is that of its last failed job, or why the act was rejected."""

    status: InstanceStatus | None
    error: str | None
    values: Mapping[str, Any]
    performed_steps: Sequence[PerformedStep]
    workflows: Sequence[str]
    machines: Mapping[str, int]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference from what was expected, with the line of the expectation."""

    line: int
    text: str


def differences(expected: Expectation, observed: Observed, line: int) -> list[Difference]:
    """Return all differences; `line` is the line of the act, for those without an expectation."""
    return [
        *_ending(expected, observed, line),
        *_values(expected, observed),
        *_steps(expected.steps, observed.performed_steps),
        *_unwanted(expected.not_steps, observed.performed_steps),
        *_workflows(expected.workflows, observed),
        *_machines(expected.machines, observed),
        *_log(expected.log, observed.lines),
    ]


def _ending(expected: Expectation, observed: Observed, line: int) -> Iterator[Difference]:
    status, error = expected.status, expected.error
    if status is not None and status.value != observed.status:
        because = f": {observed.error}" if observed.error else "."
        found = "no instance" if observed.status is None else observed.status
        yield Difference(status.line, f"expected status {status.value}, found {found}{because}")
    if error is not None:
        if observed.error is None:
            yield Difference(error.line, f"expected an error like {error.value!r}, but the act succeeded.")
        elif not _is_in(error.value, observed.error):
            yield Difference(error.line, f"expected an error like {error.value!r}, found: {observed.error}")
    elif observed.error is not None and (
        status is None or (status.value == observed.status and status.value != InstanceStatus.FAILED)
    ):
        yield Difference(line, f"the act failed: {observed.error}")


def _values(expected: Expectation, observed: Observed) -> Iterator[Difference]:
    for name, value in expected.values.items():
        if name not in observed.values:
            yield Difference(value.line, _no_value(name, observed))
        elif observed.values[name] != value.value:
            found = _shown(observed.values[name])
            yield Difference(value.line, f"expected {name} to be {_shown(value.value)}, found {found}.")
    for name, pattern in expected.like.items():
        if name not in observed.values:
            yield Difference(pattern.line, _no_value(name, observed))
        elif not fits(pattern.value, _text(observed.values[name])):
            found = _shown(observed.values[name])
            yield Difference(pattern.line, f"expected {name} to be like {pattern.value!r}, found {found}.")


def _no_value(name: str, observed: Observed) -> str:
    known = ", ".join(sorted(observed.values)) or "none"
    return f"unknown return value {name}. Return values: {known}."


def _steps(expected: Sequence[ExpectedStep], performed: Sequence[PerformedStep]) -> Iterator[Difference]:
    """Yield a difference for the first expected step that didn't run in this order."""
    place = 0
    for step in expected:
        found = next((n for n in range(place, len(performed)) if _fits(step, performed[n])), None)
        if found is None:
            yield Difference(step.line, f"expected step {_describe(step)}{_instead(step, performed, place)}")
            return
        place = found + 1


def _fits(step: ExpectedStep, ran: PerformedStep) -> bool:
    return (
        fits(step.step, ran.step)
        and (step.component is None or fits(step.component, ran.component))
        and (step.action is None or step.action == ran.action)
        and all(_holds(ran.parameters.get(name), value) for name, value in step.parameters.items())
    )


def _holds(found: Any, wanted: Any) -> bool:
    """Return whether a parameter has the wanted value; a map may have more keys."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(_holds(found.get(name), value) for name, value in wanted.items())
    return bool(found == wanted)


def _describe(step: ExpectedStep) -> str:
    about = [f"of {step.component!r}"] if step.component else []
    about += [f"with action {step.action}"] if step.action else []
    about += [f"with {_shown(step.parameters)}"] if step.parameters else []
    return " ".join((repr(step.step), *about))


def _instead(step: ExpectedStep, performed: Sequence[PerformedStep], place: int) -> str:
    same = [ran for ran in performed[place:] if fits(step.step, ran.step)]
    if same and step.parameters:
        found = {name: same[0].parameters.get(name) for name in step.parameters}
        return f", but {same[0].step!r} of {same[0].component!r} ran as {same[0].action} with {_shown(found)}."
    names = [f"{ran.component}#{ran.step}" for ran in performed[place:]]
    more = f" and {len(names) - _STEPS_SHOWN} more" if len(names) > _STEPS_SHOWN else ""
    after = " after the previous one" if place else ""
    return f"{after}, but these ran: {', '.join(names[:_STEPS_SHOWN]) or 'none'}{more}."


def _unwanted(unwanted: Sequence[Expected], performed: Sequence[PerformedStep]) -> Iterator[Difference]:
    for pattern in unwanted:
        ran = next((each for each in performed if fits(pattern.value, each.step)), None)
        if ran is not None:
            yield Difference(pattern.line, f"step {ran.step!r} of {ran.component!r} ran, but must not.")


def _workflows(expected: Expected | None, observed: Observed) -> Iterator[Difference]:
    if expected is not None and expected.value != list(observed.workflows):
        found = ", ".join(observed.workflows) or "none"
        yield Difference(
            expected.line, f"expected workflows {', '.join(expected.value) or 'none'} to run, but these ran: {found}."
        )


def _machines(expected: Expected | None, observed: Observed) -> Iterator[Difference]:
    if expected is not None:
        wanted = Counter({role: count for role, count in expected.value.items() if count})
        if wanted != Counter(observed.machines):
            found = _shown(dict(observed.machines)) if observed.machines else "none"
            yield Difference(expected.line, f"expected machines {_shown(expected.value)}, found {found}.")


def _log(expected: Sequence[Expected], lines: Sequence[str]) -> Iterator[Difference]:
    for text in expected:
        if not any(_is_in(text.value, line) for line in lines):
            yield Difference(text.line, f"no log line is like {text.value!r}.")


def _is_in(pattern: str, text: str) -> bool:
    """Return whether the pattern, with `*` and `?`, matches a part of the text."""
    return fits(f"*{pattern}*", text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
