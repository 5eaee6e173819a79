"""Events from forges, previews of pull requests, statuses of commits.

An event only says that there is something to look at. What it brings is read from the repository, so that a forged or
repeated one changes nothing that the repository doesn't say.
"""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff
from launchbay.egress.git import Git, Remote, validate_branch, validate_path
from launchbay.errors import (
    BadRequest,
    EgressFailed,
    Fenced,
    LaunchbayError,
    MalformedBody,
    NotAuthenticated,
    NotFound,
    internal_error,
)
from launchbay.features.directories.contents import ForgeName
from launchbay.features.git_sources import rows as store
from launchbay.features.git_sources.forge import (
    Outcome,
    PullRequest,
    Push,
    default_api,
    is_open_pull_request,
    is_signed,
    pull_request_request,
    read_event,
    status_request,
)
from launchbay.features.git_sources.rows import PreviewRow, ReportRow, TakenPreviewRow
from launchbay.features.git_sources.syncs import AGAIN, MEANT, is_meant
from launchbay.features.git_sources.usecases import (
    GitSettings,
    account_of,
    find_source,
    open_parameters,
    read_changes,
    read_settings,
    remote_of,
    secret_of,
)
from launchbay.ids import new_id
from launchbay.model.instance import InstanceStatus
from launchbay.store.database import Connection
from launchbay.usecases.applications import create_application, delete_application
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.instances import delete_instance, set_destroy_at
from launchbay.usecases.later import pause_of
from launchbay.usecases.launch import launch
from launchbay.usecases.leases import LEASE_S, LeasedWork, Leases
from launchbay.usecases.manifests import read_manifest, replace_manifest
from launchbay.usecases.reconfigure import reconfigure
from launchbay.usecases.submodule_shapes import same_configuration

log = structlog.get_logger(__name__)
PREVIEWS_S = 0.5
REPORTS_S = 1.0
_GONE_S = 2.0  # between two looks at an instance that is being destroyed
_REPORT_AGAIN = Backoff(5.0, 600.0)
_AT_ONCE = 2  # previews that one process works at, at the same time
_REPORTS = 8  # attempts
_ATTEMPTS = 30  # at a preview, nearly a day
_CHECKS_S = 3_600.0  # between two looks whether a pull request is still open
_MESSAGE_CHARS = 2_000
_OK = 200
_ENDED = frozenset({InstanceStatus.DESTROYED, InstanceStatus.DESTROYING})
_OUTCOMES: Mapping[str, Outcome] = {
    "Applied": "success",
    "Planned": "pending",
    "Refused": "failure",
    "Failed": "error",
}


async def receive_git_event(app: AppContext, source_id: str, headers: Mapping[str, str], body: bytes) -> None:
    """Take an event from the forge of a source; header names are lower-case.

    Raises NotAuthenticated unless the source's secret signed it. Each event counts once, and an old one not at all.
    """
    async with app.database.connection() as connection:
        row = await store.get_for_event(connection, source_id=source_id)
    if row is None:
        raise NotFound(f"There is no Git source {source_id!r}.", "Check the address at the forge.")
    settings = read_settings(row.settings)
    secret = ""
    if settings.webhook_secret is not None:
        try:
            async with Context(app, await account_of(app, row.organization_id, row.account_id)).read() as work:
                secret = await secret_of(work, row.organization_id, settings.vault, settings.webhook_secret)
        except MEANT as error:
            log.warning("git_event.no_secret", source=source_id, error=str(error))
    if settings.forge is None or not is_signed(settings.forge, secret, headers, body):
        raise NotAuthenticated("The event isn't signed with the secret of the source.", "Compare the secrets.")
    try:
        event = read_event(settings.forge, headers, msgspec.json.decode(body))
    except (ValueError, msgspec.DecodeError) as error:
        raise MalformedBody(f"The event can't be read: {error}.") from error
    if event is None or row.is_paused:
        return
    async with app.database.transaction() as connection:
        digest = hashlib.sha256(body).digest()
        await store.delete_old_events(connection, source_id=row.id, days=limits.GIT_EVENT_DAYS)
        if not await store.insert_event(connection, source_id=row.id, digest=digest):
            return
        if isinstance(event, Push):
            if event.branch == settings.branch:
                await store.request(connection, source_id=row.id, is_forced=False)
        elif _has_preview(app, settings, event):
            await _put_preview(connection, row.id, event)


def _has_preview(app: AppContext, settings: GitSettings, event: PullRequest) -> bool:
    is_old = event.changed_at < app.clock.now() - timedelta(days=limits.GIT_EVENT_DAYS)
    # What strangers propose from repositories of their own doesn't run here.
    return settings.previews is not None and event.target == settings.branch and not event.is_foreign and not is_old


