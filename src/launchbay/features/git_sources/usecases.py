"""Sources in Git: what applications and directories follow (docs/howto/git.md). `syncs.py` looks at the branches."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Method, Permission
from launchbay.auth.secret_key import SecretKey
from launchbay.egress.git import Remote, validate_branch, validate_path
from launchbay.errors import (
    BadRequest,
    Conflict,
    EgressFailed,
    NotAllowed,
)
from launchbay.features.directories.contents import ForgeName, GitApplies, GitInstances
from launchbay.features.git_sources import rows as store
from launchbay.features.git_sources.rows import GitSource, SyncRow, parameters_purpose
from launchbay.ids import new_id
from launchbay.model.redaction import REDACTED, Redactor
from launchbay.model.scalars import json_real
from launchbay.service_types.secrets import KEY_PAIR, SECRET, ServiceSeal
from launchbay.store import access_tokens, organizations, services
from launchbay.store.database import Database, unique_violation_as
from launchbay.usecases.access_tokens import require_service_account
from launchbay.usecases.context import AppContext, Context, Work, as_invalid_id, name_taken, validate_name


class PreviewSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where previews of pull requests run, and how long."""

    environment_id: str
    lifetime_ms: int
    parameters: dict[str, Any] = {}


class GitSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a source follows, and what it does with changes.

    `credential`, a key pair or secret by name, is in `vault`, the ID of a service.
    """

    url: str
    branch: str = "main"
    path: str = ""
    user: str = ""
    vault: str | None = None
    credential: str | None = None
    host_keys: list[str] = []
    interval_ms: int | None = None
    applies: GitApplies = "at-once"
    instances: GitInstances = "keep"
    prune: bool = False
    forge: ForgeName | None = None
    api: str | None = None
    webhook_secret: str | None = None
    status_token: str | None = None
    previews: PreviewSettings | None = None

    def check(self, application_id: str | None) -> None:
        """Raise BadRequest for settings that can't work."""
        remote = Remote(url=self.url, user=self.user, host_keys=tuple(self.host_keys))
        validate_branch(self.branch)
        path = validate_path(self.path)
        if application_id is not None and not path:
            raise BadRequest("path: name the manifest's file, such as deploy/manifest.yaml.", code="InvalidGitSource")
        if application_id is not None and self.prune:
            raise BadRequest("prune: only the source of a directory can delete.", code="InvalidGitSource")
        if self.applies == "change-set":
            if application_id is not None:
                raise BadRequest(
                    "applies: only the source of a directory makes change sets of commits. For an application, use "
                    "after-approval, or instances: change-set.",
                    code="InvalidGitSource",
                )
            if self.instances != "keep":
                raise BadRequest(
                    "instances: they keep their versions if commits become change sets. Change them by a change set "
                    "of their own.",
                    code="InvalidGitSource",
                )
        if self.vault is None and self.credential is not None:
            raise BadRequest("credential: name its vault too.", code="InvalidGitSource")
        if (self.webhook_secret or self.status_token) and (self.forge is None or self.vault is None):
            raise BadRequest("webhookSecret and statusToken need forge and vault.", code="InvalidGitSource")
        if self.api is not None and not self.api.startswith(("https://", "http://")):
            raise BadRequest("api: use an https:// address.", code="InvalidGitSource")
        if self.previews is not None and (application_id is None or self.webhook_secret is None):
            raise BadRequest("previews: they need an application and a webhookSecret.", code="InvalidGitSource")
        if remote.scheme == "ssh" and (not self.host_keys or self.credential is None):
            raise BadRequest("A source over ssh needs hostKeys, and a key pair as credential.", code="InvalidGitSource")


read_settings = msgspec.json.Decoder(GitSettings).decode
_read_parameters = msgspec.json.Decoder(dict[str, Any], float_hook=json_real).decode


def with_parameters(settings: GitSettings, parameters: dict[str, Any]) -> GitSettings:
    """Return settings whose previews have these parameters."""
    if settings.previews is None:
        return settings
    previews = msgspec.structs.replace(settings.previews, parameters=parameters)
    return msgspec.structs.replace(settings, previews=previews)


def open_parameters(key: SecretKey, source_id: str, sealed: bytes | None) -> dict[str, Any]:
    """Return the parameters of a source's previews."""
    return {} if sealed is None else _read_parameters(key.open(bytes(sealed), parameters_purpose(source_id)))


