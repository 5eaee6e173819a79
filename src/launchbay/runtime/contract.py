"""One job as the runtime sees it, and the contracts between the runtime and its surroundings.

The engine implements them on PostgreSQL, tests and `launchbay test` in memory: `Journal`, `LinkedInstances`,
`Approvals`, `Notifier`, `StepDocuments`. Component types implement `ComponentType`.
"""

import asyncio
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from launchbay import limits
from launchbay.actions.contract import Document, idempotency_key
from launchbay.actions.registry import Registry
from launchbay.clock import Backoff, Clock
from launchbay.concurrency import Pace
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.errors import ActionFailed, WorkflowFailed
from launchbay.machines.registry import Providers
from launchbay.manifest.configuration import Configured
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.manifest.paths import Scope
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import Link
from launchbay.model.job import Plan, Question, StepStatus, StepWait, Verdict, outer_paths
from launchbay.model.secret_reference import SecretReference
from launchbay.processes.run import Programs
from launchbay.runtime.evaluation import Evaluated, Evaluator, InPlace
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.state import Graph, InstanceState

SYSTEM = "system"  # the stream of log lines that no program wrote


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step's record from earlier claims of the job, or a resumed job.

    `outputs` are set if a step with an effect succeeded, or if its failure was ignored. `failed` counts the attempts
    that failed and were repeated.
    """

    status: StepStatus
    attempt: int
    started_at: datetime
    outputs: Mapping[str, Any] | None = None
    error: str | None = None
    percent: int = 0
    failed: int = 0

    @property
    def is_ignored(self) -> bool:
        """Whether the step failed and its workflow continued: it is finished (language §5, ignoreFail)."""
        return self.status is StepStatus.FAILED and self.outputs is not None

    @property
    def has_failed(self) -> bool:
        """Whether its workflow failed with the step."""
        return self.status is StepStatus.FAILED and self.outputs is None


class Journal(Protocol):
    """The records of one job, written only while this worker holds the job (Fenced otherwise).

    Records are keyed by the step's path in the plan, never by order (architecture, "The path of one launch"). A step
    with a final record never runs again.

    Every step leaves a trace, and traces become durable in order, at the latest with the next `start`. So after a crash
    no effect followed a step without a trace, and everything that a traced step waited for has a trace.
    `runtime/workflow.py` depends on this: it repeats the traced steps before it starts a new one.
    """

    def find(self, path: str) -> StepRecord | None:
        """Return the record of a step from earlier claims, or None."""

    def traces(self) -> Collection[str]:
        """Return the paths of all steps with a record from earlier claims."""

    async def start(self, path: str, name: str, attempt: int, at: datetime, *, durable: bool = True) -> None:
        """Record the start of an attempt.

        Returns when it and all earlier notes are durable.

        With `durable=False` it returns at once: for a start that nothing outside of the job can notice.
        """

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success and outputs; durable before the next `start` returns and before the job ends."""

    def skip(self, path: str, name: str) -> None:
        """Record that a step's condition is false, as a success in attempt 0."""

    def attempt_failed(self, path: str, error: str, retry_s: float) -> None:
        """Record the failure of an attempt that will be repeated after a pause."""

    def fail(self, path: str, name: str, error: str, attempt: int, *, is_ignored: bool = False) -> None:
        """Record the final failure of any step, and the attempt's number; durable like `succeed`."""

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step without an effect; it is computed again after a crash."""

    def note_inputs(self, path: str, inputs: Mapping[str, Any]) -> None:
        """Show what a step is sent, masked and bounded, with its next change."""

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage; a lower one than before is ignored."""

    def waiting(self, path: str, wait: StepWait) -> AbstractContextManager[None]:
        """Show during the block what a step waits for; of several, the last."""

    def log(self, path: str | None, level: str, text: str, stream: str = SYSTEM) -> None:
        """Add a line to the instance's log; path None is the job itself.

        `stream` is `stdout` or `stderr` for the output of a program.
        """

    def note_log_position(self, path: str, attempt: int, source: str, position: str) -> None:
        """Record up to where the log has a program's output, with its last line."""

    async def log_position(self, path: str, attempt: int, source: str) -> str:
        """Return what was noted last, in any claim, or an empty text."""

    async def keep_passing(self, path: str, attempt: int, values: Mapping[str, Any]) -> None:
        """Keep what an attempt gets for itself, so that later claims mask it too.

        Durable when it returns.
        """

    async def flush(self) -> None:
        """Return when everything so far is durable."""


