"""Which key each host of machines showed at its first use (`queries/host_keys.sql`)."""

from launchbay.store.statements import load

_sql = load("host_keys")
get = _sql.value("get", str)
pin = _sql.change("pin")
forget = _sql.change("forget")
