"""Instances: lists, history, small changes (`queries/instances.sql`)."""

from typing import NamedTuple

import msgspec

from launchbay.model.instance_summary import InstanceSummary
from launchbay.store.statements import load


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job of the history, its times in ms since the Unix epoch. `steps` are `(path, name, status, percent)`.

    `live_steps`, of the running job only, are `(path, status, percent)` and newer.
    """

    id: str
    name: str
    status: str
    owner_id: str
    steps: list[tuple[str, str, str, int]]
    error_message: str | None
    started_at_ms: int | None
    finished_at_ms: int | None
    live_steps: list[tuple[str, str, int]] | None


class LockRow(NamedTuple):
    """What decides about deletion: `plan` is the one of the job under way."""

    status: str
    job_id: str | None
    plan: str | None
    may_hold_something: bool


_history = msgspec.json.Decoder(list[JobRow])


def read_history(text: str) -> list[JobRow]:
    """Return the jobs of an instance's history, which the database gives as JSON."""
    return _history.decode(text)


class CatalogRow(NamedTuple):
    """The parameters of a shared-instances catalog, a JSON text."""

    parameters: str


class LinkedRow(NamedTuple):
    """The instance behind a component; all but the link itself is None when it is gone."""

    component: str
    target_id: str
    kind: str
    application_id: str | None
    version: int | None
    revision_id: str | None
    parameters: str | None
    name: str | None
    status: str | None
    binding: str | None


class StandingRow(NamedTuple):
    """How far an instance is; `state`, `before` and `parameters` are JSON texts."""

    state: str
    before: str | None
    status: str
    application_id: str
    version: int
    parameters: str


_sql = load("instances")
of_application = _sql.rows("of_application", InstanceSummary)
of_environment = _sql.rows("of_environment", InstanceSummary)
of_revision = _sql.rows("of_revision", InstanceSummary)
set_user_data = _sql.change("set_user_data")
lock = _sql.row("lock", LockRow)
delete = _sql.change("delete")
insert_child = _sql.change("insert_child")
state = _sql.value("state", str)
insert_links = _sql.change("insert_links")
shared_catalogs = _sql.rows("shared_catalogs", CatalogRow)
linked = _sql.rows("linked", LinkedRow)
standing = _sql.row("standing", StandingRow)
change_configuration = _sql.change("change_configuration")