class NullJournal:
    """Has no records and records nothing."""

    def find(self, path: str) -> StepRecord | None:  # noqa: ARG002 - the contract's
        return None

    def traces(self) -> Collection[str]:
        return ()

    async def start(self, path: str, name: str, attempt: int, at: datetime, *, durable: bool = True) -> None:
        """Do nothing."""

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Do nothing."""

    def skip(self, path: str, name: str) -> None:
        """Do nothing."""

    def attempt_failed(self, path: str, error: str, retry_s: float) -> None:
        """Do nothing."""

    def fail(self, path: str, name: str, error: str, attempt: int, *, is_ignored: bool = False) -> None:
        """Do nothing."""

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Do nothing."""

    def note_inputs(self, path: str, inputs: Mapping[str, Any]) -> None:
        """Do nothing."""

    def waiting(self, path: str, wait: StepWait) -> AbstractContextManager[None]:  # noqa: ARG002 - the contract's
        return nullcontext()

    def progress(self, path: str, percent: int) -> None:
        """Do nothing."""

    def log(self, path: str | None, level: str, text: str, stream: str = SYSTEM) -> None:
        """Do nothing."""

    def note_log_position(self, path: str, attempt: int, source: str, position: str) -> None:
        """Do nothing."""

    async def log_position(self, path: str, attempt: int, source: str) -> str:  # noqa: ARG002 - the contract's
        return ""

    async def keep_passing(self, path: str, attempt: int, values: Mapping[str, Any]) -> None:
        """Do nothing."""

    async def flush(self) -> None:
        """Do nothing."""


class ReplayJournal(NullJournal):
    """Reads the journal of a running job and starts no step.

    It records nothing, because the first run did.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def find(self, path: str) -> StepRecord | None:
        return self._journal.find(path)

    def traces(self) -> Collection[str]:
        return self._journal.traces()

    async def start(self, *_: object, **__: object) -> None:
        raise WorkflowFailed("the call was interrupted.")


class StepBudget:
    """Limits the steps of a job, including calls.

    The nesting limit alone allows calls that double at each level.
    """

    def __init__(self, steps: int = limits.JOB_STEPS) -> None:
        self._steps = self._left = steps

    def take(self) -> None:
        """Count one step. Raises WorkflowFailed beyond the limit."""
        if self._left == 0:
            raise WorkflowFailed(
                f"the job has run {self._steps} steps, the limit. Check for workflows that call each other."
            )
        self._left -= 1


class VariableBudget:
    """Limits what steps have set in the workflows that a job is running."""

    def __init__(self, most: int = limits.VARIABLES_BYTES) -> None:
        self._most = self._left = most

    def take(self, size: int) -> None:
        """Count bytes. Raises WorkflowFailed beyond the limit."""
        if size > self._left:
            raise WorkflowFailed(
                f"the variables of all running workflows exceed {self._most // limits.MIB} MiB "
                f"({limits.VALUE_BYTES} bytes for each value, and its characters). Keep less of what steps find."
            )
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """A command sent to a component.

    `sender` is the calling component, or None for a command from the API. `interface` and `command` name the receiver's
    pin. `path` is the place of its workflow in the plan, and `depth` the number of enclosing calls. `is_replay` marks
    the repetition of a call that failed or timed out before a crash (`WorkflowContext.is_replay`).
    """

    sender: str | None
    interface: str
    command: str
    arguments: Mapping[str, Any]
    path: str
    depth: int
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class LinkedInstance:
    """Another instance, as seen by the component that represents it."""

    name: str
    status: str
    return_values: Mapping[str, Any]


class LinkedInstances(Protocol):
    """The instances that components represent: submodules, shared instances, services."""

    async def get(self, link: Link) -> LinkedInstance:
        """Return the linked instance. Raises WorkflowFailed if it was deleted."""

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Provide signals that the linked application needs, for its next job."""

    async def needs_reconfiguration(self, parent: "JobRun", link: Link, path: str, *, is_up: bool) -> bool:
        """Return whether the linked instance needs a reconfiguration here in the plan.

        `is_up` False means that the parent treats the instance as one that never launched successfully.
        """

    async def cancel_abandoned(self, parent: "JobRun") -> None:
        """End the child jobs that the parent no longer waits for."""

    async def add_members(self, parent: "JobRun", paths: Sequence[str]) -> None:
        """Create and link submodules for new members of a Scaler, like those of others.

        Raises WorkflowFailed if no other member has ever had one.
        """

    async def show_members(self, parent: "JobRun") -> None:
        """Show the submodules of the present members among the instance's components."""

    async def orphaned_instances(self, parent: "JobRun") -> list[Link]:
        """Return own instances that no component links to, and that should have been destroyed."""

    async def offered_pins(self, link: Link) -> frozenset[str]:
        """Return the keys of the linked application's pins.

        Raises WorkflowFailed if the instance was deleted.
        """

    async def required_signals(self, link: Link) -> frozenset[str]:
        """Return the signals, `interface.pin`, that the linked instance needs before its launch."""

    async def run(
        self,
        parent: "JobRun",
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,
    ) -> Mapping[str, Any]:
        """Run a workflow and return its results by name; `path` is the call's place in the parent's plan.

        `is_replay` only reads how an earlier run ended. Raises WorkflowFailed.
        """

    async def call_parent(
        self, child: "JobRun", need: str, arguments: Mapping[str, Any], path: str, *, is_replay: bool = False
    ) -> list[Mapping[str, Any]]:
        """Run a command that the application needs in a job of the parent instance.

        Returns the results, or nothing if the instance has no parent. `path` is the call's place in the child's plan.
        Raises WorkflowFailed.
        """


