"""Manifest versions (`queries/manifests.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class VersionRow(NamedTuple):
    """A manifest version as lists show it."""

    version: int
    created_at: datetime
    author_id: str


_sql = load("manifests")
content = _sql.value("content", str)
of_application = _sql.rows("of_application", VersionRow)
insert = _sql.change("insert")
exists = _sql.value("exists", bool)
