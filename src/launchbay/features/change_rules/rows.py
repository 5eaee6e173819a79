"""Rules about changes: their versions, and what they ask about a change."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.change_rules")


class CurrentRow(NamedTuple):
    """The stamp of an organization, and one text in force there.

    Without one, its fields are None.
    """

    access_stamp: int
    owner_id: str | None
    application_id: str | None
    environment_id: str | None
    version: int | None
    rules: str | None


class InForceRow(NamedTuple):
    """A text in force, whose it is, and who wrote it.

    Without application and environment, it is of the organization. The address is None if the account was deleted.
    """

    owner_id: str
    application_id: str | None
    environment_id: str | None
    name: str
    version: int
    rules: str
    author_email: str | None
    created_at: datetime


class VersionRow(NamedTuple):
    """One version of a text. The address is None if the account was deleted."""

    version: int
    rules: str
    author_id: str
    author_email: str | None
    created_at: datetime


class FactsRow(NamedTuple):
    """The objects of a change; None for what doesn't exist.

    Labels, markers, properties and change set are JSON.
    """

    application: str | None
    application_labels: str | None
    environment: str | None
    environment_labels: str | None
    markers: str | None
    properties: str | None
    instance: str | None
    instance_labels: str | None
    status: str | None
    version: int | None
    revision_id: str | None
    revision: str | None
    revision_version: int | None
    email: str | None
    person: str | None
    roles: list[str]
    change_set: str | None


class RecentRow(NamedTuple):
    """An entry of the audit log about a change, and where that happened.

    The places are None if they aren't known. `after` is JSON. With a change set, it is one of the changes of that.
    """

    at: datetime
    actor_id: str
    actor_email: str
    method: str
    token_id: str | None
    token_name: str | None
    operation: str
    object: str
    after: str | None
    application_id: str | None
    environment_id: str | None
    instance_id: str | None
    change_set_id: str | None


list_current = _sql.rows("list_current", CurrentRow)
list_in_force = _sql.rows("list_in_force", InForceRow)
get_current = _sql.row("get_current", VersionRow)
get_version = _sql.row("get_version", VersionRow)
list_versions = _sql.rows("list_versions", VersionRow)
lock_rules = _sql.value("lock_rules", bool)
retire = _sql.change("retire")
insert = _sql.change("insert")
list_under_way = _sql.column("list_under_way", str)
list_still_under_way = _sql.column("list_still_under_way", str)
list_recent = _sql.rows("list_recent", RecentRow, is_prepared=False)
get_facts = _sql.row("get_facts", FactsRow)
