"""What differs in the code of a component between two manifests."""

import msgspec

_NAMED_STEPS = 5


class StepChange(msgspec.Struct, frozen=True):
    """A step that is `added`, `removed`, `changed` or `moved`.

    The lines say where it begins in the two texts. `diff` has its source lines, each after `+ `, `- ` or two spaces.
    """

    name: str
    change: str
    from_line: int | None = msgspec.field(default=None, name="fromLine")
    to_line: int | None = msgspec.field(default=None, name="toLine")
    diff: list[str] = []


class WorkflowChange(msgspec.Struct, frozen=True):
    """A workflow that is `added`, `removed` or `changed`.

    `parts` are those of its own that differ, such as `timeout`.
    """

    name: str
    change: str
    parts: list[str] = []
    steps: list[StepChange] = []


class CodeChange(msgspec.Struct, frozen=True):
    """What differs of a component that is in both manifests, without values of pins.

    `parts` are of `type`, `interfaces`, `bindings`, `required`, `configuration`, `triggers`, `schedule`, `status`,
    `Scaler` and `checks`.
    """

    path: str
    parts: list[str] = []
    workflows: list[WorkflowChange] = []

    @property
    def sentence(self) -> str:
        """What differs in one line, such as `workflow launch (step Rest), triggers`."""
        return ", ".join([*(f"workflow {_shown(each)}" for each in self.workflows), *self.parts])


def _shown(workflow: WorkflowChange) -> str:
    if workflow.change != "changed":
        return f"{workflow.name} {workflow.change}"
    names = list(dict.fromkeys(step.name for step in workflow.steps))
    more = [f"and {len(names) - _NAMED_STEPS} more"] if len(names) > _NAMED_STEPS else []
    steps = [f"step{'' if len(names) == 1 else 's'} {', '.join([*names[:_NAMED_STEPS], *more])}"] if names else []
    return f"{workflow.name} ({', '.join([*workflow.parts, *steps])})"
