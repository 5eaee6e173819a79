"""Manifest versions (`queries/manifests.sql`)."""

from launchbay.store.statements import load

_sql = load("manifests")
content = _sql.value("content", str)
insert = _sql.change("insert")
exists = _sql.value("exists", bool)
