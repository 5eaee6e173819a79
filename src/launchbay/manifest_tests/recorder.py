"""Records the actions and dry-run commands that the steps of a test run.

Nothing leaves the process: an action with an effect needs an answer in the test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from launchbay.actions.contract import Action, ActionCall, ChangesRoles, Roles
from launchbay.actions.registry import Registry
from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.machines.dry_run import DryRun
from launchbay.manifest.graph import COMPUTE
from launchbay.model.machine import CommandResult, Machine, MachineSpec, RemoteCommand

ADDRESSES_OF_ONE = 16  # between the first addresses of two instances of a test
_PACKAGE = "launchbay test"
_HARMLESS = frozenset({"wait"})


@dataclass(frozen=True, slots=True)
class PerformedStep:
    """A step that ran an action. `component` is its path; `parameters` are those of the action."""

    component: str
    step: str
    action: str
    parameters: Mapping[str, Any]


@dataclass
class Recorder:
    """The steps that the current act has performed."""

    performed: list[PerformedStep] = field(default_factory=list)

    def record(self, path: str, action: str, parameters: Mapping[str, Any]) -> None:
        """Record the step at a path of a job's plan (`model/job.py`)."""
        component, _, rest = path.rpartition(">")[2].partition("#")
        self.performed.append(
            PerformedStep(unquote(component), unquote(rest.rpartition("/")[2]), action, dict(parameters))
        )


class RecordedAction:
    """An action on machines that records its calls; everything else is the inner action's."""

    on_machines = True

    def __init__(self, inner: Action, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self.name, self.aliases, self.pure = inner.name, inner.aliases, inner.pure
        self.parameters, self.outputs = inner.parameters, inner.outputs

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        self._recorder.record(call.context.step_path, self.name, call.parameters)
        return await self._inner.run(call)


class RecordedChange(RecordedAction):
    """A recorded action that also changes roles."""

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        assert isinstance(self._inner, ChangesRoles)
        self._inner.apply_outputs(outputs, roles)


def record_actions(actions: Registry, recorder: Recorder) -> Registry:
    """Return the actions, wrapped if they work on machines; `RecordedDryRun` records the others."""
    found: list[Action] = []
    for name in actions.names():
        action = actions.find(name)
        if action is not None and action.name == name:  # otherwise another spelling
            if getattr(action, "on_machines", False):
                action = (RecordedChange if isinstance(action, ChangesRoles) else RecordedAction)(action, recorder)
            found.append(action)
    return Registry((_PACKAGE, action) for action in found)


class RecordedDryRun(DryRun):
    """Dry-run machines that record commands. `answers` changes from act to act."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(network_offset=lambda instance_id: (int(instance_id, 16) - 1) * ADDRESSES_OF_ONE)
        self._recorder = recorder

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Record a machine that a component creates for itself."""
        if context.action == COMPUTE:
            self._recorder.record(context.path, context.action, spec.settings)
        return await super().provision(context, role, numbers, spec)

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Record a command that a component runs on its own machine."""
        if context.action == "exec":
            self._recorder.record(context.path, context.action, {"command": command.shown})
        return await super().run(context, machine, command)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        self._recorder.record(context.path, context.action, {"filename": name})
        await super().put_file(context, machine, name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        self._recorder.record(context.path, context.action, {"filename": name})
        return await super().get_file(context, machine, name)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer for an action with an effect. Raises ActionFailed if the test has none."""
        self._recorder.record(context.path, context.action, parameters)
        outputs = super().simulate(context, parameters)
        if outputs is None and context.action not in _HARMLESS:
            raise ActionFailed(
                f"Action {context.action!r} has no answer. "
                f"Add '- {{ action: {context.action}, give: {{ … }} }}' to 'answers'.",
                retryable=False,
            )
        return outputs
