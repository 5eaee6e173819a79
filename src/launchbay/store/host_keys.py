"""Which key each host of machines showed at its first use (`queries/host_keys.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class HostKeyRow(NamedTuple):
    """A pinned key; `host` is an address with its port."""

    host: str
    public_key: str
    pinned_at: datetime


_sql = load("host_keys")
get = _sql.value("get", str)
pin = _sql.change("pin")
forget = _sql.change("forget")
of_organization = _sql.rows("of_organization", HostKeyRow)
