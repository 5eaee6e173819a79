"""Jobs: acceptance, claim, journal, end, child jobs, control, views, load and retention."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec

from launchbay.model.component_state import StepState, step_state
from launchbay.model.instance import Link
from launchbay.model.job import INTERRUPTED_STEP, StepStatus, is_decision
from launchbay.model.redaction import MaskedValues
from launchbay.store.statements import load

_sql = load("jobs")


class ClaimRow(NamedTuple):
    """A claimed job with its instance. Only the worker with this fence can write."""

    fence: int
    plan: str
    steps: str
    parent_job_id: str | None  # the job that runs this one
    instance_id: str
    organization_id: str
    application_id: str
    environment_id: str
    version: int
    parameters: str
    environment_view: str
    state: str
    return_values: str
    fed_signals: str
    before: str | None
    links: str | None  # {component: [instance or service id, kind, binding]}
    waited_s: float  # from acceptance to first start
    cancel_requested: bool
    number: int  # 1, 2, 3 … in its instance
    ran_s: float  # since its first start: 0 for that one
    cancellation: str | None  # why the job is to end, if it is
    records: str | None  # the first page of earlier claims' records; null if none are known, or not yet
    is_limited: bool

    @classmethod
    def of_launch(cls, links: Mapping[str, Link], **given: Any) -> Self:
        """Return the claim of a new instance's first job.

        It is what `claim` would read after the acceptance.
        """
        found = {path: (link.instance_id, link.kind, link.binding_text()) for path, link in links.items()}
        return cls(
            fence=1,
            parent_job_id=None,
            state="{}",
            return_values="{}",
            fed_signals="{}",
            before=None,
            links=msgspec.json.encode(found).decode() if found else None,
            waited_s=0.0,
            cancel_requested=False,
            number=1,
            ran_s=0.0,
            cancellation=None,
            records=None,
            is_limited=False,
            **given,
        )


class VersionsRow(NamedTuple):
    """The versions in which a job's plan and its instance's state are stored (decision 0086)."""

    plan: int
    state: int


class LogPosition(NamedTuple):
    """Up to where the log of a step has the output of a source."""

    path: str
    attempt: int
    source: str
    position: str


class PassingRow(NamedTuple):
    """Values of an attempt, sealed for `passing_purpose` of the ID.

    The step may have ended.
    """

    id: str
    path: str
    attempt: int
    sealed: bytes
    has_ended: bool


def passing_purpose(row_id: str) -> str:
    """Return what values of a step are sealed for."""
    return f"passing values {row_id}"


class RecordRow(NamedTuple):
    """The record of a step."""

    path: str
    status: str
    percent: int
    attempt: int
    started_at: datetime
    outputs: str | None
    error_message: str | None
    failed: int  # of its attempts


class JobStatusRow(NamedTuple):
    """Status, fence and instance of a job."""

    status: str
    fence: int
    instance_id: str


class BusyRow(NamedTuple):
    """The job that keeps an instance busy, and the instance's name."""

    id: str
    number: int
    workflow: str
    instance: str


class NamesRow(NamedTuple):
    """The names of the application and the environment of a job."""

    application: str | None
    environment: str | None


class EndRow(NamedTuple):
    """The result of ending a job.

    `work_waiting`: work of the instance fell due meanwhile. The rest has no meaning.
    """

    work_waiting: bool
    written: object
    followed: object


accept_launch = _sql.value("accept_launch", str)
accept_work = _sql.value("accept_work", str)
is_observed = _sql.value("is_observed", bool)
supersede = _sql.value("supersede", bool)
claim = _sql.row("claim", ClaimRow)
get_versions = _sql.row("get_versions", VersionsRow)
list_records = _sql.rows("list_records", RecordRow)
write_journal = _sql.value("write_journal", str)
end = _sql.row("end", EndRow)
end_and_delete_instance = _sql.value("end_and_delete_instance", str)
get_status = _sql.row("get_status", JobStatusRow)
set_waits = _sql.change("set_waits")
set_log_positions = _sql.change("set_log_positions")
list_log_positions = _sql.rows("list_log_positions", LogPosition)
keep_passing = _sql.change("keep_passing")
list_passing = _sql.rows("list_passing", PassingRow)
get_owing = _sql.value("get_owing", str)
get_busy_job = _sql.row("get_busy_job", BusyRow)
get_names = _sql.row("get_names", NamesRow)
get_owner = _sql.value("get_owner", str)
has_log = _sql.value("has_log", bool)
get_instance_id = _sql.value("get_instance_id", str)
list_held = _sql.value("list_held", list)
list_under_way = _sql.value("list_under_way", list)


