"""Freezes of environments and applications, which are columns of theirs."""

from datetime import datetime
from typing import NamedTuple

from launchbay.model.changes import FrozenKind
from launchbay.store.statements import load

_sql = load("features.freezes")


class FreezeRow(NamedTuple):
    """An environment or application with its switch and windows.

    Both are JSON, or None.
    """

    kind: FrozenKind
    id: str
    name: str
    frozen: str | None
    freeze_windows: str | None


class OverrideRow(NamedTuple):
    """Who changed something that was frozen, when and why."""

    at: datetime
    actor_id: str
    actor_email: str
    reason: str


# It waits for a freeze that is being set, and reads what it left.
hold = _sql.rows("hold", FreezeRow)

# Without those that another transaction is changing.
try_hold = _sql.rows("try_hold", FreezeRow)

list_freezes = _sql.rows("list_freezes", FreezeRow)
get_environment = _sql.row("get_environment", FreezeRow)
get_application = _sql.row("get_application", FreezeRow)
get_address = _sql.value("get_address", str)

# They wait for the transactions that hold one.
freeze_environment = _sql.change("freeze_environment")
freeze_application = _sql.change("freeze_application")
set_environment_windows = _sql.change("set_environment_windows")
set_application_windows = _sql.change("set_application_windows")

# The transactions that may bring new instances, in all organizations.
list_launching = _sql.column("list_launching", str)

get_last_override = _sql.row("get_last_override", OverrideRow)
