"""What the runtime asks of the journal of a job. The engine keeps it in PostgreSQL; a test may keep it in memory.

Records are keyed by the step's path in the plan, never by order (architecture, "The path of one launch"). What is
recorded as done stays done: a step with a final record never runs again.

Every step leaves a trace, and traces become durable in the order in which they were made, at the latest with the next
`start`. So on recovery a step without one was never followed by anything that has an effect, and what a traced step
waited for is traced too. `runtime/workflow.py` rests on that: it repeats what is traced before it starts anything new.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from launchbay import limits
from launchbay.actions.contract import Action, Document
from launchbay.actions.registry import Registry
from launchbay.backoff import Backoff
from launchbay.clock import Clock
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.errors import ActionFailed, WorkflowFailed
from launchbay.machines.registry import Providers
from launchbay.manifest.configuration import Configured
from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import Link
from launchbay.model.job import Plan, Question, StepStatus, Verdict
from launchbay.processes.run import Programs
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.state import Graph, InstanceState


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What earlier claims of the job left of a step. `outputs` are there once a step with an effect has succeeded."""

    status: StepStatus
    attempt: int
    started_at: datetime
    outputs: Mapping[str, Any] | None = None
    error: str | None = None
    percent: int = 0


class Journal(Protocol):
    """The records of one job, written only while this worker holds the job (Fenced otherwise)."""

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        ...

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of; none in the job's first claim."""
        ...

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Record that an attempt begins. Returns when this, and all that was noted before, is durable."""
        ...

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success with its outputs. It is durable before the next `start` returns, and before the job ends."""
        ...

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Record that a step of any kind failed for good, in its so-many-th attempt; durable as `succeed` is."""
        ...

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step that has no effect of its own; it is computed again after a crash."""
        ...

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage soon; a lower one than before changes nothing."""
        ...

    def log(self, path: str | None, level: str, text: str) -> None:
        """Add a line to the instance's log soon; None is the job itself."""
        ...


class ReplayJournal:
    """Implements `runtime.journal.Journal` over the journal of a job that goes on meanwhile."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        return self._journal.find(path)

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of."""
        return self._journal.traces()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:  # noqa: ARG002 - the contract's
        """Refuse the beginning of an attempt."""
        raise WorkflowFailed("the call was broken off.")

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Take no note: a step that was not started does not come here."""

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Take no note: the first run has."""

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Take no note: the first run has."""

    def progress(self, path: str, percent: int) -> None:
        """Take no note."""

    def log(self, path: str | None, level: str, text: str) -> None:
        """Take no note: the first run has said it."""


class StepBudget:
    """Counts the steps of a job, those inside of calls too: calls that double at each level stay within nesting."""

    def __init__(self, steps: int = limits.JOB_STEPS) -> None:
        self._steps = self._left = steps

    def take(self) -> None:
        """Count one step. Raises WorkflowFailed beyond the bound."""
        if self._left == 0:
            raise WorkflowFailed(
                f"the job has run {self._steps} steps, which is the most; do workflows call each other?"
            )
        self._left -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """A command sent to a component.

    `sender` is the calling component, or None for a command from the API; `interface` and `command` name the pin of the
    receiver; `path` is the place in the plan of the workflow that it runs, and `depth` how many calls lie around it.
    `is_over` marks the repetition of a call that ended before a crash, by failure or time-out (`Caller.is_over`).
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
    """Another instance, as a component that stands for it sees it."""

    name: str
    status: str
    return_values: Mapping[str, Any]


class LinkedInstances(Protocol):
    """The instances behind components that stand for one. The engine knows how to get at them."""

    async def get(self, link: Link) -> LinkedInstance:
        """Return the linked instance as it is now. Raises WorkflowFailed when it is gone."""
        ...

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Give signals to the needs of the linked instance's application, for its next job to see."""
        ...

    async def needs_reconfiguration(self, parent: "JobRun", link: Link, path: str, *, is_up: bool) -> bool:
        """Tell whether a reconfiguration there, at this place of the outer job's plan, is what the instance needs.

        `is_up` False says that the outer job takes the instance for one that never came up.
        """
        ...

    async def cancel_abandoned(self, parent: "JobRun") -> None:
        """Bring the jobs to their ends that the outer one began and waits for no more."""
        ...

    async def orphaned_instances(self, parent: "JobRun") -> list[Link]:
        """Return own instances that no component leads to any more, and that should have been destroyed."""
        ...

    async def offered_pins(self, link: Link) -> frozenset[str]:
        """Return the keys of all pins of the linked instance's application. Raises WorkflowFailed when it is gone."""
        ...

    async def required_signals(self, link: Link) -> frozenset[str]:
        """Return the needs for signals, `interface.pin`, without which the linked instance is not to be launched."""
        ...

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
        """Run a workflow there and return its results by name; `path` is the call's place in the outer job's plan.

        `is_over` only reads how an earlier run ended. Raises WorkflowFailed.
        """
        ...