def _sealed_columns(key: SecretKey, source_id: str, settings: GitSettings) -> dict[str, Any]:
    """Return the columns of settings; parameters, which may be secrets, are sealed."""
    parameters = {} if settings.previews is None else settings.previews.parameters
    sealed = key.seal(msgspec.json.encode(parameters), parameters_purpose(source_id)) if parameters else None
    return {
        "settings": msgspec.json.encode(with_parameters(settings, {})).decode(),
        "sealed_parameters": sealed,
    }


async def seal_parameters(database: Database, key: SecretKey) -> None:
    """Seal parameters that older servers stored; each start may find some."""
    async with database.transaction() as connection:
        for row in await store.list_unsealed(connection):
            columns = _sealed_columns(key, row.id, read_settings(row.settings))
            await store.seal(connection, source_id=row.id, **columns)


async def find_source(work: Work, source_id: str, permission: Permission) -> GitSource:
    """Return a source. The permission is for its service account."""
    return await work.lookup.of(
        store.git_source, source_id, permission, lambda source: permissions.user(source.account_id)
    )


class ChangeNote(msgspec.Struct, frozen=True):
    """A change of a plan: `+`, `~` or `-`, and of what."""

    sign: Annotated[str, msgspec.Meta(description="+ creates, ~ changes, - deletes.")]
    what: str
    detail: str = ""