async def _put_preview(connection: Connection, source_id: str, event: PullRequest) -> None:
    count = await store.count_previews(connection, source_id=source_id, number=event.number) or 0
    if event.is_open and count >= limits.GIT_PREVIEWS:
        log.warning("git_event.too_many_previews", source=source_id, number=event.number)
        return
    await store.put_preview(
        connection,
        source_id=source_id,
        number=event.number,
        branch=event.branch,
        commit=event.commit,
        is_open=event.is_open,
        changed_at=event.changed_at,
        check_s=_CHECKS_S,
    )


async def list_git_previews(ctx: Context, source_id: str, *, before: int | None, count: int) -> list[PreviewRow]:
    """Return previews of pull requests with numbers below `before`, the newest first."""
    async with ctx.read() as work:
        found = await find_source(work, source_id, Permission.READ)
        return await store.list_previews(work.connection, source_id=found.id, before=before, count=count)


class PreviewRunner:
    """Makes previews what their pull requests say; `advance` is one round."""

    def __init__(self, app: AppContext, git: Git) -> None:
        self._app = app
        self._git = git
        self._leases = Leases("preview of the Git source", _AT_ONCE)
        self.close = self._leases.close

    async def advance(self) -> None:
        """Begin to work at one preview that is due, or to check one."""
        if not self._leases.room:
            return
        async with self._app.database.transaction() as connection:
            row = await store.take_preview(connection, lease_s=LEASE_S)
            check = None if row is not None else await store.take_check(connection, lease_s=LEASE_S)
        if row is not None:
            do, failed = partial(self._show if row.is_open else self._end, row), partial(self._failed, row)
            self._leases.begin(LeasedWork(row.source_id, partial(self._renew, row), do, failed))
        elif check is not None:
            do, failed = partial(self._check, check), partial(self._not_checked, check)
            self._leases.begin(LeasedWork(check.source_id, partial(self._renew, check), do, failed))

    async def _check(self, row: TakenPreviewRow) -> None:
        """Find out whether a pull request is still open, and with which commit.

        The events that say so may have come while no server ran.
        """
        found = await self._present_commit(row)
        await self._note_check(row, is_open=found is not None, commit=found or row.commit)

    async def _not_checked(self, row: TakenPreviewRow, error: LaunchbayError) -> None:
        log.warning("git_preview.not_checked", source=row.source_id, number=row.number, error=str(error))
        await self._note_check(row, is_open=True, commit=row.commit)

    async def _note_check(self, row: TakenPreviewRow, *, is_open: bool, commit: str) -> None:
        async with self._app.database.transaction() as connection:
            await store.note_check(
                connection,
                source_id=row.source_id,
                number=row.number,
                fence=row.fence,
                changed_at=row.changed_at,
                is_open=is_open,
                commit=commit,
                is_due=not is_open or commit != row.commit,
                pause_s=_CHECKS_S,
            )

    async def _present_commit(self, row: TakenPreviewRow) -> str | None:
        """Return the commit of a pull request's branch, or None if it is closed."""
        settings = read_settings(row.settings)
        if settings.previews is None:
            return None
        ctx = Context(self._app, await account_of(self._app, row.organization_id, row.account_id))
        remote = await remote_of(ctx, row.organization_id, settings)
        commit = await self._git.head(row.organization_id, remote, f"refs/heads/{validate_branch(row.branch)}")
        if commit is None or settings.forge is None or settings.status_token is None:
            return commit
        async with ctx.read() as work:
            await work.lookup.organization(row.organization_id)
            token = await secret_of(work, row.organization_id, settings.vault, settings.status_token)
        api = api_of(settings.forge, settings)
        request = pull_request_request(settings.forge, api, remote.path, token, row.number)
        egress = self._app.egress.for_environment(row.organization_id)
        egress.require_private(request.url, "The token")
        answer = await egress.request("GET", request.url, headers=request.headers)
        # A token that may only set statuses is no reason to end a preview.
        is_closed = answer.status == _OK and not is_open_pull_request(msgspec.json.decode(answer.body))
        return None if is_closed else commit

    async def _renew(self, row: TakenPreviewRow) -> int:
        async with self._app.database.transaction() as connection:
            return await store.renew_preview(
                connection, source_id=row.source_id, number=row.number, fence=row.fence, lease_s=LEASE_S
            )

    async def _show(self, row: TakenPreviewRow) -> None:
        """Launch the manifest of a pull request, or bring its instance to it."""
        settings = read_settings(row.settings)
        previews = settings.previews
        if previews is None or row.application_id is None:
            await self._finish(row, commit=row.applied, preview_id=row.preview_id, instance_id=row.instance_id)
            return
        ctx = Context(self._app, await account_of(self._app, row.organization_id, row.account_id))
        remote = await remote_of(ctx, row.organization_id, settings)
        ref = f"refs/heads/{validate_branch(row.branch)}"
        commit = await self._git.fetch(row.organization_id, remote, ref, validate_path(settings.path))
        if set(commit.files) != {""}:
            raise BadRequest("The path of the source is a folder; it must be the manifest's file.", code="GitRefused")
        try:
            text = commit.files[""].decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"The manifest isn't UTF-8 (byte {error.start}).", code="GitRefused") from error
        async with self._app.database.transaction() as connection:
            await self._hold(connection, row)
            with self._app.database.joined(connection):
                preview_id = row.preview_id
                if preview_id is None:
                    async with ctx.read() as work:
                        application = await work.lookup.application(row.application_id, Permission.READ)
                    name = f"{application.name[: limits.NAME_CHARS - 30]} (pull request {row.number})"
                    preview_id = await create_application(ctx, row.organization_id, name)
                is_new = await read_manifest(ctx, preview_id, None) != text
                if is_new:
                    await replace_manifest(ctx, preview_id, text)
                expires_at = self._app.clock.now() + timedelta(milliseconds=previews.lifetime_ms)
                instance_id = await self._live_instance(ctx, row.instance_id)
                if instance_id is None:
                    body = {
                        "environmentId": previews.environment_id,
                        "destroyInterval": previews.lifetime_ms,
                        "parameters": open_parameters(self._app.secret_key, row.source_id, row.sealed_parameters),
                    }
                    instance_id = (await launch(ctx, preview_id, body)).instance_id
                else:
                    if is_new:
                        await self._move(ctx, instance_id)
                    await set_destroy_at(ctx, instance_id, int(expires_at.timestamp() * 1_000))
                await self._finish(row, commit=commit.id, preview_id=preview_id, instance_id=instance_id)
                await self._note(connection, row, settings, "Applied", commit.id, None, instance_id)

    async def _live_instance(self, ctx: Context, instance_id: str | None) -> str | None:
        """Return the instance unless it is gone or on its way."""
        if instance_id is None:
            return None
        async with ctx.read() as work:
            record = await work.lookup.instance(instance_id, Permission.READ)
        return None if record.status in _ENDED else record.id

    async def _move(self, ctx: Context, instance_id: str) -> None:
        """Bring an instance to the newest manifest of its application."""
        async with ctx.read() as work:
            record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
            application = await work.lookup.application(record.application_id, Permission.READ)
            body = await same_configuration(work, record, version=application.latest_version, parameters={})
        await reconfigure(ctx, instance_id, body)

    async def _end(self, row: TakenPreviewRow) -> None:
        """Destroy the instance of a closed pull request, then delete its application."""
        ctx = Context(self._app, await account_of(self._app, row.organization_id, row.account_id))
        async with self._app.database.transaction() as connection:
            await self._hold(connection, row)
            with self._app.database.joined(connection):
                if row.instance_id is not None:
                    async with ctx.read() as work:
                        record = await work.lookup.instance(row.instance_id, Permission.DELETE_INSTANCE)
                    if record.status != InstanceStatus.DESTROYING:
                        await delete_instance(ctx, record.id, force=True)
                    # The row of a deleted instance takes this reference away.
                    instance_id = row.instance_id if await self._is_there(connection, row) else None
                    await self._finish(
                        row, commit=row.applied, preview_id=row.preview_id, instance_id=instance_id, pause_s=_GONE_S
                    )
                    return
                if row.preview_id is not None:
                    await delete_application(ctx, row.preview_id)
                await self._finish(row, commit=row.applied, preview_id=None, instance_id=None)

    async def _is_there(self, connection: Connection, row: TakenPreviewRow) -> bool:
        rows = await store.list_previews(connection, source_id=row.source_id, before=row.number + 1, count=1)
        return any(each.number == row.number and each.instance_id is not None for each in rows)

    async def _hold(self, connection: Connection, row: TakenPreviewRow) -> None:
        held = await store.hold_preview(connection, source_id=row.source_id, number=row.number, fence=row.fence)
        if held is None:
            raise Fenced("Another process has the preview now.")

    async def _finish(
        self,
        row: TakenPreviewRow,
        *,
        commit: str | None,
        preview_id: str | None,
        instance_id: str | None,
        problem: str | None = None,
        failures: int = 0,
        pause_s: float | None = None,
    ) -> None:
        async with self._app.database.transaction() as connection:
            await store.finish_preview(
                connection,
                source_id=row.source_id,
                number=row.number,
                fence=row.fence,
                application_id=preview_id,
                instance_id=instance_id,
                applied=commit,
                problem=problem,
                failures=failures,
                taken_due_at=row.due_at,
                pause_s=pause_s,
            )

    async def _failed(self, row: TakenPreviewRow, error: LaunchbayError) -> None:
        """Note why a preview couldn't be made, and when to try again."""
        is_final = is_meant(error) or (isinstance(error, EgressFailed) and not error.retryable)
        failures = row.failures + 1
        is_over = failures >= _ATTEMPTS or (row.is_open and is_final)
        message = str(error)
        if failures >= _ATTEMPTS:
            message = f"Given up after {failures} attempts; sync the source to try again. {message}"
        message = message[:_MESSAGE_CHARS]
        await self._finish(
            row,
            commit=row.applied,
            preview_id=row.preview_id,
            instance_id=row.instance_id,
            problem=message,
            failures=failures,
            pause_s=None if is_over else pause_of(error, self._app.clock.now(), AGAIN.delay_s(failures)),
        )
        if not row.is_open:
            return  # the commit is no longer of interest
        status: Literal["Refused", "Failed"] = "Refused" if is_meant(error) else "Failed"
        settings = read_settings(row.settings)
        async with self._app.database.transaction() as connection:
            await self._note(connection, row, settings, status, row.commit, message, row.instance_id)

    async def _note(
        self,
        connection: Connection,
        row: TakenPreviewRow,
        settings: GitSettings,
        status: str,
        commit: str,
        message: str | None,
        instance_id: str | None,
    ) -> None:
        await store.insert_sync(
            connection,
            sync_id=new_id(),
            source_id=row.source_id,
            commit=commit,
            pull_request=row.number,
            status=status,
            message=message,
            changes="[]",
            change_set_ids=[],
            instance_id=instance_id,
            is_reported=settings.status_token is not None,
            started_at=row.started_at,
        )


