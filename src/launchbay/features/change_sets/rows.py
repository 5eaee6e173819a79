"""Change sets, their instances and answers, and who approves them."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.keys import sealed_column
from launchbay.store.lookups import LookupQuery
from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.change_sets")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set without what it does. `instances` and `plans` are their numbers.

    With `confirm`, any person who may approve confirms it, the author too, but no access token. What the apply of a
    directory touches are existing environments and applications; `differences` is its result, a JSON text.
    """

    id: str
    organization_id: str
    owner_id: str
    owner_email: str
    token_id: str | None
    kind: str
    comment: str
    on_failure: str
    needed: int
    role_ids: list[str]
    confirm: bool
    status: str
    created_at: datetime
    expires_at: datetime
    applied_by: str | None
    applied_at: datetime | None
    finished_at: datetime | None
    environment_ids: list[str]
    application_ids: list[str]
    differences: str | None
    git_source_id: str | None
    git_commit: str | None
    instances: int
    plans: int


class ChangeSetInstance(NamedTuple):
    """What a change set does to one instance.

    `promise`, `facts` and `differences` are JSON texts. `message` may contain secrets of the JSON texts `parameters`
    and `environment_view`, which are None without one.
    """

    place: int
    instance_id: str | None
    instance_name: str
    application_id: str
    environment_id: str
    promise: str
    facts: str
    status: str
    job_id: str | None
    message: str | None
    differences: str | None
    parameters: str | None
    environment_view: str | None


class TouchedRow(NamedTuple):
    """What one instance of a change set is."""

    change_set_id: str
    application_id: str
    instance_id: str | None
    environment_id: str


class DiscardedRow(NamedTuple):
    """A deleted change set, and who it was made for."""

    owner_id: str
    owner_email: str
    kind: str
    status: str
    comment: str


class AnswerRow(NamedTuple):
    """Who approved or rejected, perhaps with an access token."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at: datetime
    token_id: str | None


class LockedRow(NamedTuple):
    """A locked change set; its act is sealed."""

    act: bytes
    status: str


class EndedRow(NamedTuple):
    """An instance whose job has ended.

    The job or the instance may be gone. `ran` are the workflows, as `component#workflow`.
    """

    place: int
    application_id: str
    promise: str
    facts: str
    job_status: str | None
    error_message: str | None
    version: int | None
    parameters: str | None
    state: str | None
    ran: list[str]


class StoppedRow(NamedTuple):
    """A job that stopped because a step wasn't as approved, with its change set.

    Its act is sealed. The job and its instance may be gone, and so may the account of the owner, who has no name then.
    """

    job_id: str
    change_set_id: str
    tries: int
    job_status: str | None
    job_error: str | None
    instance_id: str | None
    version: int | None
    instance_status: str | None
    organization_id: str
    owner_id: str
    owner_email: str
    owner_name: str | None
    token_id: str | None
    act: bytes
    comment: str
    needed: int
    confirm: bool
    expires_in_ms: int


class FollowUpRow(NamedTuple):
    """What follows an instance whose job stopped.

    That is a change set, or `problem` says what prevents it. While it `is_due`, it will be tried again.
    """

    place: int
    is_due: bool
    follow_up_id: str | None
    problem: str | None


class UsualRow(NamedTuple):
    """How long a workflow usually takes."""

    workflow: str
    usual_ms: int


class PolicyRow(NamedTuple):
    """The policy of an environment, as JSON."""

    id: str
    change_policy: str


class ApprovalRow(NamedTuple):
    """The policy of an environment, as JSON, and the approvals of a change set."""

    environment: str
    change_policy: str
    approvals: int
    role_ids: list[str]


def act_purpose(change_set_id: str) -> str:
    """Return what the act of a change set is sealed for."""
    return f"change set {change_set_id}"


count_open = _sql.value("count_open", int)
delete_old = _sql.change("delete_old")
insert = _sql.change("insert")
insert_instances = _sql.change("insert_instances")
list_by_organization = _sql.rows("list_by_organization", ChangeSet)
list_asking = _sql.rows("list_asking", ChangeSet)
list_touched = _sql.rows("list_touched", TouchedRow)
keep_seen = _sql.column("keep_seen", str)
list_instances = _sql.rows("list_instances", ChangeSetInstance)
list_answers = _sql.rows("list_answers", AnswerRow)
insert_answer = _sql.change("insert_answer")
delete_answer = _sql.change("delete_answer")
get_act = _sql.value("get_act", bytes)
lock = _sql.row("lock", LockedRow)
lacks_roles = _sql.value("lacks_roles", bool)
set_status = _sql.change("set_status")
begin = _sql.change("begin")
begin_instance = _sql.change("begin_instance")
post = _sql.value("post", str)
delete = _sql.change("delete")
discard = _sql.row("discard", DiscardedRow)
list_applying = _sql.column("list_applying", str)
take = _sql.value("take", str)
list_ended = _sql.rows("list_ended", EndedRow)
end_instance = _sql.change("end_instance")
finish = _sql.change("finish")
lock_directory = _sql.value("lock_directory", int)
end_directory = _sql.change("end_directory")
supersede = _sql.column("supersede", str)
list_of_source = _sql.column("list_of_source", str)
list_usual_durations = _sql.rows("list_usual_durations", UsualRow)
list_due_replans = _sql.column("list_due_replans", str)
take_replan = _sql.row("take_replan", StoppedRow)
end_replan = _sql.change("end_replan")
postpone_replan = _sql.change("postpone_replan")
list_open_follow_ups = _sql.column("list_open_follow_ups", str)
list_refused = _sql.rows("list_refused", FollowUpRow)
get_followed = _sql.value("get_followed", str)
note_in_log = _sql.change("note_in_log")
get_approval = _sql.row("get_approval", ApprovalRow)
list_policies = _sql.rows("list_policies", PolicyRow)
set_policy = _sql.change("set_policy")
change_set = LookupQuery(_sql.query("change_set"), ChangeSet, noun="change set")
lock_change_set = _sql.value("lock_change_set", str)
sealed_acts = sealed_column(_sql, "change_sets", "list_sealed", "put_sealed")
list_ids_of_address = _sql.column("list_ids_of_address", str)
traces = (
    traces_in(_sql, "answers to change sets", "change_set_answers", ids=list_ids_of_address),
    traces_in(_sql, "change sets", "change_sets"),
    traces_in(_sql, "instances of change sets", "change_set_instances"),
    traces_in(_sql, "stopped jobs of change sets", "refused_jobs"),
)
