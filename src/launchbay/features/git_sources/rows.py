"""Sources in Git, what came of each look at them, and their previews."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.store.keys import sealed_column
from launchbay.store.lookups import LookupQuery
from launchbay.store.statements import load

_sql = load("features.git_sources")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A source in Git.

    `settings` is JSON; parameters of previews are sealed apart. Commits are those seen, applied, planned and approved
    last.
    """

    id: str
    organization_id: str
    name: str
    account_id: str
    application_id: str | None
    settings: str
    sealed_parameters: bytes | None
    is_paused: bool
    due_at: datetime | None
    seen: str | None
    applied: str | None
    planned: str | None
    approved: str | None
    problem: str | None
    looked_at: datetime | None
    failures: int
    is_running: bool | None
    created_at: datetime


class TakenRow(NamedTuple):
    """A source whose lease this process has."""

    id: str
    organization_id: str
    name: str
    account_id: str
    application_id: str | None
    settings: str
    fence: int
    is_forced: bool
    failures: int
    seen: str | None
    applied: str | None
    planned: str | None
    approved: str | None
    due_at: datetime
    started_at: datetime


class SyncRow(NamedTuple):
    """What came of looking at a source; `changes` is a JSON list."""

    id: str
    commit: str | None
    pull_request: int | None
    status: str
    message: str | None
    changes: str
    change_set_ids: list[str]
    instance_id: str | None
    attempts: int
    is_reporting: bool
    report_problem: str | None
    started_at: datetime
    ended_at: datetime


def parameters_purpose(source_id: str) -> str:
    """Return what the parameters of a source's previews are sealed for."""
    return f"previews of the Git source {source_id}"


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Return the files of a commit as they are stored."""
    return zlib.compress(msgspec.msgpack.encode(dict(files)))


def unpack_files(data: bytes) -> dict[str, bytes]:
    return msgspec.msgpack.decode(zlib.decompress(bytes(data)), type=dict[str, bytes])


count = _sql.value("count", int)
insert = _sql.change("insert")
list_by_organization = _sql.rows("list_by_organization", GitSource)
update = _sql.change("update")
delete = _sql.change("delete")
request = _sql.change("request")
approve = _sql.change("approve")
list_due = _sql.column("list_due", str)
take = _sql.row("take", TakenRow)
renew = _sql.change("renew")
hold = _sql.value("hold", str)
finish = _sql.change("finish")
set_applied = _sql.change("set_applied")
get_files = _sql.value("get_files", bytes)
end_change_set = _sql.change("end_change_set")
lock = _sql.value("lock", str)
insert_sync = _sql.change("insert_sync")
delete_old_syncs = _sql.change("delete_old_syncs")
list_syncs = _sql.rows("list_syncs", SyncRow)


class EventTargetRow(NamedTuple):
    """The source that an event is for."""

    id: str
    organization_id: str
    account_id: str
    application_id: str | None
    settings: str
    is_paused: bool


class ReportRow(NamedTuple):
    """An outcome to report to its commit."""

    id: str
    source_id: str
    organization_id: str
    account_id: str
    application_id: str | None
    settings: str
    commit: str | None
    pull_request: int | None
    status: str
    message: str | None
    changes: str
    instance_id: str | None
    report_attempts: int


class PreviewRow(NamedTuple):
    """The preview of a pull request."""

    number: int
    branch: str
    commit: str
    is_open: bool
    applied: str | None
    application_id: str | None
    instance_id: str | None
    problem: str | None
    changed_at: datetime


class TakenPreviewRow(NamedTuple):
    """A preview whose lease this process has, with what its source says."""

    source_id: str
    number: int
    branch: str
    commit: str
    is_open: bool
    fence: int
    failures: int
    preview_id: str | None
    instance_id: str | None
    applied: str | None
    due_at: datetime | None
    organization_id: str
    account_id: str
    application_id: str | None
    settings: str
    sealed_parameters: bytes | None
    started_at: datetime
    changed_at: datetime


class UnsealedRow(NamedTuple):
    """A source whose `settings` contain parameters."""

    id: str
    settings: str


list_unsealed = _sql.rows("list_unsealed", UnsealedRow)
seal = _sql.change("seal")
get_for_event = _sql.row("get_for_event", EventTargetRow)
insert_event = _sql.change("insert_event")
delete_old_events = _sql.change("delete_old_events")
list_due_reports = _sql.column("list_due_reports", str)
claim_report = _sql.row("claim_report", ReportRow)
note_report = _sql.change("note_report")
count_previews = _sql.value("count_previews", int)
put_preview = _sql.change("put_preview")
list_previews = _sql.rows("list_previews", PreviewRow)
list_due_previews = _sql.column("list_due_previews", int)
list_due_checks = _sql.column("list_due_checks", int)
take_preview = _sql.row("take_preview", TakenPreviewRow)
take_check = _sql.row("take_check", TakenPreviewRow)
note_check = _sql.change("note_check")
retry_previews = _sql.change("retry_previews")
renew_preview = _sql.change("renew_preview")
hold_preview = _sql.value("hold_preview", str)
finish_preview = _sql.change("finish_preview")
git_source = LookupQuery(_sql.query("git_source"), GitSource, noun="Git source")
lock_git_source = _sql.value("lock_git_source", str)
sealed_parameters = sealed_column(_sql, "git_sources", "list_sealed", "put_sealed")

# Of an organization; `now` is the time.
wake = _sql.change("wake")
