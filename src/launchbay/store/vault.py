"""Key pairs and secrets that vaults keep, sealed (`queries/vault.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.statements import load


class EntryRow(NamedTuple):
    """What may be shown of an entry; the algorithm and the public key are those of key pairs."""

    id: str
    name: str
    algorithm: str | None
    public_key: str | None
    created_at: datetime
    changed_at: datetime


class SealedEntry(NamedTuple):
    """An entry to be opened."""

    id: str
    name: str
    sealed: bytes
    algorithm: str | None
    public_key: str | None


class OfferedEntry(NamedTuple):
    """An entry to be opened, and whose it is."""

    id: str
    name: str
    sealed: bytes
    public_key: str | None
    service_id: str
    service_name: str


_sql = load("vault")
entries = _sql.rows("entries", EntryRow)
find = _sql.row("find", SealedEntry)
count_others = _sql.value("count_others", int)
insert = _sql.change("insert")
replace = _sql.change("replace")
delete = _sql.change("delete")
in_environment = _sql.rows("in_environment", OfferedEntry)
vaults_with = _sql.rows("vaults_with", NamedRow)
