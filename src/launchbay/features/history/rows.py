"""What instances were: the values that their changes replaced (decision 0113)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.history")


class FormerValue(NamedTuple):
    """The text that a field had before its first change after a time."""

    key: str
    value: str | None


class ChangeRow(NamedTuple):
    """A change, and its job if it has one.

    `former` is a JSON object: field → the text before.
    """

    id: int
    at: datetime
    former: str
    job_id: str | None
    name: str | None
    number: int | None
    owner_id: str | None


class PresentRow(NamedTuple):
    """An instance at present.

    `machines` is a JSON object by component, `children` one of `[application ID, version]` by instance ID.
    """

    machines: str
    recorded_since: datetime
    children: str


class StepRow(NamedTuple):
    """A step that had begun."""

    path: str
    status: str
    percent: int


list_former_values = _sql.rows("list_former_values", FormerValue)
list_changes = _sql.rows("list_changes", ChangeRow)
get_present = _sql.row("get_present", PresentRow)
list_jobs_at = _sql.value("list_jobs_at", str)
list_steps_at = _sql.rows("list_steps_at", StepRow)
traces = (traces_in(_sql, "former states of instances", "instance_history"),)
