"""The order of the steps of a workflow (manifest-language §5, "Steps"). Pure."""

from collections.abc import Iterable

from launchbay.manifest.graph import Step


def ready_steps(waiting: Iterable[Step], running: Iterable[Step]) -> list[Step]:
    """Return the waiting steps that may start now.

    A step starts when no other unfinished step, waiting or running, has one of its preceding phases; a phase that
    nobody declares counts as finished.
    """
    waiting = list(waiting)
    busy: dict[str, int] = {}
    for step in (*waiting, *running):
        busy[step.phase] = busy.get(step.phase, 0) + 1

    def is_ready(step: Step) -> bool:
        return all(busy.get(phase, 0) == (phase == step.phase) for phase in set(step.preceding_phases))

    return [step for step in waiting if is_ready(step)]


def rounds(steps: Iterable[Step]) -> dict[str, int]:
    """Return for each step that can ever start the round it would run in if all steps took the same time."""
    waiting = list(steps)
    found: dict[str, int] = {}
    number = 0
    while ready := ready_steps(waiting, ()):
        found.update((step.name, number) for step in ready)
        waiting = [step for step in waiting if step.name not in found]
        number += 1
    return found
