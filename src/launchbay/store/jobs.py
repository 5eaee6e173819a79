"""Jobs: their acceptance, claim, journal and end (`queries/jobs.sql`)."""

from datetime import datetime
from typing import NamedTuple

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


class OutcomeRow(NamedTuple):
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
versions = _sql.row("job_versions", VersionsRow)
records = _sql.rows("load_records", RecordRow)
write_journal = _sql.value("write_journal", str)
end = _sql.row("end_job", EndRow)
end_and_delete_instance = _sql.value("end_job_and_delete_instance", str)
outcome = _sql.row("job_outcome", OutcomeRow)
held = _sql.value("held_jobs", list)
