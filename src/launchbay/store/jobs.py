"""Jobs: their acceptance, claim, journal and end (`queries/jobs.sql`)."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.store.instances import JobRow
from launchbay.store.statements import load


class ClaimRow(NamedTuple):
    """A claimed job with its instance; whoever holds the fence may write."""

    fence: int
    plan: str
    steps: str
    parent_job_id: str | None  # the job that runs this one in its own course
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
    waited_s: float  # from its acceptance to its first start


class VersionsRow(NamedTuple):
    """In which versions a job and the state of its instance are stored (0086)."""

    plan: int
    state: int


class RecordRow(NamedTuple):
    """What is recorded of a step."""

    path: str
    status: str
    percent: int
    attempt: int
    started_at: datetime
    outputs: str | None
    error_message: str | None


class JobStatusRow(NamedTuple):
    """How a job stands."""

    status: str
    fence: int


class EndRow(NamedTuple):
    """Whether something fell due on the instance while the job ran; the others have no meaning."""

    work_waiting: bool
    written: object
    followed: object


_sql = load("jobs")
accept_launch = _sql.value("accept_launch", int)
accept_work = _sql.value("accept_work", int)
supersede = _sql.value("supersede_job", bool)
claim = _sql.row("claim_job", ClaimRow)
get_versions = _sql.row("job_versions", VersionsRow)
list_records = _sql.rows("load_records", RecordRow)
write_journal = _sql.value("write_journal", str)
end = _sql.row("end_job", EndRow)
end_and_delete_instance = _sql.value("end_job_and_delete_instance", str)
get_status = _sql.row("job_outcome", JobStatusRow)
list_held = _sql.value("held_jobs", list)


class ChildOutcomeRow(NamedTuple):
    """How an inner job stands; `results` is a JSON text once it has succeeded."""

    id: str
    status: str
    error_message: str | None
    results: str | None


class TargetRow(NamedTuple):
    """An instance that another one calls."""

    status: str
    job_id: str | None
    application_id: str
    version: int
    return_values: str
    name: str
    is_to_reconfigure: bool


class ChildRow(NamedTuple):
    """An inner job that is under way."""

    id: str


_inner_jobs_sql = load("inner_jobs")
begin_child = _inner_jobs_sql.value("begin", str)
get_child_outcome = _inner_jobs_sql.row("outcome", ChildOutcomeRow)
list_child_outcomes = _inner_jobs_sql.rows("outcomes", ChildOutcomeRow)
get_child_target = _inner_jobs_sql.row("target", TargetRow)
push_signals = _inner_jobs_sql.change("feed")
list_orphans = _inner_jobs_sql.rows("orphans", ChildRow)
list_running_children = _inner_jobs_sql.rows("under_way", ChildRow)
is_held = _inner_jobs_sql.value("is_held", bool)
get_unclaimed = _inner_jobs_sql.value("unclaimed", str)
list_orphaned_instances = _inner_jobs_sql.rows("left_behind", ChildRow)


class ControlRow(NamedTuple):
    """A job, and what decides whether it can be cancelled or resumed. `is_inner`: another job runs it."""

    id: str
    name: str
    status: str
    plan: str
    cancel_requested: bool
    is_inner: bool
    is_newest: bool


class LockedInstance(NamedTuple):
    """An instance while it is locked."""

    status: str
    job_id: str | None
    parameters: str
    version: int


class DescendantRow(NamedTuple):
    """A submodule's instance; `state` is a JSON text."""

    id: str
    name: str
    state: str


_job_control_sql = load("job_control")
get_control = _job_control_sql.row("look", ControlRow)
lock_instance = _job_control_sql.row("lock_instance", LockedInstance)
cancel = _job_control_sql.value("cancel", bool)
cancel_child = _job_control_sql.change("cancel_inner")
get_cancellation = _job_control_sql.value("cancellation", str)
get_plan = _job_control_sql.value("plan", str)
list_descendants = _job_control_sql.rows("below", DescendantRow)
take_over = _job_control_sql.value("take_over", int)
set_note = _job_control_sql.change("note")
set_parameters = _job_control_sql.change("set_parameters")


class StepView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the journal has of a step, its times in ms since the Unix epoch.

    `outputs` is JSON text; None with `has_outputs` means that they were left out because all together are too many.
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


class JobView(NamedTuple):
    """A job in detail. `steps` are the planned ones, `journal` is what became of them and of those inside of them."""

    id: str
    name: str
    status: str
    owner_id: str
    error_message: str | None
    plan: str
    steps: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    parameters: str
    environment_view: str
    journal: str

    def planned(self) -> list[tuple[str, str, str, int]]:
        """Return the planned steps in the manifest's order: path, name, status and percent."""
        return _planned.decode(self.steps)

    def recorded(self) -> list[StepView]:
        """Return what the journal has, in the order in which the steps started."""
        return _recorded.decode(self.journal)


def read_page(text: str) -> list[JobRow]:
    """Return the jobs of a page."""
    return _page.decode(text)


_page = msgspec.json.Decoder(list[JobRow])
_planned = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_recorded = msgspec.json.Decoder(list[StepView])
_job_views_sql = load("job_views")
get_page = _job_views_sql.value("page", str)
get = _job_views_sql.row("one", JobView)


class LoadRow(NamedTuple):
    """The load of all processes on the database."""

    queue_depth: int
    jobs_under_way: int
    overdue: int
    oldest_overdue_s: float
    workers: int


_load_sql = load("load")
count_waiting = _load_sql.value("backlog", int)
sample_load = _load_sql.row("sample", LoadRow)


class EndedJobRow(NamedTuple):
    """An ended job, and whether its instance has enough newer ones."""

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


_retention_sql = load("retention")
claim_retention_turn = _retention_sql.value("take_turn", bool)
delete_log_lines = _retention_sql.change("drop_log_lines")
delete_audit_entries = _retention_sql.change("drop_audit_entries")
list_ended_jobs = _retention_sql.rows("look_at_jobs", EndedJobRow)
delete_jobs = _retention_sql.change("drop_jobs")
delete_log_lines_of_destroyed = _retention_sql.change("drop_lines_of_destroyed")
delete_jobs_of_destroyed = _retention_sql.change("drop_jobs_of_destroyed")
delete_destroyed = _retention_sql.rows("drop_destroyed", DeletedInstanceRow)
