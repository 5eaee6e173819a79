"""Plans, and what their steps need to do exactly what was planned."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.keys import sealed_column
from launchbay.store.statements import load

_sql = load("features.plans")


class PlanRow(NamedTuple):
    """A plan without what was asked. `result` is JSON."""

    id: str
    organization_id: str
    place: int | None
    status: str
    result: str | None
    problem: str | None
    digest: str | None
    created_at: datetime
    expires_at: datetime
    is_begun: bool

    @property
    def shown(self) -> str:
        """What stands for all that is shown of it.

        It changes when the plan is made.
        """
        return self.digest or self.id


class KeptRequest(NamedTuple):
    """What was asked, sealed, and the change set of a plan."""

    request: bytes
    change_set_id: str | None


class TakenPlan(NamedTuple):
    """A plan that this process makes."""

    id: str
    organization_id: str
    owner_id: str
    change_set_id: str | None
    request: bytes
    fence: int


class ApprovedRow(NamedTuple):
    """The plan of a job, with the artifact of one step.

    `refused` is why the job refused that step already.
    """

    id: str
    result: str | None
    sealed: bytes | None
    refused: str | None


class RefusedJob(NamedTuple):
    """A job with steps at `paths` that weren't as approved, and why the first wasn't."""

    paths: list[str]
    reason: str


class ArtifactRow(NamedTuple):
    """The sealed artifact of a step."""

    path: str
    sealed: bytes


class KeptBytes(NamedTuple):
    """What is kept: artifacts of an organization's plans, and results of a change set's."""

    artifacts: int
    results: int


def request_purpose(plan_id: str) -> str:
    """Return what the request of a plan is sealed for."""
    return f"request of plan {plan_id}"


def artifact_purpose(plan_id: str, path: str) -> str:
    """Return what the artifact of a step is sealed for."""
    return f"plan {plan_id}, step {path}"


lock_plan = _sql.value("lock_plan", str)
count_waiting = _sql.value("count_waiting", int)
delete_oldest = _sql.change("delete_oldest")
insert = _sql.change("insert")
get_asked = _sql.value("get_asked", str)
get_request = _sql.row("get_request", KeptRequest)
get = _sql.row("get", PlanRow)
list_of_change_set = _sql.rows("list_of_change_set", PlanRow)
bind = _sql.change("bind")
delete = _sql.change("delete")
delete_waiting = _sql.change("delete_waiting")
delete_artifacts = _sql.change("delete_artifacts")
get_kept_bytes = _sql.row("get_kept_bytes", KeptBytes)
delete_of_change_set = _sql.change("delete_of_change_set")
list_due = _sql.column("list_due", str)
list_expired = _sql.column("list_expired", str)
delete_expired = _sql.change("delete_expired")
take = _sql.row("take", TakenPlan)
renew = _sql.change("renew")
give_back = _sql.change("give_back")
finish = _sql.change("finish")
insert_artifact = _sql.change("insert_artifact")
list_artifacts = _sql.rows("list_artifacts", ArtifactRow)
get_of_job = _sql.row("get_of_job", ApprovedRow)
refuse_job = _sql.value("refuse_job", str)
get_refused = _sql.row("get_refused", RefusedJob)
begin_step = _sql.change("begin_step")
begun_by = _sql.value("begun_by", str)
sealed_requests = sealed_column(_sql, "requests of plans", "list_sealed_requests", "put_sealed_request")
sealed_artifacts = sealed_column(_sql, "artifacts of plans", "list_sealed_artifacts", "put_sealed_artifact")
