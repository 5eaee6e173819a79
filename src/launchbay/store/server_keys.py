"""Keys that all servers of one database share: made by the first that needs one, never changed."""

from launchbay.store.statements import load

_sql = load("server_keys")

get = _sql.value("get", bytes)
propose = _sql.change("propose")
