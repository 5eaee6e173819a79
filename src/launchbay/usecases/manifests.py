"""The manifests of an application (reference §4, Applications; conformance.md)."""

import asyncio
from collections import OrderedDict
from typing import NamedTuple, NoReturn
from weakref import ref

import httpx
import msgspec

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict, InvalidManifest, ManifestSourceLocked
from launchbay.manifest.code_changes import code_changes
from launchbay.manifest.digests import digests
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.code_change import CodeChange
from launchbay.model.findings import Finding
from launchbay.model.redaction import masked_message
from launchbay.planning.compiled import INLINE_CHARS, off_loop_if_large
from launchbay.quotas.bounds import Quota
from launchbay.store import applications as store
from launchbay.store.applications import Application, ChangeableRow, VersionRow
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.sealing import open_source_url, redact_source_url, seal_source_url

_COMPARED_MOST = 32
# What differs between two compiled manifests, by their identities and whether source lines are left out.
_compared: OrderedDict[
    tuple[int, int, bool], tuple["ref[CompiledManifest]", "ref[CompiledManifest]", dict[str, CodeChange]]
] = OrderedDict()
_ACCEPT = "application/x-yaml, application/yaml;q=0.9, text/yaml;q=0.9, text/plain;q=0.8, */*;q=0.1"


class Stored(NamedTuple):
    """A new version, and the warnings about its text."""

    version: int
    warnings: list[Finding]


class Refreshed(NamedTuple):
    """The newest version after a refresh, and whether the refresh made it."""

    version: int
    changed: bool
    warnings: list[Finding]


async def replace_manifest(
    ctx: Context, application_id: str, text: str, *, message: str | None = None, expected: int | None = None
) -> Stored:
    """Store a manifest as the application's newest version and return the version.

    `message` says what it changes, and `expected` is the newest version so far.

    Raises InvalidManifest with every finding, ManifestSourceLocked when the manifest comes from a URL, and Conflict
    when the newest version is another one than expected.
    """
    message = (message or "").strip() or None
    if len(message or "") > limits.MANIFEST_MESSAGE_CHARS:
        raise BadRequest(
            f"The message has more than {limits.MANIFEST_MESSAGE_CHARS} characters.",
            "Say in one sentence what the version changes.",
            field="message",
            code="InvalidField",
        )
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        if application.source_url is not None:
            _refuse_upload()
        warnings = await check_manifest(ctx.app, text)
        encoded = await encoded_digests(ctx.app, text)
        row = await _lock(work, application)
        if row.source_url is not None:
            _refuse_upload()
        if expected is not None and row.latest_version != expected:
            raise Conflict(
                f"Someone saved version {row.latest_version} in the meantime.",
                "Compare it with your text, then save again.",
            )
        version = await _append(work, application, row, text, encoded, "replace_manifest", message)
        return Stored(version, warnings)


async def validate_manifest(ctx: Context, text: str) -> list[Finding]:
    """Return all findings of a manifest text, errors and warnings."""
    async with ctx.read() as work:
        await work.lookup.caller(by_token=True)
    return await off_loop_if_large(ctx.app.check, text)


async def read_manifest(ctx: Context, application_id: str, version: int | None) -> str:
    """Return the text of a manifest version, by default the newest.

    Raises BadRequest for an unknown version.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        return await manifest_text(work, application.id, known_version(application, version))


def known_version(application: Application, version: int | None) -> int:
    """Return the version, by default the newest.

    Raises BadRequest for one that the application doesn't have.
    """
    if version is None:
        version = application.latest_version
    if not 0 < version <= application.latest_version:
        raise BadRequest(
            f"The application has no manifest version {version}; the newest is {application.latest_version}.",
            code="InvalidManifestVersion",
            field="version",
        )
    return version


async def manifest_text(work: Work, application_id: str, version: int) -> str:
    """Return the text of a version that is known to exist."""
    return await store.get_manifest(work.connection, application_id=application_id, version=version) or ""


async def changed_code(
    work: Work, application_id: str, version: int, before: CompiledManifest, after: CompiledManifest, text: str | None
) -> dict[str, CodeChange]:
    """Return what differs between a stored version and another manifest, by component.

    With the `text` of the other one, steps have their source lines. A thread compares, so that the event loop
    continues. Of many instances with the same versions, the first one is compared.
    """
    if before is after:
        return {}
    key = id(before), id(after), text is None
    known = _compared.get(key)
    if known is None or known[0]() is not before or known[1]() is not after:
        texts = None if text is None else (await manifest_text(work, application_id, version), text)
        known = ref(before), ref(after), await asyncio.to_thread(code_changes, before, after, texts)
        _compared[key] = known
        while len(_compared) > _COMPARED_MOST:
            _compared.popitem(last=False)
    return known[2]


async def list_manifests(ctx: Context, application_id: str) -> list[VersionRow]:
    """Return the manifest versions of an application, the newest first."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        rows = await store.list_manifests_by_application(work.connection, application_id=application.id)
    return [row._replace(message=masked_message(row.message)) for row in rows]


