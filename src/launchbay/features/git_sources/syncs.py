"""Looks at the branches of sources in Git, and what comes of them.

A source is a row that one process at a time holds by a lease. It reads the branch's commit, plans what the files
change, and makes all changes in one transaction, with the permissions of a service account and no others. The same
transaction notes the outcome and writes nothing if the lease was lost, so that a crash leaves no half.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff
from launchbay.egress.git import Commit, Git, validate_path
from launchbay.errors import (
    BadRequest,
    Conflict,
    EgressFailed,
    Fenced,
    LaunchbayError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
)
from launchbay.features.change_sets.rows import ChangeSet
from launchbay.features.change_sets.usecases import (
    ChangeAct,
    ChangeSetRequest,
    CommitSource,
    GitCommit,
    apply_change_set,
    create_change_set,
    read_change_set,
    supersede_change_sets,
)
from launchbay.features.directories.comparison import Comparison, ObjectChange, State
from launchbay.features.directories.files import Application, Contents
from launchbay.features.directories.organization import StoredOrganization, in_thread
from launchbay.features.directories.plans import directory_contents
from launchbay.features.git_sources import rows as store
from launchbay.features.git_sources.rows import TakenRow
from launchbay.features.git_sources.usecases import (
    ChangeNote,
    GitSettings,
    account_of,
    find_source,
    read_changes,
    read_settings,
    remote_of,
)
from launchbay.ids import new_id
from launchbay.model.freezes import FROZEN
from launchbay.store import organizations
from launchbay.store.database import Connection
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.later import pause_of
from launchbay.usecases.leases import LEASE_S, LeasedWork, Leases

log = structlog.get_logger(__name__)
POLL_S = 0.5
_AT_ONCE = 4  # sources that one process looks at, at the same time
AGAIN = Backoff(10.0, 3_600.0)
_MESSAGE_CHARS = 2_000
MEANT = (BadRequest, NotAllowed, NotFound, NotAuthenticated)
_LIVE = ("Running", "Failed")  # instances that follow a new version


def is_meant(error: LaunchbayError) -> bool:
    """Return whether another attempt would be refused as well.

    A freeze ends.
    """
    return isinstance(error, MEANT) and error.code not in FROZEN


@dataclass(frozen=True, slots=True)
class Drift:
    """How an organization differs from the commit that was applied last."""

    commit: str
    changes: list[ChangeNote]


async def read_git_drift(ctx: Context, source_id: str) -> Drift:
    """Return what applying the applied commit again would change.

    Raises Conflict before the first commit was applied.
    """
    async with ctx.read() as work:
        found = await find_source(work, source_id, Permission.READ)
        files = await store.get_files(work.connection, source_id=found.id)
    if files is None or found.applied is None:
        raise Conflict("No commit of the source was applied yet.", code="NotApplied")
    own = Context(ctx.app, await account_of(ctx.app, found.organization_id, found.account_id))
    wanted = await _contents(own, found.application_id, store.unpack_files(files))
    prune = read_settings(found.settings).prune
    changes = await in_thread(own, found.organization_id, lambda organization: _plan(organization, wanted, prune))
    return Drift(found.applied, _notes(changes))


async def _contents(ctx: Context, application_id: str | None, files: Mapping[str, bytes]) -> Contents:
    """Return what files of a commit want. Raises BadRequest."""
    if application_id is None:
        return await directory_contents(files)
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
    if set(files) != {""}:
        raise BadRequest("The path of the source is a folder; it must be the manifest's file.", code="GitRefused")
    try:
        text = files[""].decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"The manifest isn't UTF-8 (byte {error.start}).", code="GitRefused") from error
    return Contents(applications={application.name: Application(manifest=text)})


def _plan(organization: StoredOrganization, wanted: Contents, prune: bool) -> list[ObjectChange]:  # noqa: FBT001 - by position in a thread
    plan = Comparison(State(organization), wanted)
    return [*plan.changes(), *(plan.superfluous() if prune else ())]


def _notes(changes: list[ObjectChange]) -> list[ChangeNote]:
    return [ChangeNote(each.sign, each.what, each.detail) for each in changes]


@dataclass(slots=True)
class _Outcome:
    """What came of a look at a branch."""

    status: Literal["Applied", "Planned", "Unchanged"]
    commit: str
    changes: list[ChangeNote] = field(default_factory=list)
    change_set_ids: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


async def _lock(connection: Connection, source_id: str) -> None:
    await store.lock(connection, source_id=source_id)


async def _applied(
    connection: Connection, found: ChangeSet, files: Mapping[str, bytes], changes: Sequence[Mapping[str, str]]
) -> None:
    """Note that the organization is now what the commit says."""
    await store.end_change_set(
        connection,
        sync_id=new_id(),
        source_id=found.git_source_id,
        commit=found.git_commit,
        files=store.pack_files(files),
        changes=msgspec.json.encode(changes).decode(),
        change_set_ids=[found.id],
    )


COMMIT_SOURCE = CommitSource(_lock, _applied)


class GitRunner:
    """Looks at the branches of sources that are due; `advance` is one round."""

    def __init__(self, app: AppContext, git: Git) -> None:
        self._app = app
        self.git = git
        self._leases = Leases("Git source", _AT_ONCE)
        self.close = self._leases.close

    async def advance(self) -> bool:
        """Begin to look at what is due. Return True if there is more."""
        room = self._leases.room
        if not room:
            return False
        async with self._app.database.transaction() as connection:
            due = await store.list_due(connection, count=room)
            taken = [await store.take(connection, source_id=each, lease_s=LEASE_S) for each in due]
        for row in taken:
            if row is not None:
                seen: list[str] = []
                look, failed = partial(self._sync, row, seen), partial(self._failed, row, seen)
                self._leases.begin(LeasedWork(row.id, partial(self._renew, row), look, failed))
        return bool(due) and len(due) == room

    async def _renew(self, row: TakenRow) -> int:
        async with self._app.database.transaction() as connection:
            return await store.renew(connection, source_id=row.id, fence=row.fence, lease_s=LEASE_S)

    async def _sync(self, row: TakenRow, seen: list[str]) -> None:
        settings = read_settings(row.settings)
        ctx = Context(self._app, await account_of(self._app, row.organization_id, row.account_id))
        remote = await remote_of(ctx, row.organization_id, settings)
        ref = f"refs/heads/{settings.branch}"
        head = await self.git.head(row.organization_id, remote, ref)
        if head is None:
            raise BadRequest(f"The repository has no branch {settings.branch!r}.", code="GitRefused")
        seen.append(head)
        if not row.is_forced and head in (row.applied, row.planned):
            await self._finish(row, settings, _Outcome("Unchanged", head), None)
            return
        commit = await self.git.fetch(row.organization_id, remote, ref, validate_path(settings.path))
        wanted = await _contents(ctx, row.application_id, commit.files)
        try:
            await self._apply_and_finish(ctx, row, settings, commit, wanted)
        except BadRequest as error:
            if error.code != "NameTaken":
                raise
            # Another source may have created it since it was planned. The next plan finds it.
            await self._apply_and_finish(ctx, row, settings, commit, wanted)

    async def _apply_and_finish(
        self, ctx: Context, row: TakenRow, settings: GitSettings, commit: Commit, wanted: Contents
    ) -> None:
        async with self._app.database.transaction() as connection:
            # Before the source: whoever applies a directory that describes it locks them in this order.
            await organizations.lock(connection, organization_id=row.organization_id)
            if await store.hold(connection, source_id=row.id, fence=row.fence) is None:
                raise Fenced("Another process has the source now, or somebody changed it.")
            with self._app.database.joined(connection):
                outcome = await self._apply(ctx, row, settings, commit, wanted)
                await self._finish(row, settings, outcome, commit)

    async def _apply(
        self, ctx: Context, row: TakenRow, settings: GitSettings, commit: Commit, wanted: Contents
    ) -> _Outcome:
        """Make the changes in the transaction under way, or only plan them."""
        if settings.applies == "change-set":
            return await self._keep(ctx, row, settings, commit)
        waits = settings.applies == "after-approval" and row.approved != commit.id

        def work(organization: StoredOrganization) -> tuple[list[ChangeNote], set[str]]:
            changes = _plan(organization, wanted, settings.prune)
            if not waits:
                for change in changes:
                    change.make()
            return _notes(changes), organization.changed

        notes, changed = await in_thread(ctx, row.organization_id, work)
        if waits and notes:
            return _Outcome("Planned", commit.id, notes)
        if row.approved == commit.id and notes != await self._planned_changes(row, commit.id):
            raise BadRequest(
                "The organization has changed since the plan was shown.", "Look at the new plan.", code="StalePlan"
            )
        outcome = _Outcome("Applied", commit.id, notes)
        if settings.instances != "keep":
            for application_id in sorted(changed):
                await self._move_instances(ctx, row, settings, application_id, outcome)
        return outcome

    async def _keep(self, ctx: Context, row: TakenRow, settings: GitSettings, commit: Commit) -> _Outcome:
        """Make a change set of a commit. It replaces those of older commits."""
        made_for = GitCommit(row.id, commit.id)
        async with ctx.begin() as work:
            await work.lookup.organization(row.organization_id)
            await supersede_change_sets(work, row.organization_id, made_for)
        wanted = ChangeSetRequest(
            act=ChangeAct(act="apply", files=dict(commit.files), prune=settings.prune),
            ids=None,
            wanted=None,
            comment=f"Commit {commit.id} of {settings.branch}, from the source {row.name} in Git.",
            expires_in_ms=limits.CHANGE_SET_EXPIRY_MS,
            on_failure="keep",
            commit=made_for,
        )
        try:
            change_set_id = await create_change_set(ctx, row.organization_id, wanted)
        except BadRequest as error:
            if error.code != "NothingChosen":
                raise
            return _Outcome("Applied", commit.id)
        shown = (await read_change_set(ctx, change_set_id)).directory
        objects = [] if shown is None else shown.objects
        notes = [ChangeNote(each.sign, each.what, each.detail) for each in objects if each.is_change()]
        return _Outcome("Planned", commit.id, notes, [change_set_id])

    async def _planned_changes(self, row: TakenRow, commit: str) -> list[ChangeNote]:
        async with self._app.database.connection() as connection:
            rows = await store.list_syncs(connection, source_id=row.id, after=None, count=limits.PAGE_ROWS)
        found = next((each for each in rows if each.status == "Planned" and each.commit == commit), None)
        return [] if found is None else read_changes(found.changes)

    async def _move_instances(
        self, ctx: Context, row: TakenRow, settings: GitSettings, application_id: str, outcome: _Outcome
    ) -> None:
        """Make a change set that brings instances to the newest manifest.

        Apply it if the source says so and it needs no approval.
        """
        async with ctx.read() as work:
            application = await work.lookup.application(application_id, Permission.READ)
        wanted = ChangeSetRequest(
            act=ChangeAct(act="version", version=application.latest_version),
            ids=None,
            wanted=InstanceFilter(application_ids=[application_id], statuses=_LIVE),
            comment=f"Commit {outcome.commit} of {settings.branch}, from the source {row.name} in Git.",
            expires_in_ms=limits.CHANGE_SET_EXPIRY_MS,
            on_failure="keep",
        )
        try:
            change_set_id = await create_change_set(ctx, row.organization_id, wanted)
        except (BadRequest, Conflict, NotAllowed, TooManyRequests) as error:
            # The commit is applied all the same. The next one, or `sync`, tries again.
            if error.code != "NothingChosen":
                outcome.messages.append(f"Instances of {application.name} stay as they are: {error}")
            return
        outcome.change_set_ids.append(change_set_id)
        if settings.instances == "at-once":
            try:
                await apply_change_set(ctx, change_set_id)
            except (BadRequest, Conflict, NotAllowed, TooManyRequests) as error:
                outcome.messages.append(f"The change set of {application.name} waits: {error}")

    async def _finish(self, row: TakenRow, settings: GitSettings, outcome: _Outcome, commit: Commit | None) -> None:
        """Note the outcome and when to look again.

        Raises Fenced if another process is to do that.
        """
        planned = outcome.commit if outcome.status == "Planned" else None
        if outcome.status == "Unchanged" and row.planned == outcome.commit:
            planned = row.planned
        async with self._app.database.transaction() as connection:
            if outcome.status == "Applied" and commit is not None:
                files = await asyncio.to_thread(store.pack_files, commit.files)
                await store.set_applied(connection, source_id=row.id, fence=row.fence, commit=commit.id, files=files)
            kept = await store.finish(
                connection,
                source_id=row.id,
                fence=row.fence,
                seen=outcome.commit,
                problem=None,
                failures=0,
                planned=planned,
                is_repeated=False,
                taken_due_at=row.due_at,
                pause_ms=settings.interval_ms,
            )
            if not kept:
                raise Fenced("Another process has the source now, or somebody changed it.")
            if outcome.status != "Unchanged":
                await self._note(
                    connection,
                    row,
                    commit=outcome.commit,
                    status=outcome.status,
                    message=" ".join(outcome.messages)[:_MESSAGE_CHARS] or None,
                    changes=msgspec.json.encode(outcome.changes).decode(),
                    change_set_ids=outcome.change_set_ids,
                )

    async def _failed(self, row: TakenRow, seen: list[str], error: LaunchbayError) -> None:
        """Note why the branch couldn't be applied, and when to look again."""
        status = "Refused" if is_meant(error) else "Failed"
        settings = read_settings(row.settings)
        message = str(error)[:_MESSAGE_CHARS]
        failures = row.failures + 1 if status == "Failed" else 0
        is_final = isinstance(error, EgressFailed) and not error.retryable
        pause_ms = settings.interval_ms
        if failures and not is_final:
            pause_ms = int(pause_of(error, self._app.clock.now(), AGAIN.delay_s(failures)) * 1_000)
        async with self._app.database.transaction() as connection:
            kept = await store.finish(
                connection,
                source_id=row.id,
                fence=row.fence,
                seen=seen[0] if seen else None,
                problem=message,
                failures=failures,
                planned=row.planned if status == "Failed" else None,
                is_repeated=status == "Failed",
                taken_due_at=row.due_at,
                pause_ms=pause_ms,
            )
            if kept:
                commit = seen[0] if seen else None
                await self._note(connection, row, commit=commit, status=status, message=message)

    async def _note(
        self,
        connection: Any,
        row: TakenRow,
        *,
        commit: str | None,
        status: str,
        message: str | None,
        changes: str = "[]",
        change_set_ids: list[str] | None = None,
    ) -> None:
        await store.insert_sync(
            connection,
            sync_id=new_id(),
            source_id=row.id,
            commit=commit,
            pull_request=None,
            status=status,
            message=message,
            changes=changes,
            change_set_ids=change_set_ids or [],
            instance_id=None,
            is_reported=read_settings(row.settings).status_token is not None and commit is not None,
            started_at=row.started_at,
        )
        await store.delete_old_syncs(connection, source_id=row.id, kept=limits.GIT_SYNCS)
