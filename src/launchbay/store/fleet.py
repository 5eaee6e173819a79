"""Instances and jobs of a whole organization, by filters; labels."""

from datetime import datetime
from typing import NamedTuple

from launchbay.model.job import JobOutcome, OriginKind, is_cancellation
from launchbay.model.waits import Ends
from launchbay.store.statements import Column, Shape, load

_sql = load("fleet")


class FleetRow(NamedTuple):
    """An instance of a list.

    `place` and `id` say where it is in the order of the list. `total` is the number of all that fit, if it was
    asked for, and the only field that is set if nothing fits. `job_error` may contain secrets of the two JSON texts
    `parameters` and `environment_view`, which are None without an error. `is_asking` is true while the running job
    waits for an approval, and `is_asleep` while a sleep window has stopped the instance. One that `is_drifted` has
    findings that nobody ignores. One that `is_observed` was adopted, and isn't taken over yet. One that
    `has_changed_secrets` uses old values. One that `is_incomplete`
    has components that aren't launched, or submodules that have failed. If an earlier job than the last made it
    Failed, and workflows that leave the status have failed since, `cause_error`, `cause_workflow` and `cause_at_ms`
    are that one's. `destroy_at` is the nearest of `lifetime_ends_at`, `destroy_scheduled_at`, and `destroy_due_at`,
    when a destroy is due that can be taken back; the rule for idle instances asked for it if `is_idle_destroy`. Of
    a submodule it is None, and the others are of the instance that it goes with.
    """

    total: int | None
    place: str
    id: str | None
    name: str
    status: str
    application_id: str
    application: str
    environment_id: str
    environment: str
    version: int
    owner_id: str
    freezes: str | None
    parent_id: str | None
    labels: str
    component_count: int | None
    running_count: int | None
    destroy_at: datetime | None
    created_at: datetime
    job_id: str | None
    job_number: int | None
    job_name: str | None
    job_status: str | None
    is_asking: bool
    is_asleep: bool
    is_drifted: bool
    is_observed: bool
    has_changed_secrets: bool
    is_incomplete: bool
    destroy_due_at: datetime | None
    is_idle_destroy: bool | None
    destroy_scheduled_at: datetime | None
    lifetime_ends_at: datetime | None
    job_started_at_ms: int | None
    job_ended_at_ms: int | None
    job_error: str | None
    cause_error: str | None
    cause_workflow: str | None
    cause_at_ms: int | None
    parameters: str | None
    environment_view: str | None

    @property
    def is_ending(self) -> bool:
        return self.destroy_due_at is not None

    @property
    def destruction(self) -> str | None:
        """The sentences about the destroy that ends it; None without one."""
        return Ends(
            self.lifetime_ends_at,
            self.destroy_scheduled_at,
            self.destroy_due_at,
            bool(self.is_idle_destroy),
            self.parent_id is not None,
        ).message

    @property
    def job_outcome(self) -> str | None:
        """How the last job ended; None if none has."""
        return JobOutcome.CANCELLED if is_cancellation(self.job_error) else self.job_status


class ExpiryRow(NamedTuple):
    """An instance that expires."""

    id: str
    name: str
    owner_id: str
    destroy_at: datetime
    application_id: str
    environment_id: str


# What pages ask for again and again. Lists that are made of values, such as applications, are planned for these.
_INSTANCES = Shape(
    constants=frozenset({"statuses", "job_statuses", "job_outcomes", "sort"}),
    free=frozenset({"organization_id", "id_chars", "count"}),
)
_JOBS = Shape(
    constants=frozenset({"statuses", "outcomes"}),
    free=frozenset({"organization_id", "instance_ids", "each", "count", "most"}),
)
list_instances = _sql.rows("list_instances", FleetRow, shape=_INSTANCES)
# The IDs alone of the same list: PostgreSQL leaves out what only the other columns need.
list_instance_ids: Column[str] = Column(
    "list_instance_ids",
    b"SELECT id FROM (%s) AS listed WHERE id IS NOT NULL" % _sql.text("list_instances").strip().rstrip(b";"),
    is_prepared=False,
)
list_expiries = _sql.rows("list_expiries", ExpiryRow)


class FleetJobRow(NamedTuple):
    """A job of a list, with `total`, `place` and secrets as in FleetRow.

    `origin_kind` is what began it, if not a person. `current_step` is the path of the step that began last, of a job
    under way; `is_asking` is true while it waits for an approval.
    """

    total: int | None
    place: str
    id: str | None
    number: int | None
    name: str
    status: str
    instance_id: str
    instance: str
    application_id: str
    application: str
    environment_id: str
    environment: str
    owner_id: str
    owner: str | None
    parent_job_id: str | None
    plan_kind: str | None
    origin_kind: OriginKind | None
    origin_id: str
    origin_name: str | None
    parent_workflow: str | None
    current_step: str | None
    is_asking: bool | None
    created_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    error: str | None
    parameters: str | None
    environment_view: str | None

    @property
    def outcome(self) -> str:
        """How the job ended, or its status."""
        return JobOutcome.CANCELLED if is_cancellation(self.error) else self.status


class TimeRow(NamedTuple):
    """Jobs of one slot of time, counted backwards, or of all of them."""

    slot: int | None
    total: int
    failed: int
    cancelled: int
    running: int
    median_s: float | None


class GroupRow(NamedTuple):
    """How many instances have all of this in common.

    `job_status` is the outcome of the last job.
    """

    application_id: str
    application: str
    environment_id: str
    environment: str
    status: str
    job_status: str | None
    is_incomplete: bool
    instances: int


class WorkRow(NamedTuple):
    """How many jobs run, approvals wait, instances end soon, and jobs failed lately."""

    running: int
    approvals: int
    expiring: int
    failures: int


list_jobs = _sql.rows("list_jobs", FleetJobRow, shape=_JOBS)
count_jobs_by_time = _sql.rows("count_jobs_by_time", TimeRow, is_prepared=False)
list_unlisted = _sql.column("list_unlisted", str)
list_old_jobs = _sql.value("list_old_jobs", int)
summarize = _sql.rows("summarize", GroupRow)


class VersionCount(NamedTuple):
    """How many instances have a version of their application."""

    version: int
    instances: int


count_by_version = _sql.rows("count_by_version", VersionCount)
count_work = _sql.rows("count_work", WorkRow)
count_running = _sql.value("count_running", int)
get_views = _sql.value("get_views", str)
put_views = _sql.change("put_views")
search = _sql.column("search", str)
list_labeled = _sql.column("list_labeled", str)

set_labels = {
    "instance": _sql.change("set_instance_labels"),
    "application": _sql.change("set_application_labels"),
    "environment": _sql.change("set_environment_labels"),
}
lock_labels = {
    "instance": _sql.value("lock_instance_labels", str),
    "application": _sql.value("lock_application_labels", str),
    "environment": _sql.value("lock_environment_labels", str),
}
get_labels = {
    "instance": _sql.value("get_instance_labels", str),
    "application": _sql.value("get_application_labels", str),
    "environment": _sql.value("get_environment_labels", str),
}


class ConcernedRow(NamedTuple):
    """A live instance of what a directory changes."""

    id: str
    name: str
    application_id: str
    environment_id: str
    version: int


list_concerned = _sql.rows("list_concerned", ConcernedRow)
list_environments_of = _sql.column("list_environments_of", str)
