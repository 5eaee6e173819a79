"""Bulk runs and the outcome of each of their instances."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.keys import sealed_column
from launchbay.store.lookups import LookupQuery
from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.bulk")


@dataclass(frozen=True, slots=True)
class BulkRun:
    """A bulk run.

    `act` (without parameters) and `counts` (instances by status) are JSON. `freeze` is what an instance is put off by.
    """

    id: str
    organization_id: str
    owner_id: str
    token_id: str | None
    act: str
    status: str
    max_parallel: int
    stop_after_failures: int | None
    created_at: datetime
    finished_at: datetime | None
    counts: str
    freeze: str | None


class BulkInstanceRow(NamedTuple):
    """An instance of a bulk run and its outcome.

    `message` may contain secrets of the JSON texts `parameters` and `environment_view`, which are None without one.
    """

    place: int
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    status: str
    job_id: str | None
    message: str | None
    started_at: datetime | None
    finished_at: datetime | None
    parameters: str | None
    environment_view: str | None


class TakenRow(NamedTuple):
    """A locked bulk run, and on whose behalf it acts.

    An older server left `sealed_act` empty, and parameters in `act`.
    """

    id: str
    organization_id: str
    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None
    act: str
    sealed_act: bytes | None
    status: str
    max_parallel: int
    stop_after_failures: int | None


class UnsealedRow(NamedTuple):
    """A bulk run of an older server, whose act may contain parameters."""

    id: str
    act: str


class StatesRow(NamedTuple):
    """Counts of instances by the state of their turn in a bulk run.

    `failed` is 0 for a run that doesn't stop after failures.
    """

    running: int
    is_waiting: bool
    failed: int


class NextRow(NamedTuple):
    """An instance whose turn it is."""

    place: int
    instance_id: str


class LastJobRow(NamedTuple):
    """The newest job of an instance."""

    id: str
    status: str


def act_purpose(bulk_id: str) -> str:
    """Return what the act of a bulk run is sealed for."""
    return f"bulk run {bulk_id}"


count_open = _sql.value("count_open", int)
insert = _sql.change("insert")
insert_instances = _sql.change("insert_instances")
delete_old = _sql.change("delete_old")
list_runs = _sql.rows("list_runs", BulkRun)
keep_seen = _sql.column("keep_seen", str)
list_instances = _sql.rows("list_instances", BulkInstanceRow)
lock_status = _sql.value("lock_status", str)
set_status = _sql.change("set_status")
drop_waiting = _sql.change("drop_waiting")
list_open = _sql.column("list_open", str)
take = _sql.row("take", TakenRow)
list_unsealed = _sql.rows("list_unsealed", UnsealedRow)
seal = _sql.change("seal")
get_sealed_act = _sql.value("get_sealed_act", bytes)
settle = _sql.change("settle")
count_states = _sql.row("count_states", StatesRow)
get_next = _sql.row("get_next", NextRow)
begin_instance = _sql.change("begin_instance")
refuse_instance = _sql.change("refuse_instance")
postpone_instance = _sql.change("postpone_instance")
forget_put_offs = _sql.change("forget_put_offs")
has_users_left = _sql.value("has_users_left", bool)
finish = _sql.change("finish")
get_last_job = _sql.row("get_last_job", LastJobRow)
bulk = LookupQuery(_sql.query("bulk"), BulkRun, noun="bulk run")
lock_bulk = _sql.value("lock_bulk", str)
sealed_acts = sealed_column(_sql, "bulk_runs", "list_sealed", "put_sealed")
traces = (
    traces_in(_sql, "bulk runs", "bulk_runs"),
    traces_in(_sql, "instances of bulk runs", "bulk_instances"),
)

# Of an organization; `now` is the time.
wake = _sql.change("wake")
