"""What organizations may use, where the operator has set it, and what they use."""

from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("quotas")


class AllowedRow(NamedTuple):
    """A quota that the operator has set for one organization. 0 allows any amount."""

    organization_id: str
    quota: str
    allowed: int


class BytesRow(NamedTuple):
    """The logs of an organization after an addition."""

    organization_id: str
    log_bytes: int


class MeasuredRow(NamedTuple):
    """What the rows of some instances contain now.

    The last of these instances is None if there were none.
    """

    last_id: str | None
    log_bytes: int
    journal_bytes: int


class MiscountedRow(NamedTuple):
    """An organization, and how many more instances it has than the kept number says."""

    organization_id: str
    missing: int


list_allowed = _sql.rows("list_allowed", AllowedRow)
set_allowed = _sql.change("set_allowed")
reset_allowed = _sql.change("reset_allowed")
count = _sql.column("count", int)
lock = _sql.value("lock", bool)
add_bytes = _sql.rows("add_bytes", BytesRow)
list_counted_changes = _sql.column("list_counted_changes", str)
fold_instance_counts = _sql.change("fold_instance_counts")
list_miscounted = _sql.rows("list_miscounted", MiscountedRow)
correct_instance_count = _sql.value("correct_instance_count", int)
claim_measurement = _sql.value("claim_measurement", str)
measure = _sql.row("measure", MeasuredRow)
set_measured = _sql.change("set_measured")
exchange_activity = _sql.column("exchange_activity", str)
