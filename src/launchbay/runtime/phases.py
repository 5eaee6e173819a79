"""Which steps of a workflow may start (manifest-language §5, "Steps"). Pure."""

from collections.abc import Collection, Iterable

from launchbay.manifest.graph import Step

IMPLICIT_PROVISION = "provision"


def effective_phases(steps: Iterable[Step]) -> dict[str, str]:
    """Return each step's phase by step name.

    If nothing declares `provision` but a step is preceded by it, it means every step without an explicit phase and
    without preceding phases; a step without an explicit phase is one whose phase is its own name.
    """
    steps = tuple(steps)
    phases = {step.name: step.phase for step in steps}
    wanted = any(IMPLICIT_PROVISION in step.preceding_phases for step in steps)
    if wanted and IMPLICIT_PROVISION not in phases.values():
        for step in steps:
            if step.phase == step.name and not step.preceding_phases:
                phases[step.name] = IMPLICIT_PROVISION
    return phases


def ready_steps(
    waiting: Iterable[Step], unfinished: Collection[str], phases: dict[str, str], declared: dict[str, str]
) -> list[Step]:
    """Return the waiting steps that may start now.

    `unfinished` names the steps that are waiting or running. A step starts when no other unfinished step has one of its
    preceding phases; an unknown phase counts as finished. `declared` are the phases as written, which stay valid names
    beside the implicit one.
    """
    busy: dict[str, set[str]] = {}
    for name in unfinished:
        busy.setdefault(phases[name], set()).add(name)
        busy.setdefault(declared[name], set()).add(name)
    return [
        step for step in waiting if not any(busy.get(phase, set()) - {step.name} for phase in step.preceding_phases)
    ]
