"""Environments (`queries/environments.sql`)."""

from launchbay.store.statements import load

_sql = load("environments")
default_id = _sql.value("default_id", str)
insert = _sql.change("insert")