class ChildOutcomeRow(NamedTuple):
    """The outcome of a child job. `results` is JSON once it has succeeded."""

    id: str
    status: str
    error_message: str | None
    results: str | None


class TargetRow(NamedTuple):
    """An instance that another one calls a workflow of."""

    status: str
    job_id: str | None
    application_id: str
    version: int
    return_values: str
    name: str
    is_to_reconfigure: bool
    is_observed: bool


class PlaceRow(NamedTuple):
    """A component that leads to an instance."""

    instance_id: str
    component: str


begin_child = _sql.value("begin_child", str)
get_child_outcome = _sql.row("get_child_outcome", ChildOutcomeRow)
list_child_outcomes = _sql.rows("list_child_outcomes", ChildOutcomeRow)
get_child_target = _sql.row("get_child_target", TargetRow)
push_signals = _sql.change("push_signals")
list_orphans = _sql.column("list_orphans", str)
list_running_children = _sql.column("list_running_children", str)
get_place_in_parent = _sql.row("get_place_in_parent", PlaceRow)
is_held = _sql.value("is_held", bool)
list_orphaned_instances = _sql.column("list_orphaned_instances", str)


class ControlRow(NamedTuple):
    """A job, and what decides whether it can be cancelled or resumed.

    `is_inner`: a parent job runs it.
    """

    id: str
    name: str
    status: str
    plan: str
    is_inner: bool
    is_newest: bool
    is_cancelled: bool


class CancelRow(NamedTuple):
    """Whether a call has cancelled a job, or in which status it found it.

    `Executing` without `asked`: it was cancelled before. None: it doesn't exist.
    """

    asked: bool
    status: str | None


class LockedInstance(NamedTuple):
    """The locked instance of a job to be cancelled or resumed."""

    status: str
    job_id: str | None
    parameters: str
    version: int


class FinishedRow(NamedTuple):
    """How many own steps of a job are finished.

    `ignored` of them are ignored failures.
    """

    finished: int
    ignored: int

    def message(self) -> str:
        """Return what a resumed job says about them."""
        ignored = f", {self.ignored} of them failed and ignored" if self.ignored else ""
        return f"Steps that are done and not repeated: {self.finished}{ignored}."


class DescendantRow(NamedTuple):
    """A submodule's instance. `state` is JSON."""

    id: str
    name: str
    state: str


get_control = _sql.row("get_control", ControlRow)
lock_instance = _sql.row("lock_instance", LockedInstance)
cancel = _sql.row("cancel", CancelRow)
get_plan = _sql.value("get_plan", str)
list_descendants = _sql.rows("list_descendants", DescendantRow)
take_over = _sql.row("take_over", FinishedRow)
set_note = _sql.change("set_note")
set_parameters = _sql.change("set_parameters")


