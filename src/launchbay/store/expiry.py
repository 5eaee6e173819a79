"""When instances are destroyed by themselves (`queries/expiry.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class ExpiryRow(NamedTuple):
    """An instance, locked. `is_offered`: some environment offers it as a service."""

    status: str
    destroy_at: datetime | None
    is_offered: bool


_sql = load("expiry")
lock = _sql.row("lock", ExpiryRow)
move = _sql.change("move")
clear = _sql.change("clear")