class ComponentType(Protocol):
    """What a component type does in a live instance (language §4). One object serves all components of the type."""

    async def launch(self, job: "JobRun", component: Component) -> None:
        """Start the component and publish its signals. Raises WorkflowFailed."""
        ...

    async def command(self, job: "JobRun", component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Carry out a command and return its results by name. Raises WorkflowFailed."""
        ...

    async def reconfigure(self, job: "JobRun", component: Component) -> None:
        """Take over a new configuration while staying. Raises WorkflowFailed."""
        ...

    async def destroy(self, job: "JobRun", component: Component) -> None:
        """Take down what the component holds. Raises WorkflowFailed with what is left."""
        ...


class Approvals(Protocol):
    """Asks people, and waits for what they say."""

    async def ask(self, job: "JobRun", path: str, question: Question) -> Verdict:
        """Ask once for each step of a job, named by its path, and wait for the decision. Raises ActionFailed."""
        ...


class Notifier(Protocol):
    """Tells the organization's webhooks what a step wants to say."""

    async def notify(self, job: "JobRun", path: str, notification: Mapping[str, Any]) -> int:
        """Tell it once for each step of a job, named by its path; return how many webhooks are told."""
        ...


class DocumentKey(NamedTuple):
    """Whose document something is: of a component and an action, under a name that the manifest chooses."""

    component: str
    action: str
    name: str


class StepDocuments(Protocol):
    """Documents that steps keep beyond their job. All methods raise ActionFailed."""

    async def list_by_instance(self, job: "JobRun") -> Sequence[DocumentKey]:
        """Return which documents there are."""
        ...

    async def read(self, job: "JobRun", key: DocumentKey) -> Document | None:
        """Return a document, None where there is none."""
        ...

    async def write(self, job: "JobRun", key: DocumentKey, document: Document) -> int:
        """Write over the version that the document names, and return the new one."""
        ...

    async def delete(self, job: "JobRun", key: DocumentKey) -> None:
        """Drop a document."""
        ...


class NullDocuments:
    """Where nothing is stored, such as in tests of manifests: what is written is gone."""

    async def list_by_instance(self, job: "JobRun") -> Sequence[DocumentKey]:  # noqa: ARG002 - the contract's
        """Return nothing."""
        return ()

    async def read(self, job: "JobRun", key: DocumentKey) -> Document | None:  # noqa: ARG002 - the contract's
        """Return nothing."""
        return None

    async def write(self, job: "JobRun", key: DocumentKey, document: Document) -> int:  # noqa: ARG002 - the contract's
        """Count the version."""
        return document.version + 1

    async def delete(self, job: "JobRun", key: DocumentKey) -> None:
        """Do nothing."""


class NullNotifier:
    """Where there are no webhooks, such as in tests of manifests."""

    async def notify(self, job: "JobRun", path: str, notification: Mapping[str, Any]) -> int:  # noqa: ARG002 - the contract's
        """Tell nobody."""
        return 0


class NullApprovals:
    """Where nobody can be asked, such as in tests of manifests."""

    async def ask(self, job: "JobRun", path: str, question: Question) -> Verdict:  # noqa: ARG002 - the contract's
        """Refuse."""
        raise ActionFailed(f"The step {path} waits for an approval, and nobody can be asked here.", retryable=False)


@dataclass(frozen=True, slots=True)
class RuntimeDeps:
    """What all jobs of a process share."""

    actions: Registry
    component_types: Mapping[str, ComponentType]
    clock: Clock
    egress: EgressClient
    retry_backoff: Backoff
    machines: Providers
    approvals: Approvals = field(default_factory=NullApprovals)
    notifier: Notifier = field(default_factory=NullNotifier)
    mail: MailServer | None = None
    documents: StepDocuments = field(default_factory=NullDocuments)
    programs: Programs = field(default_factory=Programs)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One job. `graph` holds the components, and the values of their configuration pins."""

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
    claimed_id: str | None = None  # the job that is claimed, where this one is only recalled by it
    links: Mapping[str, Link] = field(default_factory=dict)  # by component path
    # What a parent instance gives to the needs of the application: `interface.pin` → peer → value.
    parent_signals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    before: Configured | None = None  # what a reconfiguration comes from
    budget: StepBudget = field(default_factory=StepBudget)
    # Set before the job is broken off here to be gone on with by its next claim: what it began elsewhere stays.
    handed_over: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Let the state follow a quantity that was configured."""
        self.graph.apply_quantity(self.state)

    @property
    def manifest(self) -> CompiledManifest:
        """The components as they are to be now, with the members of Scalers."""
        return self.graph.manifest(self.state)

    @property
    def configuration(self) -> Mapping[str, Mapping[str, Any]]:
        """The values of the configuration pins: component path → `interface.pin` → value."""
        return self.graph.configuration(self.state)

    def component(self, path: str) -> Component:
        """Return a component of the manifest by its path."""
        return self.manifest.components[path]

    def component_type(self, component: Component) -> ComponentType:
        """Return what runs components of this type. Raises WorkflowFailed for a type that cannot be run here."""
        found = self.deps.component_types.get(component.type)
        if found is None:
            raise WorkflowFailed(f"Components of type {component.type!r} are not supported yet.")
        return found

    def action(self, name: str) -> Action | None:
        """Return the action of this name, or None."""
        return self.deps.actions.find(name)
