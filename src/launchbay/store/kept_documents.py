"""What steps keep beyond their job (`queries/kept_documents.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import load


class KeptRow(NamedTuple):
    """A document that is kept."""

    id: str
    version: int
    sealed: bytes


class KeyRow(NamedTuple):
    """Whose document it is."""

    component: str
    action: str
    name: str


_sql = load("kept_documents")
of_instance = _sql.rows("of_instance", KeyRow)
read = _sql.row("read", KeptRow)
write = _sql.value("write", int)
forget = _sql.change("forget")
holds = _sql.value("holds", bool)
