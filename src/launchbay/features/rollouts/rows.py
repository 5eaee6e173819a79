"""Rollouts and the outcome of each of their instances."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.lookups import LookupQuery
from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.rollouts")


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout.

    `waves` are numbers of instances, `counts` a JSON map by status. `freeze` is what an instance is put off by.
    """

    id: str
    organization_id: str
    application_id: str
    version: int
    owner_id: str
    token_id: str | None
    comment: str
    waves: list[int]
    wave: int
    wave_done_at: datetime | None
    pause_ms: int | None
    health_workflow: str | None
    max_parallel: int
    stop_after_failures: int
    on_failure: str
    status: str
    created_at: datetime
    finished_at: datetime | None
    counts: str
    freeze: str | None


class RolloutInstanceRow(NamedTuple):
    """An instance of a rollout and its outcome.

    `message` may contain secrets of the JSON texts `parameters` and `environment_view`, which are None without one.
    """

    place: int
    wave: int
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    former_version: int
    generation: int | None
    status: str
    job_id: str | None
    message: str | None
    started_at: datetime | None
    finished_at: datetime | None
    parameters: str | None
    environment_view: str | None


class FailureRow(NamedTuple):
    """The first failure of a rollout; the fields are those of `RolloutInstanceRow`."""

    rollout_id: str
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    message: str | None
    parameters: str | None
    environment_view: str | None


class FirstRow(NamedTuple):
    """One of the first instances of a wave."""

    wave: int
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    status: str


class WaveCountRow(NamedTuple):
    """How many instances of a wave have a status."""

    wave: int
    status: str
    instances: int


class TakenRow(NamedTuple):
    """A locked rollout, and on whose behalf it acts.

    `waits` tells whether a person continues after each wave, and `is_paused_enough` whether the next one may begin.
    """

    id: str
    organization_id: str
    version: int
    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None
    waves: int
    wave: int
    health_workflow: str | None
    max_parallel: int
    failures_bound: int
    on_failure: str
    status: str
    waits: bool
    is_wave_done: bool
    is_paused_enough: bool


class StatesRow(NamedTuple):
    """How many instances have a job, wait in the wave, were begun, and failed."""

    running: int
    waiting: int
    begun: int
    failed: int


class NextRow(NamedTuple):
    """An instance whose turn it is."""

    place: int
    instance_id: str
    status: str
    generation: int | None


count_open = _sql.value("count_open", int)
insert = _sql.change("insert")
insert_instances = _sql.change("insert_instances")
delete_old = _sql.change("delete_old")
list_by_organization = _sql.rows("list_by_organization", Rollout)
keep_seen = _sql.column("keep_seen", str)
list_instances = _sql.rows("list_instances", RolloutInstanceRow)
list_failures = _sql.rows("list_failures", FailureRow)
list_first = _sql.rows("list_first", FirstRow)
count_by_wave = _sql.rows("count_by_wave", WaveCountRow)
lock_status = _sql.value("lock_status", str)
stop = _sql.change("stop")
go_on = _sql.change("go_on")
take_back = _sql.change("take_back")
list_open = _sql.column("list_open", str)
take = _sql.row("take", TakenRow)
settle = _sql.change("settle")
count_states = _sql.row("count_states", StatesRow)
get_next = _sql.row("get_next", NextRow)
get_next_back = _sql.row("get_next_back", NextRow)
begin_instance = _sql.change("begin_instance")
refuse_instance = _sql.change("refuse_instance")
postpone_instance = _sql.change("postpone_instance")
skip_waiting = _sql.change("skip_waiting")
end_wave = _sql.change("end_wave")
begin_wave = _sql.change("begin_wave")
finish = _sql.change("finish")
rollout = LookupQuery(_sql.query("rollout"), Rollout, noun="rollout")
lock_rollout = _sql.value("lock_rollout", str)
traces = (
    traces_in(_sql, "rollouts", "rollouts"),
    traces_in(_sql, "instances of rollouts", "rollout_instances"),
)

# Of an organization; `now` is the time.
wake = _sql.change("wake")