read_changes = msgspec.json.Decoder(list[ChangeNote]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSourceRequest:
    """A source to make, or its new content.

    Without an application it is of a whole directory.
    """

    name: str
    account_id: str
    application_id: str | None
    settings: GitSettings
    is_paused: bool = False


def _shown_source(app: AppContext, source: GitSource) -> GitSource:
    """Return a source with the parameters of its previews, secrets masked."""
    parameters = open_parameters(app.secret_key, source.id, source.sealed_parameters)
    if not parameters:
        return source
    settings = with_parameters(read_settings(source.settings), Redactor().value(parameters))
    return replace(source, settings=msgspec.json.encode(settings).decode())


def _merged(app: AppContext, found: GitSource, request: GitSourceRequest) -> GitSourceRequest:
    """Return a request in which masked parameters have their present values."""
    if request.settings.previews is None:
        return request
    kept = open_parameters(app.secret_key, found.id, found.sealed_parameters)
    given = request.settings.previews.parameters
    merged = {name: kept.get(name, value) if value == REDACTED else value for name, value in given.items()}
    return replace(request, settings=with_parameters(request.settings, merged))


async def create_git_source(
    ctx: Context, organization_id: str, request: GitSourceRequest, *, allows_holes: bool = False
) -> GitSource:
    """Make a source and return it.

    With `allows_holes`, its vault may get the secrets later. Its first look at the branch is due at once, unless it is
    paused. Raises BadRequest for settings that can't work, and NotAllowed for who may not assign the account's roles.
    """
    source_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        name = await _check(work, organization.id, request, allows_holes=allows_holes)
        await organizations.lock(work.connection, organization_id=organization.id)
        if (await store.count(work.connection, organization_id=organization.id) or 0) >= limits.GIT_SOURCES:
            raise BadRequest(
                f"The organization has {limits.GIT_SOURCES} sources in Git. Delete one.", code="QuotaExceeded"
            )
        with unique_violation_as(*name_taken("a source in Git", name)):
            await store.insert(
                work.connection,
                source_id=source_id,
                organization_id=organization.id,
                **_columns(ctx.app, source_id, name, request),
            )
        after = _audited(work, name, request)
        await work.audit("create_git_source", organization, after=after, at=_at(organization.id, source_id))
        return _shown_source(ctx.app, await find_source(work, source_id, Permission.MANAGE_ROLES))


def _columns(app: AppContext, source_id: str, name: str, request: GitSourceRequest) -> dict[str, Any]:
    return {
        "name": name,
        "account_id": request.account_id,
        "application_id": request.application_id,
        "is_paused": request.is_paused,
        **_sealed_columns(app.secret_key, source_id, request.settings),
    }


def _audited(work: Work, name: str, request: GitSourceRequest) -> dict[str, Any]:
    settings = request.settings
    if settings.previews is not None:
        settings = with_parameters(settings, work.fingerprints(settings.previews.parameters))
    return {
        "name": name,
        "accountId": request.account_id,
        "applicationId": request.application_id,
        "paused": request.is_paused,
        **msgspec.to_builtins(settings),
    }


def _at(organization_id: str, source_id: str) -> str:
    return f"/organizations/{organization_id}/git-sources/{source_id}"


async def _check(work: Work, organization_id: str, request: GitSourceRequest, *, allows_holes: bool) -> str:
    """Return the name of a source that can work. Raises BadRequest, NotAllowed."""
    name = validate_name(request.name)
    request.settings.check(request.application_id)
    _require_private(work.app, organization_id, request.settings)
    if not await access_tokens.list_service_accounts(
        work.connection, organization_id=organization_id, id=request.account_id
    ):
        raise BadRequest(
            f"accountId: the organization has no service account {request.account_id[:40]!r}.",
            "A source acts for a service account, not for a person: launchbay service-account list.",
            code="UnknownId",
        )
    with as_invalid_id("accountId"):
        await require_service_account(work, organization_id, request.account_id)
    account = await account_of(work.app, organization_id, request.account_id)
    own = Work(Context(work.app, account), work.connection)
    try:
        if request.application_id is not None:
            with as_invalid_id("applicationId"):
                found = await own.lookup.application(request.application_id, Permission.EDIT_APPLICATION)
            if found.organization_id != organization_id:
                raise BadRequest("The application belongs to another organization.", code="UnknownId")
        settings = request.settings
        named = {
            "credential": settings.credential,
            "webhookSecret": settings.webhook_secret,
            "statusToken": settings.status_token,
        }
        for field_name, secret in named.items():
            try:
                await secret_of(own, organization_id, settings.vault, secret)
            except BadRequest as error:
                if error.code == "NoSecret" and allows_holes:
                    continue
                if error.code != "NoSecret":
                    raise
                raise BadRequest(f"{field_name}: {error.messages[0]}", *error.messages[1:], code=error.code) from error
        if request.settings.previews is not None:
            with as_invalid_id("previews.environmentId"):
                environment = await own.lookup.environment(request.settings.previews.environment_id, Permission.READ)
            if environment.organization_id != organization_id:
                raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
    except NotAllowed as error:
        raise BadRequest(f"The service account can't do that: {error}", code="AccountNotAllowed") from error
    return name


def _require_private(app: AppContext, organization_id: str, settings: GitSettings) -> None:
    """Raise BadRequest for a credential or token that would go over plain HTTP."""
    egress, remote = app.egress.for_environment(organization_id), Remote(url=settings.url)
    try:
        if settings.credential is not None and remote.scheme != "ssh":
            egress.require_private(remote.address, "url: the credential")
        if settings.status_token is not None and settings.api is not None:
            egress.require_private(settings.api, "api: the token")
    except EgressFailed as error:
        raise BadRequest(*error.messages, code="InvalidGitSource") from error


async def account_of(app: AppContext, organization_id: str, account_id: str) -> Actor:
    """Return the service account as a caller.

    Raises NotAllowed if it is disabled or gone.
    """
    async with app.database.connection() as connection:
        found = await access_tokens.list_service_accounts(connection, organization_id=organization_id, id=account_id)
    if not found or not found[0].enabled:
        raise NotAllowed("The service account of the source is disabled or was deleted.", "Choose another one.")
    return Actor(found[0].id, found[0].email, found[0].name, "", Method.ENGINE)


async def secret_of(work: Work, organization_id: str, vault_id: str | None, name: str | None) -> str:
    """Return a secret or key of a vault, or an empty text."""
    if vault_id is None or name is None:
        return ""
    with as_invalid_id("vault"):
        vault = await work.lookup.service(vault_id, Permission.RUN_SERVICE_COMMAND)
    if vault.organization_id != organization_id:
        raise BadRequest("vault: the service belongs to another organization.", code="UnknownId")
    for kind in (KEY_PAIR, SECRET):
        entry = await services.get_entry(work.connection, service_id=vault.id, kind=kind, name=name)
        if entry is not None:
            return ServiceSeal(work.app.secret_key, vault.id).open(entry.sealed, entry.id).decode()
    raise BadRequest(
        f"The vault {vault.name!r} has no key pair or secret {name[:80]!r}.", "Set it there first.", code="NoSecret"
    )


async def remote_of(ctx: Context, organization_id: str, settings: GitSettings) -> Remote:
    """Return the repository of a source with its credential, which the caller may use."""
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
        secret = await secret_of(work, organization_id, settings.vault, settings.credential)
    return Remote(url=settings.url, user=settings.user, secret=secret, host_keys=tuple(settings.host_keys))


async def list_git_sources(ctx: Context, organization_id: str, *, application_id: str | None) -> list[GitSource]:
    """Return the sources of an organization whose service accounts the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_organization(
            work.connection, organization_id=organization_id, application_id=application_id
        )
        return [
            _shown_source(ctx.app, row)
            for row in rows
            if work.lookup.allows(organization_id, Permission.READ, permissions.user(row.account_id))
        ]


async def read_git_source(ctx: Context, source_id: str) -> GitSource:
    async with ctx.read() as work:
        return _shown_source(ctx.app, await find_source(work, source_id, Permission.READ))


async def update_git_source(
    ctx: Context, source_id: str, request: GitSourceRequest, *, allows_holes: bool = False
) -> None:
    """Replace a source. It looks at its branch again. Raises as the creation does."""
    async with ctx.begin() as work:
        found = await _controlled(work, source_id)
        request = _merged(ctx.app, found, request)
        name = await _check(work, found.organization_id, request, allows_holes=allows_holes)
        with unique_violation_as(*name_taken("a source in Git", name)):
            await store.update(work.connection, source_id=found.id, **_columns(ctx.app, found.id, name, request))
        parameters = open_parameters(ctx.app.secret_key, found.id, found.sealed_parameters)
        former = GitSourceRequest(
            name=found.name,
            account_id=found.account_id,
            application_id=found.application_id,
            is_paused=found.is_paused,
            settings=with_parameters(read_settings(found.settings), parameters),
        )
        before, after = _audited(work, found.name, former), _audited(work, name, request)
        at = _at(found.organization_id, found.id)
        await work.audit("update_git_source", found.organization_id, before, after, at=at)


async def delete_git_source(ctx: Context, source_id: str) -> None:
    """Delete a source. What it applied stays."""
    async with ctx.begin() as work:
        found = await _controlled(work, source_id)
        await store.delete(work.connection, source_id=found.id)
        at = _at(found.organization_id, found.id)
        await work.audit("delete_git_source", found.organization_id, {"name": found.name}, at=at)


async def sync_git_source(ctx: Context, source_id: str) -> None:
    """Look at the branch now, and apply its commit once more if need be.

    Previews that failed are tried again. Raises Conflict for a paused source.
    """
    async with ctx.begin() as work:
        found = await _controlled(work, source_id)
        if not await store.request(work.connection, source_id=found.id, is_forced=True):
            raise Conflict("The source is paused.", code="GitSourcePaused")
        await store.retry_previews(work.connection, source_id=found.id)
        await work.audit("sync_git_source", found.organization_id, at=_at(found.organization_id, found.id))


async def apply_git_source(ctx: Context, source_id: str, commit: str) -> None:
    """Approve the plan of a commit.

    It is applied if commit and plan are still the same. Raises Conflict.
    """
    async with ctx.begin() as work:
        found = await _controlled(work, source_id)
        if read_settings(found.settings).applies == "change-set":
            raise Conflict(
                "The commits of this source become change sets.",
                "Apply the change set of the commit: git-source syncs names it.",
                code="NotPlanned",
            )
        if not await store.approve(work.connection, source_id=found.id, commit=commit):
            raise Conflict(
                f"No plan of the commit {commit[:40]!r} waits for approval.",
                "Read the source: its planned commit may be another one by now.",
                code="NotPlanned",
            )
        after = {"commit": commit}
        await work.audit(
            "apply_git_source", found.organization_id, after=after, at=_at(found.organization_id, found.id)
        )


async def list_git_syncs(ctx: Context, source_id: str, *, after: str | None, count: int) -> list[SyncRow]:
    """Return what came of the last looks at a source, the newest first."""
    async with ctx.read() as work:
        found = await find_source(work, source_id, Permission.READ)
        return await store.list_syncs(work.connection, source_id=found.id, after=after, count=count)


async def _controlled(work: Work, source_id: str) -> GitSource:
    """Return a source that the caller may change.

    Who may make tokens for its account could act as the account anyway.
    """
    found = await find_source(work, source_id, Permission.MANAGE_ROLES)
    await require_service_account(work, found.organization_id, found.account_id)
    return found


def status_of(source: GitSource) -> str:
    """Return the status of a source in one word."""
    if source.is_paused:
        return "Paused"
    if source.is_running:
        return "Running"
    if source.problem is not None:
        return "Failing"
    if source.planned is not None:
        return "Planned"
    return "Waiting" if source.applied is None else "Current"
