"""Cancelling and resuming jobs (`queries/job_control.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import load


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


class BelowRow(NamedTuple):
    """A submodule's instance; `state` is a JSON text."""

    id: str
    name: str
    state: str


_sql = load("job_control")
look = _sql.row("look", ControlRow)
lock_instance = _sql.row("lock_instance", LockedInstance)
cancel = _sql.value("cancel", bool)
cancel_inner = _sql.change("cancel_inner")
cancellation = _sql.value("cancellation", str)
plan = _sql.value("plan", str)
below = _sql.rows("below", BelowRow)
take_over = _sql.value("take_over", int)
note = _sql.change("note")
set_parameters = _sql.change("set_parameters")