class StatusReporter:
    """Shows outcomes at their commits; `advance` reports one."""

    def __init__(self, app: AppContext, base_url: str) -> None:
        self._app = app
        self._base_url = base_url.rstrip("/")

    async def advance(self) -> bool:
        """Report one outcome. Return True if there may be more."""
        async with self._app.database.transaction() as connection:
            row = await store.claim_report(connection)
        if row is None:
            return False
        problem: str | None = None
        try:
            await self._report(row)
        except LaunchbayError as error:
            problem = str(error)
            log.warning("git_status.failed", source=row.source_id, error=problem)
        except Exception:
            log.exception("git_status.failed", source=row.source_id)  # a defect of ours
            problem = internal_error(f"the status of the Git source {row.source_id}")
        is_over = problem is None or row.report_attempts >= _REPORTS
        if problem is not None and is_over:
            problem = f"Given up after {row.report_attempts} attempts. {problem}"
        problem = problem and problem[:_MESSAGE_CHARS]
        pause_s = None if is_over else _REPORT_AGAIN.delay_s(row.report_attempts)
        async with self._app.database.transaction() as connection:
            await store.note_report(connection, sync_id=row.id, pause_s=pause_s, problem=problem)
        return True

    async def _report(self, row: ReportRow) -> None:
        settings = read_settings(row.settings)
        if settings.forge is None or settings.status_token is None or row.commit is None:
            return
        account = await account_of(self._app, row.organization_id, row.account_id)
        async with Context(self._app, account).read() as work:
            await work.lookup.organization(row.organization_id)
            token = await secret_of(work, row.organization_id, settings.vault, settings.status_token)
        remote = Remote(url=settings.url)
        request = status_request(
            settings.forge,
            api_of(settings.forge, settings),
            remote.path,
            token,
            row.commit,
            _OUTCOMES[row.status],
            _text_of(row),
            self._link(row),
        )
        egress = self._app.egress.for_environment(row.organization_id)
        egress.require_private(request.url, "The token")
        answer = await egress.request(
            "POST",
            request.url,
            headers={**request.headers, "content-type": "application/json"},
            body=msgspec.json.encode(request.body),
        )
        if not 200 <= answer.status < 300:
            raise EgressFailed(f"{answer.url} returned status {answer.status}.")

    def _link(self, row: ReportRow) -> str | None:
        if not self._base_url:
            return None
        if row.instance_id is not None:
            return f"{self._base_url}/console/instances/{row.instance_id}"
        return f"{self._base_url}/console/organizations/{row.organization_id}/git-sources/{row.source_id}"


def api_of(forge: ForgeName, settings: GitSettings) -> str:
    """Return where the API of a source's forge is."""
    return (settings.api or default_api(forge, Remote(url=settings.url).host)).rstrip("/")


def _text_of(row: ReportRow) -> str:
    """Return what the status of a commit says, for all who see the repository."""
    if row.status == "Refused":
        return "Launchbay refused the commit. The source's page says why."
    if row.status == "Failed":
        return "Launchbay can't apply the commit now, and tries again."
    if row.pull_request is not None:
        return "The preview has this commit."
    count = len(read_changes(row.changes))
    changes = "no changes" if not count else "1 change" if count == 1 else f"{count} changes"
    return f"Applied: {changes}." if row.status == "Applied" else f"Planned: {changes} wait for approval."