class StepView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A step in the journal; times are ms since the Unix epoch.

    `outputs` is JSON. None with `has_outputs` means that the job's outputs are too large to be shown; the same goes for
    `inputs`.
    """

    path: str
    name: str
    status: str
    percent: int
    attempt: int
    error_message: str | None
    started_at_ms: int | None
    finished_at_ms: int | None
    outputs: str | None
    has_outputs: bool
    failed_attempts: list[tuple[int, int, int, str, int]] | None = None  # number, began, ended, error, next
    inputs: MaskedValues | None = None
    has_inputs: bool = False

    @property
    def is_skipped(self) -> bool:
        """Whether its condition was false."""
        return self.attempt == 0 and self.status == StepStatus.SUCCEEDED

    @property
    def is_ignored(self) -> bool:
        """Whether its workflow continued after its failure: it has outputs, which are empty."""
        return self.status == StepStatus.FAILED and self.has_outputs

    def state(self, *, is_asking: bool) -> StepState:
        """Return how far it is. `is_asking`: it is an approval that nobody has answered."""
        return step_state(
            self.status,
            is_skipped=self.is_skipped,
            is_ignored=self.is_ignored,
            is_interrupted=self.error_message == INTERRUPTED_STEP,
            is_asking=is_asking,
        )


class JobLink(msgspec.Struct, frozen=True, array_like=True):
    """A job on another instance."""

    id: str
    number: int
    workflow: str
    status: str
    instance_id: str
    instance_name: str
    is_cancelled: bool


class JobView(NamedTuple):
    """A job in detail.

    `steps` are the planned ones; `journal` records them and the steps inside them.
    """

    id: str
    instance_id: str
    name: str
    status: str
    owner_id: str
    error_message: str | None
    results: str | None
    plan: str
    steps: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    parameters: str
    environment_view: str
    journal: str
    number: int
    owner: str | None  # a name; None for a deleted user
    application_id: str
    version: int  # of the instance, now
    children: str
    parent: str | None
    shown_parameters: str | None  # of a launch or reconfiguration that has ended
    shown_return_values: str | None

    def planned(self) -> list[tuple[str, str, str, int]]:
        """Return path, name, status and percent of the planned steps, in the manifest's order."""
        return _planned.decode(self.steps)

    def recorded(self) -> list[StepView]:
        """Return the recorded steps, in the order in which they started."""
        return [step for step in _recorded.decode(self.journal) if not is_decision(step.path)]


class RefinedStepRow(NamedTuple):
    """A step that was skipped, or failed in some way."""

    path: str
    status: str
    is_skipped: bool
    is_ignored: bool
    is_interrupted: bool

    def state(self) -> StepState:
        """Return how far it is."""
        return step_state(
            self.status,
            is_skipped=self.is_skipped,
            is_ignored=self.is_ignored,
            is_interrupted=self.is_interrupted,
            is_asking=False,
        )


class UsualDurationRow(NamedTuple):
    """How long a job usually takes, None if nothing like it has succeeded."""

    id: str
    usual_ms: int | None


read_links = msgspec.json.Decoder(list[JobLink]).decode
read_job_link = msgspec.json.Decoder(JobLink).decode
_planned = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_recorded = msgspec.json.Decoder(list[StepView])


get_page = _sql.value("get_page", str)
get = _sql.row("get", JobView)
list_refined_steps = _sql.rows("list_refined_steps", RefinedStepRow)
list_resumptions = _sql.column("list_resumptions", str)
get_waits = _sql.value("get_waits", str)
list_usual_durations_ms = _sql.rows("list_usual_durations_ms", UsualDurationRow)
list_launch_durations_ms = _sql.column("list_launch_durations_ms", int)


class LoadRow(NamedTuple):
    """The load of all processes on this database."""

    queue_depth: int
    jobs_parked: int
    jobs_under_way: int
    overdue: int
    oldest_overdue_s: float
    drifted_instances: int
    workers: int
    clock_s: float  # of the database, since the Unix epoch
    backed_up_at_s: float | None  # the same, of the last backup that `launchbay backup` has completed


count_waiting = _sql.value("count_waiting", int)
sample_load = _sql.row("sample_load", LoadRow)
count_with_changed_secrets = _sql.value("count_with_changed_secrets", int)
note_backup = _sql.change("note_backup")


class EndedJobRow(NamedTuple):
    """An ended job. `may_go`: its instance has enough newer ones."""

    id: str
    finished_at: datetime
    may_go: bool


class DeletedInstanceRow(NamedTuple):
    """A destroyed instance that was deleted."""

    id: str
    organization_id: str
    application_id: str
    name: str
    status: str


claim_retention_turn = _sql.value("claim_retention_turn", bool)
# Partitions by time of log lines, events and audit entries (decision 0094).
begin_block = _sql.value("begin_block", bool)
drop_partitions = _sql.value("drop_partitions", int)
list_ended_jobs = _sql.rows("list_ended_jobs", EndedJobRow)
delete_jobs = _sql.change("delete_jobs")
delete_log_lines_of_destroyed = _sql.change("delete_log_lines_of_destroyed")
delete_jobs_of_destroyed = _sql.change("delete_jobs_of_destroyed")
delete_destroyed = _sql.rows("delete_destroyed", DeletedInstanceRow)
