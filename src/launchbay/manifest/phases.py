"""Which steps of a workflow can ever start (manifest-language §5, "Steps")."""

from collections.abc import Sequence

IMPLICIT_PHASE = "provision"  # where no step declares it, it means every step without a phase and preceding phases


def stuck_steps(steps: Sequence[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Return the names of steps, each given as (name, phase, preceding phases), that can never start.

    A step starts when no other unfinished step has one of its preceding phases; a step's own place in such a phase does
    not hold it up. Takes time in proportion to the number of steps and phases.
    """
    unfinished: dict[str, int] = {}
    for _, phase, _ in steps:
        unfinished[phase] = unfinished.get(phase, 0) + 1
    waiting: dict[str, list[int]] = {}
    blocked: list[int] = []
    ready: list[int] = []
    for number, (_, phase, preceding) in enumerate(steps):
        blockers = [name for name in dict.fromkeys(preceding) if unfinished.get(name, 0) > (name == phase)]
        for name in blockers:
            waiting.setdefault(name, []).append(number)
        blocked.append(len(blockers))
        if not blockers:
            ready.append(number)
    while ready:
        phase = steps[ready.pop()][1]
        unfinished[phase] -= 1
        if unfinished[phase] > 1:
            continue
        # With one step left in the phase only that step comes free, if it waits for its own phase; with none, all do.
        for number in waiting.get(phase, ()):
            if (steps[number][1] == phase) == (unfinished[phase] == 1):
                blocked[number] -= 1
                if blocked[number] == 0:
                    ready.append(number)
    return [name for number, (name, _, _) in enumerate(steps) if blocked[number]]