class ComponentType(Protocol):
    """A component type in live instances (language §4).

    One object serves all components of the type.
    """

    async def launch(self, job: "JobRun", component: Component) -> None:
        """Start the component and publish its signals. Raises WorkflowFailed."""

    async def command(self, job: "JobRun", component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run a command and return its results by name. Raises WorkflowFailed."""

    async def reconfigure(self, job: "JobRun", component: Component) -> None:
        """Apply a new configuration to the running component. Raises WorkflowFailed."""

    async def destroy(self, job: "JobRun", component: Component) -> None:
        """Destroy what the component created. Raises WorkflowFailed that names what is left."""


class Approvals(Protocol):
    """Asks people for approval."""

    async def ask(self, job: "JobRun", path: str, question: Question) -> Verdict:
        """Ask once for each step of a job, identified by its path, and await the decision. Raises ActionFailed."""


class Notifier(Protocol):
    """Sends notifications of steps to the organization's webhooks."""

    async def notify(self, job: "JobRun", path: str, notification: Mapping[str, Any]) -> int:
        """Send it once for each step of a job, identified by its path; return the number of webhooks."""


class Identities(Protocol):
    """Issues tokens that say which job asks."""

    async def token(self, job: "JobRun", path: str, audience: str) -> str:
        """Return a token of minutes for the step at `path`. Raises ActionFailed."""


class SecretSource(Protocol):
    """Reads secrets of providers for steps."""

    async def read(
        self,
        job: "JobRun",
        path: str,
        attempt: int,
        references: Mapping[str, SecretReference],
        *,
        is_recorded: bool = False,
    ) -> Mapping[str, Any]:
        """Return the values by name for an attempt of a step. Raises ActionFailed.

        What has a lease keeps it until the journal has the outcome of the attempt, the start of the next one, or the
        end of the job. An attempt that continues after a crash reads again, and keeps both.

        Values that are recorded, sealed, outlive the attempt. So what has a lease is refused then.
        """


class ApprovedPlans(Protocol):
    """The plans with which somebody approved a job."""

    async def artifact(self, job: "JobRun", path: str) -> bytes | None:
        """Return with what the step at `path` does exactly what was approved.

        It is asked for each step with an effect of a job whose plan is `held`. None if the approved plan left the step
        open. Raises NotApproved for a step that the plan doesn't have, if the plan is gone, and for a step that was
        refused before.
        """

    async def refuse(self, job: "JobRun", path: str, reason: str, *, replans: bool) -> None:
        """Note that a step wasn't as approved; durable before it returns.

        With `replans`, the change is planned again once the job has failed. `reason` has no secrets.
        """

    async def refusal(self, job: "JobRun", path: str) -> str | None:
        """Return why a step at `path`, or inside it, was refused in this job."""

    async def begin(self, job: "JobRun", path: str, attempt: str) -> None:
        """Note that an attempt acts from now on; durable before it returns."""

    async def begun_by(self, job: "JobRun", path: str) -> str | None:
        """Return which attempt of the step began, if no failure ended that.

        A crash, a cancellation or a timeout did, or it has succeeded. The attempt may be of a job that this one
        resumes. It is empty if a server of an earlier version noted it.
        """

    async def end(self, job: "JobRun", path: str) -> None:
        """Note that an attempt that began has failed."""


class DocumentKey(NamedTuple):
    """Identifies a document by component, action, and a name from the manifest."""

    component: str
    action: str
    name: str


class StepDocuments(Protocol):
    """Documents of steps that outlive their job. All methods raise ActionFailed."""

    async def list_by_instance(self, job: "JobRun") -> Sequence[DocumentKey]:
        """Return the keys of all documents of the job's instance."""

    async def read(self, job: "JobRun", key: DocumentKey) -> Document | None:
        """Return the document, or None if it doesn't exist."""

    async def write(self, job: "JobRun", key: DocumentKey, document: Document) -> int:
        """Replace the version that the document names, and return the new version."""

    async def delete(self, job: "JobRun", key: DocumentKey) -> None:
        """Delete a document."""


class NullDocuments:
    """Stores nothing; for tests of manifests."""

    async def list_by_instance(self, job: "JobRun") -> Sequence[DocumentKey]:  # noqa: ARG002 - the contract's
        return ()

    async def read(self, job: "JobRun", key: DocumentKey) -> Document | None:  # noqa: ARG002 - the contract's
        return None

    async def write(self, job: "JobRun", key: DocumentKey, document: Document) -> int:  # noqa: ARG002 - the contract's
        """Return the next version."""
        return document.version + 1

    async def delete(self, job: "JobRun", key: DocumentKey) -> None:
        """Do nothing."""


class NullNotifier:
    """Notifies no webhook; for tests of manifests."""

    async def notify(self, job: "JobRun", path: str, notification: Mapping[str, Any]) -> int:  # noqa: ARG002 - the contract's
        return 0


class NullIdentities:
    """Issues no token; for servers without the feature, and for tests of manifests."""

    async def token(self, job: "JobRun", path: str, audience: str) -> str:  # noqa: ARG002 - the contract's
        raise ActionFailed("This server issues no tokens.", retryable=False)


class NullSecretSource:
    """Has no provider; for servers without the feature, and for tests of manifests."""

    async def read(
        self,
        job: "JobRun",  # noqa: ARG002 - the contract's
        path: str,  # noqa: ARG002 - the contract's
        attempt: int,  # noqa: ARG002 - the contract's
        references: Mapping[str, SecretReference],  # noqa: ARG002 - the contract's
        *,
        is_recorded: bool = False,  # noqa: ARG002 - the contract's
    ) -> Mapping[str, Any]:
        raise ActionFailed("This server reads no secrets of providers.", retryable=False)


class NullApprovedPlans:
    """Knows no plan; for servers without the feature, and for tests of manifests."""

    async def artifact(self, job: "JobRun", path: str) -> bytes | None:  # noqa: ARG002 - the contract's
        return None

    async def refuse(self, job: "JobRun", path: str, reason: str, *, replans: bool) -> None: ...

    async def refusal(self, job: "JobRun", path: str) -> str | None:  # noqa: ARG002 - the contract's
        return None

    async def begin(self, job: "JobRun", path: str, attempt: str) -> None: ...

    async def begun_by(self, job: "JobRun", path: str) -> str | None:  # noqa: ARG002 - the contract's
        return None

    async def end(self, job: "JobRun", path: str) -> None: ...


class NullApprovals:
    """Refuses every approval; for tests of manifests."""

    async def ask(self, job: "JobRun", path: str, question: Question) -> Verdict:  # noqa: ARG002 - the contract's
        raise ActionFailed(f"Step {path} needs an approval, which isn't available here.", retryable=False)


@dataclass(frozen=True, slots=True)
class RuntimeDeps:
    """The dependencies that all jobs of a process share."""

    actions: Registry
    component_types: Mapping[str, ComponentType]
    clock: Clock
    egress: EgressClient
    retry_backoff: Backoff
    machines: Providers
    approvals: Approvals = field(default_factory=NullApprovals)
    notifier: Notifier = field(default_factory=NullNotifier)
    identities: Identities = field(default_factory=NullIdentities)
    secret_source: SecretSource = field(default_factory=NullSecretSource)
    approved_plans: ApprovedPlans = field(default_factory=NullApprovedPlans)
    mail: MailServer | None = None
    documents: StepDocuments = field(default_factory=NullDocuments)
    programs: Programs = field(default_factory=Programs)
    pace: Pace = field(default_factory=partial(Pace, limits.STEPS_AT_ONCE))
    evaluator: Evaluator = field(default_factory=InPlace)


class Caller(NamedTuple):
    """The job that waits for this one; `path` is the place of its call."""

    job: "JobRun"
    path: str


@dataclass(slots=True)
class PassedCommands:
    """The commands that submodules have passed up to one job (`runtime/commands.py`).

    `outcomes` are those of the present claim, by path in the job's plan: the results of the receivers, or the failure.
    `recorded` are requests of earlier claims by the path of the call; None until they are first needed. `calls` are the
    paths of the job's calls by child job.
    """

    outcomes: dict[str, "list[Mapping[str, Any]] | WorkflowFailed"] = field(default_factory=dict)
    recorded: dict[str, list[tuple[str, Mapping[str, Any]]]] | None = None
    calls: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One job. `graph` has the components and the values of their configuration pins."""

    job_id: str
    instance_id: str
    organization_id: str
    environment_id: str
    plan: Plan
    graph: Graph
    environment: EnvironmentView
    state: InstanceState
    journal: Journal
    deps: RuntimeDeps
    linked_instances: LinkedInstances
    fence: int = 0  # of the claim; another worker's is higher
    claimed_id: str | None = None  # the claimed job, if this one is only replayed by it
    links: MutableMapping[str, Link] = field(default_factory=dict)  # by component path
    # What the parent instance provides for the application's needs: `interface.pin` → peer → value.
    parent_signals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    before: Configured | None = None  # the configuration before a reconfiguration
    stopped: set[str] = field(default_factory=set)  # the components of it that were stopped
    budget: StepBudget = field(default_factory=StepBudget)
    variables: VariableBudget = field(default_factory=VariableBudget)
    caller: Caller | None = None
    passed: PassedCommands = field(default_factory=PassedCommands)
    key_paths: dict[str, str] = field(default_factory=dict)  # of later attempts and passed commands, by path
    # Set before the job stops here to continue in its next claim: what it started elsewhere stays.
    handed_over: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.graph.apply_quantity(self.state)

    @property
    def manifest(self) -> CompiledManifest:
        """The target components, including the members of Scalers."""
        return self.graph.manifest(self.state)

    @property
    def configuration(self) -> Mapping[str, Mapping[str, Any]]:
        """The values of the configuration pins: component path → `interface.pin` → value."""
        return self.graph.configuration(self.state)

    async def evaluate(self, template: Template, scope: Scope, *, keeps_texts: bool = False) -> Evaluated:
        """Return the value of a template and warnings for the step's log. Raises `ExpressionError`.

        With `keeps_texts`, literal numbers remember their text (`model/scalars.py`).
        """
        value, warnings = await self.deps.evaluator.evaluate(template, scope, self.organization_id)
        return (template.restored(value) if keeps_texts else value), warnings

    @property
    def key_seed(self) -> str:
        """What the idempotency keys of this job derive from."""
        return self.plan.key_seed or self.job_id

    def key_path(self, path: str) -> str:
        """Return the path that names a place in idempotency keys, without retries."""
        if self.key_paths:
            for outer in (path, *outer_paths(path)):
                if outer in self.key_paths:
                    return self.key_paths[outer] + path[len(outer) :]
        return path

    def idempotency_key(self, path: str) -> str:
        """Return the key of what happens at a place of the plan (guarantee 3, decision 0151)."""
        return idempotency_key(self.key_seed, self.key_path(path))

    def component(self, path: str) -> Component:
        return self.manifest.components[path]

    def component_type(self, component: Component) -> ComponentType:
        """Return the component's type. Raises WorkflowFailed if the type isn't installed."""
        found = self.deps.component_types.get(component.type)
        if found is None:
            raise WorkflowFailed(
                f"Component type {component.type!r} isn't installed. Install the package that provides it."
            )
        return found
