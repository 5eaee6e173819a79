"""The contract between a workflow and its actions (manifest-language §5 and §9).

Third parties implement `Action` and name the class in the entry-point group `launchbay.actions` of their package;
`registry.py` finds it there. An action sees the world only through `StepContext`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from launchbay.clock import Clock
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.model.job import Question, Verdict
from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, MachineSpec, RemoteCommand, SshAccess
from launchbay.processes.run import Programs

ENTRY_POINT_GROUP = "launchbay.actions"

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class ActionParameter:
    """A documented parameter: editors complete it, pages show it. Parameters not listed are passed on, not refused."""

    description: str
    type: str | None = None  # a type of the manifest language, such as `map<string,string>`; None takes anything
    required: bool = False


class SignalsView(Protocol):
    """What the component consumes, as the running workflow sees it: its own copy, free to be kept."""

    def single(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `result[interface][signal]`."""
        ...

    def multi(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return `result[interface][peer id][signal]`."""
        ...


class Roles(Protocol):
    """Which machines the component has; it changes only here, from the outputs of steps (`ChangesRoles`)."""

    def add(self, machines: Iterable[Machine]) -> None:
        """Note that the component has these machines now, each in the role that it names."""
        ...

    def remove(self, machines: Iterable[Machine]) -> None:
        """Note that these machines are gone."""
        ...


class StepMachines(Protocol):
    """The machines of the component whose workflow runs; the workflows and macros that it calls share them.

    Reading it raises `ActionFailed` where there is no machine provider. So do the methods, for what the provider says.
    """

    def of_role(self, role: str) -> Sequence[Machine]:
        """Return the component's own machines of a role, in their order; there may be none."""
        ...

    def own(self) -> Sequence[Machine]:
        """Return all machines that belong to the component."""
        ...

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        """Return the machines to do something on, each address once; None means every role of the component.

        An interface of the component is a role too: of the machines that are bound to it. Raises `ActionFailed` for a
        role without any.
        """
        ...

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        """Make so many machines; they are in the role when the step has succeeded."""
        ...

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        """Take machines that are there; they are in the role when the step has succeeded."""
        ...

    async def release(self, machines: Sequence[Machine]) -> None:
        """Take machines down, as many as can be; raises `ActionFailed` that names the others."""
        ...

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, whatever its exit code."""
        ...

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        ...

    async def ssh_access(self, machine: Machine) -> SshAccess:
        """Return what another program needs to get into the machine by SSH; the host has just shown its key."""
        ...


class Document(NamedTuple):
    """What a step has kept, and which writing of it this is."""

    data: bytes
    version: int


class Documents(Protocol):
    """What steps of a component keep beyond their job, sealed in the database: each action has its own, by name.

    The action that keeps documents takes down what they tell of (`TakesDown`).
    """

    async def read(self, name: str) -> Document | None:
        """Return a document, None where there is none."""
        ...

    async def write(self, name: str, data: bytes, version: int) -> int:
        """Keep a document over the version that was read, 0 for none; return the new version.

        Raises `ActionFailed` where another step has written meanwhile, and for too much.
        """
        ...

    async def delete(self, name: str) -> None:
        """Drop a document."""
        ...


class StepContext(Protocol):
    """What a step may know and do; the runtime gives a fresh one to every attempt."""

    @property
    def instance_id(self) -> str:
        """The instance whose workflow runs."""
        ...

    @property
    def organization_id(self) -> str:
        """The organization that owns the instance."""
        ...

    @property
    def environment_id(self) -> str:
        """The environment that the instance runs in."""
        ...

    @property
    def job_id(self) -> str:
        """The job that the step belongs to."""
        ...

    @property
    def step_path(self) -> str:
        """The step's path in the plan, unique within the job."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1; retries count, recoveries after a crash do not."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step in this job (see the function of this name)."""
        ...

    @property
    def started_at(self) -> datetime:
        """When the step was first started, in UTC; a crash and recovery do not change it."""
        ...

    @property
    def clock(self) -> Clock:
        """The only place to read the time from."""
        ...

    @property
    def egress(self) -> EgressClient:
        """The only way to the network: it checks every address."""
        ...

    @property
    def documents(self) -> Documents:
        """What steps with this action have kept in this component."""
        ...

    def register_secret(self, value: Any) -> None:
        """Have the job keep a JSON value secret from now on."""
        ...

    @property
    def programs(self) -> Programs:
        """Which programs may be started on this server."""
        ...

    @property
    def mail(self) -> MailServer:
        """The operator's mail server. Raises `ActionFailed` where there is none."""
        ...

    @property
    def signals(self) -> SignalsView:
        """Consumed signals, as seen at the workflow's start and refreshed by `wait_peers`."""
        ...

    @property
    def machines(self) -> StepMachines:
        """The machines of the component. Raises `ActionFailed` where there is no machine provider."""
        ...

    def redact(self, text: str) -> str:
        """Return a text without the secrets that the job knows.

        What is logged, returned or raised is covered by itself. This is for a text that is cut before, in the middle of
        a secret perhaps.
        """
        ...

    def log(self, level: LogLevel, text: str) -> None:
        """Add lines to the step's log. Never a secret."""
        ...

    async def progress(self, percent: int) -> None:
        """Report 0 to 100; a lower figure than an earlier one changes nothing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancelled job ends the waiting.

        So does a worker that is asked to stop, from a second on: another one repeats the attempt, as after a crash.
        """
        ...

    async def run_image(self, run: ImageRun) -> CommandResult:
        """Run a command in an image to its end, with this server's container engine. Raises `ActionFailed`."""
        ...

    async def ask(self, question: Question) -> Verdict:
        """Ask people for their approval and wait until it is decided; a crash forgets neither question nor answer.

        One question for each step: a retry gets the same verdict. Raises `ActionFailed` where nobody can be asked.
        """
        ...

    async def notify_webhooks(self, notification: Mapping[str, Any]) -> int:
        """Send the event `notification` with these data, once for each step; return how many webhooks ask for it."""
        ...

    async def wait_peers(self, interfaces: Mapping[str, int], timeout_s: float | None) -> None:
        """Wait until each interface has at least so many peers with values, then refresh `signals`.

        `timeout_s` None leaves the bound to the runtime. Only for pure actions, which a recovery repeats. Raises
        `ActionFailed` after the timeout, for an interface that the component does not have, and when peers failed.
        """
        ...

    async def call_command(
        self, interface: str, command: str, arguments: Mapping[str, Any], timeout_s: float | None
    ) -> Mapping[str, Any]:
        """Send a command to the peers of an interface and return its results by name.

        `timeout_s` None leaves the bound to the runtime. Only for pure actions: the steps of the command have records
        of their own, and a recovery brings back what it published by repeating the call. Raises `ActionFailed` when the
        command is unknown or takes longer, and what the failed command raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One attempt of one step."""

    parameters: Mapping[str, Any]  # interpolated; without retryCount, ignoreFail and phase, which are the runtime's
    context: StepContext


class Action(Protocol):
    """Something that a step can do.

    One object serves all steps at the same time: it keeps nothing between calls. `run` may be stopped by cancellation
    at any `await`, and may be run again for the same step after a crash: pass `context.idempotency_key` on where the
    other side knows such keys.
    """

    @property
    def name(self) -> str:
        """The name as written in a manifest."""
        ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other spellings of the name."""
        ...

    @property
    def pure(self) -> bool:
        """True when nothing outside changes: computed again on recovery, with no record of its own."""
        ...

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        ...

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name, each with a description."""
        ...

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Do the work and return the outputs: JSON values only.

        Raises `ActionFailed` with sentences for the author of the manifest; `retryable=False` where another attempt
        cannot help, as with a wrong parameter.
        """
        ...


@runtime_checkable
class ChangesRoles(Protocol):
    """An action after which the component has other machines.

    `settle` says what a success means for the roles, from the outputs alone. It follows every run that succeeds, and a
    recovery calls it with the recorded outputs in place of the run.
    """

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Note in `roles` what the outputs tell."""
        ...


@runtime_checkable
class SupportsTeardown(Protocol):
    """An action that keeps documents of what it has made."""

    async def teardown(self, call: ActionCall, name: str) -> None:
        """Take down what the document tells of, and forget it; the call has no parameters. Raises `ActionFailed`."""
        ...


def idempotency_key(job_id: str, step_path: str) -> str:
    """Return the key that stays the same however often a step is attempted (architecture, "Rules of shape" 7)."""
    return hashlib.sha256(f"{job_id}\n{step_path}".encode()).hexdigest()
