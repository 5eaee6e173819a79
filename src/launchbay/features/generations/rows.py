"""Generations of instances, and the rollbacks that are due."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.generations")


@dataclass(frozen=True, slots=True)
class Generation:
    """A configuration that took effect. `parameters`, `submodules` and `environment_view` are JSON texts."""

    number: int
    version: int
    revision_id: str | None
    parameters: str
    submodules: str
    environment_view: str
    job_id: str | None
    owner_id: str
    cause_kind: str | None
    cause_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewestGeneration(Generation):
    """One of the newest generations. `is_present`: the instance has its configuration."""

    is_present: bool


class DueRollback(NamedTuple):
    """A failed reconfiguration whose instance is to go back, and who asked for it.

    `token_id` is the access token with which they did, and `change_set_id` the change set that the job was part of. A
    job that `is_held` did only what somebody approved.
    """

    job_id: str
    instance_id: str
    owner_id: str
    email: str | None
    name: str | None
    token_id: str | None
    change_set_id: str | None
    is_held: bool


list_by_instance = _sql.rows("list_by_instance", Generation)
get = _sql.row("get", Generation)
list_newest = _sql.rows("list_newest", NewestGeneration)
get_failure_policy = _sql.value("get_failure_policy", str)
set_failure_policy = _sql.change("set_failure_policy")
list_due = _sql.column("list_due", str)
take_due = _sql.row("take_due", DueRollback)
delete_due = _sql.change("delete_due")
postpone_due = _sql.change("postpone_due")
note_refusal = _sql.change("note_refusal")

# Of an organization; `now` is the time.
wake = _sql.change("wake")