async def set_manifest_source(ctx: Context, application_id: str, url: str) -> Stored:
    """Load the manifest from a URL from now on, and return the newest version.

    Raises BadRequest for a URL that cannot be used, OutgoingFailed when it gives nothing, and InvalidManifest.
    """
    async with ctx.read() as work:
        looked = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
    url = url.strip()
    text, warnings = await _load(ctx.app, looked.organization_id, url)
    encoded = await encoded_digests(ctx.app, text)
    async with ctx.begin() as work:
        # Loading may have taken a minute: who may do this, and whether it is there, is asked again.
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        row = await _lock(work, application)
        shown, sealed = redact_source_url(url), seal_source_url(ctx.app.secret_key, application.id, url)
        await store.set_source(work.connection, application_id=application.id, source_url=shown, sealed_source=sealed)
        row = row._replace(source_url=shown)
        version = await _append(work, application, row, text, encoded, "set_manifest_source")
        return Stored(version, warnings)


async def refresh_manifest(ctx: Context, application_id: str) -> Refreshed:
    """Load the manifest from its URL again, as a new version if changed.

    Raises BadRequest when the manifest is uploaded, OutgoingFailed, InvalidManifest, and Conflict when somebody set
    another URL meanwhile.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        sealed = await store.get_source(work.connection, application_id=application.id)
    if sealed is None:
        raise BadRequest(
            "The manifest of this application is uploaded; there is no source to load it from.",
            "Set the source of the manifest first.",
            code="NoManifestSource",
        )
    text, warnings = await _load(
        ctx.app, application.organization_id, open_source_url(ctx.app.secret_key, application.id, sealed)
    )
    encoded = await encoded_digests(ctx.app, text)
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        row = await _lock(work, application)
        if row.sealed_source != sealed:
            raise Conflict("The manifest's source was changed by another request. Refresh again.")
        newest = await store.get_manifest(work.connection, application_id=application.id, version=row.latest_version)
        if newest == text:
            return Refreshed(row.latest_version, changed=False, warnings=[])
        version = await _append(work, application, row, text, encoded, "refresh_manifest")
        return Refreshed(version, changed=True, warnings=warnings)


async def _load(app: AppContext, organization_id: str, url: str) -> tuple[str, list[Finding]]:
    """Return the checked manifest at a URL, and the warnings about it."""
    try:
        has_credentials = bool(httpx.URL(url).userinfo)
    except (httpx.InvalidURL, ValueError):
        has_credentials = False  # the client says what is wrong with it
    if has_credentials:
        raise BadRequest(
            "The URL contains a user or password, which everyone with access to the application could read.",
            "Use an address that needs none.",
            code="CredentialsInUrl",
        )
    egress = app.egress.for_environment(organization_id)
    if "?" in url:
        egress.require_private(url, "The query, which may hold a token,")
    answer = await egress.request(
        "GET", url, headers={"accept": _ACCEPT}, timeout_s=limits.MANIFEST_SOURCE_S, max_bytes=app.manifest_bytes
    )
    if answer.status != 200:
        raise BadRequest(f"{answer.url} returned status {answer.status} instead of 200.", code="ManifestSourceFailed")
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        raise InvalidManifest([finding.to_document() for finding in app.check(answer.body)]) from None
    return text, await check_manifest(app, text)


async def check_manifest(app: AppContext, text: str) -> list[Finding]:
    """Return the warnings about a text. Raises InvalidManifest for one that cannot be launched."""
    findings = await off_loop_if_large(app.check, text)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise InvalidManifest([finding.to_document() for finding in errors])
    return findings


async def encoded_digests(app: AppContext, text: str) -> str:
    """Return what a checked text means as digests, in the form that versions keep."""
    compiled = await app.manifests.compile(text)
    found = digests(compiled) if len(text) <= INLINE_CHARS else await asyncio.to_thread(digests, compiled)
    return msgspec.json.encode(found).decode()


async def _lock(work: Work, application: Application) -> ChangeableRow:
    row = await store.lock(work.connection, application_id=application.id)
    if row is None:
        raise Conflict("The application was deleted by another request.")
    return row


async def _append(
    work: Work,
    application: Application,
    row: ChangeableRow,
    text: str,
    encoded: str,
    operation: str,
    message: str | None = None,
) -> int:
    """Store the newest version and return its number; the caller holds the application's row."""
    await work.admit(application.organization_id, {Quota.MANIFEST_BYTES: len(text.encode())})
    version = row.latest_version + 1
    await store.set_version(work.connection, application_id=application.id, version=version)
    await store.insert_manifest(
        work.connection,
        application_id=application.id,
        version=version,
        content=text,
        author_id=work.actor.user_id,
        message=message,
        digests=encoded,
    )
    before = {"version": row.latest_version, "sourceUrl": application.source_url}
    after = {"version": version, "sourceUrl": row.source_url, **({"message": message} if message else {})}
    await work.audit(operation, application, before, after)
    return version


def _refuse_upload() -> NoReturn:
    raise ManifestSourceLocked(
        "The manifest of this application is loaded from an external location; an upload cannot replace it.",
        "Change it at its source.",
    )
