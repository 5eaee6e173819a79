"""Limits of how many jobs run at a time: settings, and places of jobs.

The functions of migration 0062 decide, in the transaction that accepts or ends a job.
"""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.concurrency_limits")


class OutrunRow(NamedTuple):
    """A job that a newer one of the group asks to end."""

    job_id: str
    title: str


class PlaceRow(NamedTuple):
    """A place in a group that a job holds or waits for.

    `least` is the group's limit, `held` and `waiting` are the numbers of its places.
    """

    bucket: str
    title: str
    least: int
    held: int
    waiting: int
    is_held: bool
    created_at: datetime
    job_id: str
    number: int
    workflow: str
    instance_id: str
    instance: str
    application_id: str
    environment_id: str


set_application_limits = _sql.change("set_application_limits")
set_environment_limits = _sql.change("set_environment_limits")
remove_limits = _sql.change("remove_limits")
apply_change = _sql.value("apply_change", bool)
list_outrun = _sql.rows("list_outrun", OutrunRow)
list_places = _sql.rows("list_places", PlaceRow)
