"""Which steps of a workflow may start (manifest-language §5, "Steps"). Pure."""

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
