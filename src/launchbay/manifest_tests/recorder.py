"""Which steps of a test did something, and with what: seen where actions and dry-run machines are called.

Nothing leaves the process. An action that would really do something needs an answer of the test.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from launchbay.actions.contract import Action, ActionCall, ActionParameter, ChangesRoles, Roles
from launchbay.actions.registry import Registry
from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.machines.dry_run import Answers, DryRun
from launchbay.manifest.graph import COMPUTE
from launchbay.model.machine import CommandResult, Machine, MachineSpec, RemoteCommand

ADDRESSES_OF_ONE = 16  # between the first addresses of two instances of a test
_PACKAGE = "launchbay test"
_HARMLESS = frozenset({"wait"})


@dataclass(frozen=True, slots=True)
class PerformedStep:
    """A step that did something. `component` is its path, and `parameters` are as the action got them."""

    component: str
    step: str
    action: str
    parameters: Mapping[str, Any]


@dataclass
class Recorder:
    """What has been seen since the last act began."""

    performed: list[PerformedStep] = field(default_factory=list)

    def record(self, path: str, action: str, parameters: Mapping[str, Any]) -> None:
        """Note the step at a path of a job's plan (`model/job.py`)."""
        component, _, rest = path.rpartition(">")[2].partition("#")
        self.performed.append(
            PerformedStep(unquote(component), unquote(rest.rpartition("/")[2]), action, dict(parameters))
        )


@dataclass(frozen=True)
class RecordedAction:
    """An action that works on machines, watched."""

    inner: Action
    recorder: Recorder
    on_machines: bool = True

    @property
    def name(self) -> str:
        """The name as written in a manifest."""
        return self.inner.name

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other spellings of the name."""
        return self.inner.aliases

    @property
    def pure(self) -> bool:
        """True when nothing outside changes."""
        return self.inner.pure

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return self.inner.parameters

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return self.inner.outputs

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Note the step, and do the work."""
        self.recorder.record(call.context.step_path, self.name, call.parameters)
        return await self.inner.run(call)


@dataclass(frozen=True)
class RecordedChange(RecordedAction):
    """One that changes roles as well."""

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Note in `roles` what the outputs tell."""
        assert isinstance(self.inner, ChangesRoles)
        self.inner.apply_outputs(outputs, roles)


def record_actions(actions: Registry, recorder: Recorder) -> Registry:
    """Return the actions with those watched that work on machines; the others are seen by `WatchedDryRun`."""
    return Registry((_PACKAGE, action) for action in _record_actions(actions, recorder))


def _record_actions(actions: Registry, recorder: Recorder) -> Iterable[Action]:
    for name in actions.names():
        action = actions.find(name)
        if action is None or action.name != name:  # another spelling
            continue
        if not getattr(action, "on_machines", False):
            yield action
        elif isinstance(action, ChangesRoles):
            yield RecordedChange(action, recorder)
        else:
            yield RecordedAction(action, recorder)


class RecordedDryRun(DryRun):
    """Dry-run machines that note what is asked of them. `answers` may change from act to act."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(network_offset=lambda instance_id: (int(instance_id, 16) - 1) * ADDRESSES_OF_ONE)
        self._recorder = recorder

    @property
    def answers(self) -> Answers:
        """What is configured now."""
        return self._answers

    @answers.setter
    def answers(self, answers: Answers) -> None:
        self._answers = answers

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Note a machine that a component makes for itself."""
        if context.action == COMPUTE:
            self._recorder.record(context.path, context.action, spec.settings)
        return await super().provision(context, role, numbers, spec)

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Note a command that a component sends to its own machine."""
        if context.action == "exec":
            self._recorder.record(context.path, context.action, {"command": command.line})
        return await super().run(context, machine, command)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Note the file."""
        self._recorder.record(context.path, context.action, {"filename": name})
        await super().put_file(context, machine, name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Note the file."""
        self._recorder.record(context.path, context.action, {"filename": name})
        return await super().get_file(context, machine, name)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Answer for every action that would do something outside. Raises ActionFailed without an answer."""
        self._recorder.record(context.path, context.action, parameters)
        outputs = super().simulate(context, parameters)
        if outputs is None and context.action not in _HARMLESS:
            raise ActionFailed(
                f"The action {context.action!r} would really run. Say what it gives instead: add "
                f"'- {{ action: {context.action}, give: {{ … }} }}' to 'answers'.",
                retryable=False,
            )
        return outputs
