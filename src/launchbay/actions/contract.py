"""The contract between a workflow and its actions (manifest-language §5 and §9).

A package implements `Action` and names the class in its entry-point group `launchbay.actions`, where `registry.py`
finds it. An action accesses everything through `StepContext`.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from launchbay.clock import Clock
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.model.job import Question, Verdict
from launchbay.model.machine import (
    ChefRun,
    CommandResult,
    ImageRun,
    Machine,
    MachineSpec,
    PlannedImageRun,
    RemoteCommand,
    SshAccess,
)
from launchbay.model.price import Price
from launchbay.processes.run import Programs, write_private

ENTRY_POINT_GROUP = "launchbay.actions"

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class ActionParameter:
    """A documented parameter, for editors, pages and warnings. Others are passed on instead of rejected."""

    description: str
    type: str | None = None  # a type of the manifest language, such as `map<string,string>`; None accepts any
    required: bool = False
    other_name: str | None = None  # of a parameter that is as good; only one of both is required
    check: Callable[[Any], object] | None = None  # raises ValueError for a wrong value, beyond the type
    needs_value: bool = False  # an expression without a value fails the step, because the default does something else
    is_choice: bool = False  # null and "" fail the step (`refuse_no_choice`), because without it the step does more
    # What the action gets of numbers such as 1.10 where the type doesn't say it: the number, the author's text, or a
    # number that knows its text (`model/scalars.py`), for an action that sees later which of them it needs.
    numbers: Literal["plain", "text", "written"] = "plain"


class SignalsView(Protocol):
    """The signals that the component consumes, as a copy for the running workflow."""

    def single(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `result[interface][signal]`."""

    def multi(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return `result[interface][peer id][signal]`."""


class Roles(Protocol):
    """The machines of the component. They change only here, from the outputs of steps (`ChangesRoles`)."""

    def add(self, machines: Iterable[Machine]) -> None:
        """Add the machines, each to the role that it names."""

    def remove(self, machines: Iterable[Machine]) -> None:
        """Remove the machines."""


class StepMachines(Protocol):
    """The machines of the component whose workflow runs, shared with the workflows and macros that it calls.

    The methods raise `ActionFailed` for failures of the machine provider.
    """

    @property
    def provider_name(self) -> str:
        """The provider of new machines, as the environment or the settings name it."""

    def price_of(self, size: str) -> Price:
        """Return what a new machine of a size costs, as the environment says."""

    def of_role(self, role: str) -> Sequence[Machine]:
        """Return the component's own machines of a role, in order."""

    def own(self) -> Sequence[Machine]:
        """Return all machines that belong to the component."""

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        """Return the machines of some roles, each address once. None means every role of the component.

        An interface of the component is also a role: of the machines that are bound to it. Roles without machines are
        logged and skipped, so the result may be empty.
        """

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        """Create machines. They are in the role after the step has succeeded."""

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        """Adopt existing machines. They are in the role after the step has succeeded."""

    async def release(self, machines: Sequence[Machine]) -> None:
        """Release as many of the machines as possible. Raises `ActionFailed` with the others."""

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, regardless of its exit code."""

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""

    async def ssh_access(self, machine: Machine) -> SshAccess:
        """Return what another program needs to connect by SSH; the host has just shown the right key."""


class Document(NamedTuple):
    """A stored document and its version."""

    data: bytes
    version: int


class Documents(Protocol):
    """Documents that outlive their job, encrypted in the database. Each action of a component has its own, by name.

    The action that stores documents also tears down what they describe (`SupportsTeardown`).
    """

    async def read(self, name: str) -> Document | None:
        """Return a document, or None if it doesn't exist."""

    async def write(self, name: str, data: bytes, version: int) -> int:
        """Replace the version that was read, or create the document with version 0. Return the new version.

        Raises `ActionFailed` if another step has written in the meantime, and beyond the limit of size.
        """

    async def delete(self, name: str) -> None:
        """Delete a document."""


class StepContext(Protocol):
    """What a step can access; the runtime creates a new one for every attempt."""

    @property
    def instance_id(self) -> str:
        """The instance whose workflow runs."""

    @property
    def organization_id(self) -> str:
        """The organization that owns the instance."""

    @property
    def environment_id(self) -> str:
        """The environment of the instance."""

    @property
    def job_id(self) -> str:
        """The job of the step."""

    @property
    def step_path(self) -> str:
        """The step's path in the plan, unique within the job."""

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1. Retries increase it, recoveries after a crash do not."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt, also of the calls around the step (decision 0151)."""

    @property
    def started_at(self) -> datetime:
        """The time of the step's first start, in UTC. A recovery doesn't change it."""

    @property
    def clock(self) -> Clock:
        """The only source of time."""

    @property
    def egress(self) -> EgressClient:
        """The only access to the network; it checks every address."""

    @property
    def identity(self) -> str | None:
        """The token of a step with the key `identity`. Never store it."""

    @property
    def documents(self) -> Documents:
        """The documents of this action in this component."""

    def register_secret(self, value: Any) -> None:
        """Redact a JSON value in all logs and outputs of the job from now on."""

    @property
    def programs(self) -> Programs:
        """The programs that actions are allowed to run on this server."""

    @property
    def mail(self) -> MailServer:
        """The mail server in the settings. Raises `ActionFailed` if none is set."""

    @property
    def signals(self) -> SignalsView:
        """Consumed signals, as of the workflow's start or the last `wait_peers`."""

    @property
    def machines(self) -> StepMachines:
        """The machines of the component. Raises `ActionFailed` if there is no machine provider."""

    def redact(self, text: str) -> str:
        """Return a text without the job's secrets.

        Logs, outputs and errors are redacted automatically. Use this before you cut a text, because a cut secret isn't
        recognized.
        """

    def log(self, level: LogLevel, text: str, stream: str = "system") -> None:
        """Add lines to the step's log. Never log a secret.

        `stream` is `stdout` or `stderr` for the output of a program.
        """

    async def progress(self, percent: int) -> None:
        """Report 0 to 100. A lower value than before changes nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait, until the job is cancelled at the latest.

        If the worker stops, a wait of a second or longer ends too: another worker repeats the attempt, as after a
        crash.
        """

    def resting(self, seconds: float) -> AbstractContextManager[None]:
        """Mark a block that only sleeps, for `seconds` at most.

        A job of which all steps rest for long leaves its worker. Its attempts start again when the time is over, so
        nothing that must not be repeated may come before.
        """

    async def run_image(self, run: ImageRun) -> CommandResult:
        """Run a command in an image to its end, with this server's container engine. Raises `ActionFailed`."""

    async def plan_image(self, run: ImageRun) -> PlannedImageRun:
        """Return what `run_image` would start, without starting it. Raises `ActionFailed`."""

    async def ask(self, question: Question) -> Verdict:
        """Ask people for approval and wait for the decision; question and answers survive a crash.

        A step has one question: a retry gets the same verdict. Raises `ActionFailed` if approvals are unavailable.
        """

    async def notify_webhooks(self, notification: Mapping[str, Any]) -> int:
        """Send the event `notification` once per step. Return the number of webhooks that subscribe to it."""

    async def wait_peers(self, interfaces: Mapping[str, int], timeout_s: float | None) -> None:
        """Wait until each interface has at least this number of peers with values, then refresh `signals`.

        `timeout_s` None uses the runtime's limit. Only for pure actions, which a recovery repeats. Raises
        `ActionFailed` after the timeout, for an unknown interface, and if peers failed.
        """

    async def call_command(
        self, interface: str, command: str, arguments: Mapping[str, Any], timeout_s: float | None
    ) -> Mapping[str, Any]:
        """Send a command to the peers of an interface and return its results by name.

        `timeout_s` None uses the runtime's limit. Only for pure actions: the steps of the command have their own
        records, and a recovery repeats the call to restore what it published. Raises `ActionFailed` if the command is
        unknown or takes too long, and the errors of a failed command.
        """


async def _nothing() -> None:
    """Note nothing, for steps that nobody approved."""


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One attempt of one step."""

    parameters: Mapping[str, Any]  # evaluated; without retryCount, ignoreFail and phase, which are for the runtime
    context: StepContext
    expressions: Mapping[str, str] = field(default_factory=dict)  # the parameters that are one expression, as written
    # The artifact of the plan that somebody approved (`actions/plan.py`). `run` does that, or fails without an effect.
    approved: bytes | None = None
    # An attempt has begun what was approved, of this job or of one that it resumes, and it didn't fail.
    has_begun: bool = False
    # That was this attempt, before a crash: what it began on machines goes on.
    continues: bool = False
    # Awaited between the look and the first effect, by actions whose repetition could do what was approved twice.
    begin: Callable[[], Awaitable[None]] = _nothing


class Action(Protocol):
    """The operation of a step.

    One object serves all steps at the same time, so it must not store state between calls. Cancellation may stop `run`
    at any `await`. After a crash, `run` may be called again for the same step: pass `context.idempotency_key` to
    receivers that support such keys.
    """

    @property
    def name(self) -> str:
        """The name in manifests."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names."""

    @property
    def pure(self) -> bool:
        """True if the action changes nothing outside. It has no record, and a recovery computes it again."""

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name, each with a description."""

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Do the work and return the outputs, which must be JSON values.

        Raises `ActionFailed` with messages for the author of the manifest, and with `retryable=False` if another
        attempt can't help, as for an invalid parameter.
        """


class ActionDefaults:
    """What most actions have in common: one name, and an effect."""

    aliases: tuple[str, ...] = ()
    pure = False
    computes = False  # its outputs depend on its parameters and the environment alone, so plans run it
    starts_unnoticed = False  # nothing outside of the job can notice its start, so the journal needn't wait for that


class OnlyReads(ActionDefaults):
    """What actions have in common that checks of drift may run."""

    def may_change(self, parameters: Mapping[str, Any]) -> str:  # noqa: ARG002 - others depend on them
        """Return why a run with these parameters may change something outside.

        "" if it only reads. An action without this method may. Parameters that are known only at run time are missing
        in the check of a manifest, and there when a check asks again just before it runs the action.
        """
        return ""


@runtime_checkable
class ChangesRoles(Protocol):
    """An action that changes the component's machines."""

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Change `roles` according to the outputs alone.

        Called after every successful run. A recovery calls it with the recorded outputs instead of the run.
        """


@runtime_checkable
class SupportsTeardown(Protocol):
    """An action that stores documents about what it has created."""

    async def teardown(self, call: ActionCall, name: str) -> None:
        """Destroy what the document describes, and delete it. The call has no parameters. Raises `ActionFailed`."""


IDENTITY_VARIABLE, IDENTITY_FILE_VARIABLE = "LAUNCHBAY_IDENTITY_TOKEN", "LAUNCHBAY_IDENTITY_TOKEN_FILE"


def identity_environment(context: StepContext, directory: Path) -> Mapping[str, str]:
    """Return the variables with the step's token, and its file in a private directory."""
    if context.identity is None:
        return {}
    file = directory / ".identity" / "token"
    if not file.exists():
        write_private(file, context.identity)
    return {IDENTITY_VARIABLE: context.identity, IDENTITY_FILE_VARIABLE: str(file)}


def proxy_environment(context: StepContext) -> Mapping[str, str]:
    """Return the variables that lead a program to the proxy, if any.

    They are for programs whose targets are unknown beforehand. The password in them appears in no log.
    """
    proxy = context.egress.proxy
    if proxy is None:
        return {}
    context.register_secret(proxy.secrets())
    return proxy.environment()


def idempotency_key(seed: str, step_path: str) -> str:
    """Return the key of a step (docs/explain/guarantees.md, 3).

    `seed` is the ID of the job, or what names the schedule and time that began it (decision 0151).
    """
    return hashlib.sha256(f"{seed}\n{step_path}".encode()).hexdigest()
