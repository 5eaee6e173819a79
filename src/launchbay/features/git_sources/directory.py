"""Git sources in a directory."""

from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.features.directories.contents import GitSource, Previews, as_values
from launchbay.features.directories.objects import DirectoryObject, Listing, Names, Omitted, StoredKind, within
from launchbay.features.git_sources import usecases as git_sources
from launchbay.features.git_sources.rows import GitSource as StoredSource
from launchbay.features.git_sources.usecases import GitSettings, GitSourceRequest, PreviewSettings, read_settings
from launchbay.model.redaction import Redactor
from launchbay.model.wrong_values import converted
from launchbay.usecases.context import Context


async def _git_sources(names: Names, found: Listing) -> None:
    for row in await git_sources.list_git_sources(names.ctx, names.organization_id, application_id=None):
        try:
            content = await _git_content(names, row, found)
        except Omitted as why:
            found.omitted.append(f"source '{row.name}' in Git: all of it, since {why}")
            continue
        found.objects.append(
            DirectoryObject("git-source", row.id, row.name, as_values(content), ("user", row.account_id))
        )


async def _git_content(names: Names, row: StoredSource, found: Listing) -> GitSource:
    settings = read_settings(row.settings)
    previews = None
    if settings.previews is not None:
        given = settings.previews
        hidden = sorted(each for each, value in given.parameters.items() if _is_masked(each, value))
        found.omitted.extend(f"source '{row.name}' in Git: the preview's parameter '{each}'" for each in hidden)
        parameters = {each: value for each, value in given.parameters.items() if each not in hidden}
        previews = Previews(await names.name("environment", given.environment_id), given.lifetime_ms, parameters)
    document = msgspec.to_builtins(settings)
    return msgspec.structs.replace(
        msgspec.convert({**document, "account": "", "vault": None, "previews": None}, GitSource),
        account=await names.name("service account", row.account_id),
        application=None if row.application_id is None else await names.name("application", row.application_id),
        vault=None if settings.vault is None else await names.name("service", settings.vault),
        previews=previews,
        paused=row.is_paused,
    )


def _is_masked(name: str, value: Any) -> bool:
    """Return whether a value is or holds a masked secret."""
    if isinstance(value, Mapping):
        return any(_is_masked(str(each), inner) for each, inner in value.items())
    if isinstance(value, list):
        return any(_is_masked(name, inner) for inner in value)
    return Redactor().named(name, value) != value or (isinstance(value, str) and "***" in value)


async def _put_git_source(names: Names, name: str, existing: str | None, content: GitSource) -> str:
    ctx, organization_id = names.ctx, names.organization_id
    previews = content.previews
    wanted = None
    if previews is not None:
        parameters = dict(previews.parameters)
        if existing is not None:
            now = read_settings((await git_sources.read_git_source(ctx, existing)).settings).previews
            masked = {} if now is None else now.parameters
            # The use case takes a mask for what it has.
            parameters = {each: value for each, value in masked.items() if _is_masked(each, value)} | parameters
        wanted = PreviewSettings(
            environment_id=await names.number("environment", previews.environment),
            lifetime_ms=within("previews.lifetimeMs", previews.lifetime_ms, 1, limits.GIT_PREVIEW_LONGEST_MS),
            parameters=parameters,
        )
    document = {**as_values(content), "vault": None}
    for each in ("account", "application", "paused", "previews"):
        document.pop(each, None)
    try:
        settings = converted(document, GitSettings)
    except ValueError as error:
        raise BadRequest(str(error), code="InvalidDirectory") from None
    if settings.interval_ms is not None:
        within("intervalMs", settings.interval_ms, limits.GIT_INTERVAL_SHORTEST_MS, limits.TIME_LATEST_MS)
    vault = None if content.vault is None else await names.number("service", content.vault)
    request = GitSourceRequest(
        name=name,
        account_id=await names.number("service account", content.account),
        application_id=None if content.application is None else await names.number("application", content.application),
        settings=msgspec.structs.replace(settings, vault=vault, previews=wanted),
        is_paused=content.paused,
    )
    if existing is None:
        return (await git_sources.create_git_source(ctx, organization_id, request, allows_holes=True)).id
    await git_sources.update_git_source(ctx, existing, request, allows_holes=True)
    return existing


async def _named(names: Names, name: str) -> list[str]:
    sources = await git_sources.list_git_sources(names.ctx, names.organization_id, application_id=None)
    return [each.id for each in sources if each.name == name]


async def _delete(ctx: Context, _organization_id: str, number: str) -> None:
    await git_sources.delete_git_source(ctx, number)


STORED_KIND = StoredKind("git-source", _git_sources, _named, _put_git_source, _delete)
