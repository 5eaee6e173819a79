"""What two versions, or a version and a text, differ in.

Who would change is read from the digests that versions keep. Only a version without them is compiled.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.errors import InvalidManifest, NotAllowed
from launchbay.manifest.code_changes import compare_manifests
from launchbay.manifest.digests import (
    Digests,
    ManifestDigests,
    NoDigests,
    component_changes,
    digests,
    is_of_later_form,
    read_digests,
)
from launchbay.manifest.graph import NOTHING_COMPILED, CompiledManifest
from launchbay.manifest.meaning import DIGEST_FORM
from launchbay.model.manifest_difference import NO_DIFFERENCE, ComponentChange, ManifestDifference
from launchbay.store import applications as store
from launchbay.store.applications import Application, DigestsRow
from launchbay.usecases.context import Context, Work
from launchbay.usecases.fleet import count_by_version
from launchbay.usecases.instances import InstanceView
from launchbay.usecases.manifests import check_manifest, known_version, manifest_text


@dataclass(frozen=True, slots=True)
class UsedVersion:
    """A version that instances have, and what another one would change of it.

    `is_application_changed` says that parameters, results, commands, needs, limits or the kind of the application
    differ. With a `problem`, nobody can say: the version no longer compiles. If `is_pending`, this isn't known yet.
    """

    version: int
    instances: int
    changed_components: list[ComponentChange]
    is_application_changed: bool = False
    problem: str | None = None
    is_pending: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the other one certainly changes nothing."""
        is_known = self.problem is None and not self.is_pending
        return is_known and not self.changed_components and not self.is_application_changed


async def compare_versions(
    ctx: Context, application_id: str, former: int | None, version: int | None
) -> tuple[int, int, ManifestDifference]:
    """Return two versions and what they differ in.

    By default, they are the newest one and the one before the second; 0 is an application without a manifest. Raises
    BadRequest for an unknown version, and InvalidManifest for one that no longer compiles.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        version = application.latest_version if version is None else version
        former = max(0, version - 1) if former is None else former
        after, before = await _known(work, application, version), await _known(work, application, former)
    return former, version, await _compared(before, after)


async def compare_text(
    ctx: Context, application_id: str, former: int | None, text: str
) -> tuple[int, ManifestDifference]:
    """Return a version and what a text differs in from it.

    The default is the newest one. Raises BadRequest for an unknown version, and InvalidManifest.
    """
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        former = application.latest_version if former is None else former
        before = await _known(work, application, former)
    await check_manifest(ctx.app, text)
    return former, await _compared(before, (await ctx.app.manifests.compile(text), text))


async def compare_manifests_of(ctx: Context, one: InstanceView, other: InstanceView) -> ManifestDifference | None:
    """Return what the manifests of two instances differ in.

    It is None if the caller may not read their applications, or one of the versions no longer compiles.
    """
    places = [(each.detail.application_id, each.detail.version) for each in (one, other)]
    if places[0] == places[1]:
        return NO_DIFFERENCE
    try:
        async with ctx.read() as work:
            before, after = [
                await _known(work, await work.lookup.application(application_id, Permission.READ), version)
                for application_id, version in places
            ]
    except (NotAllowed, InvalidManifest):
        return None
    return await _compared(before, after)


_Known = tuple[CompiledManifest, str]


async def _known(work: Work, application: Application, version: int) -> _Known:
    if version == 0:
        return NOTHING_COMPILED, ""
    version = known_version(application, version)
    return await work.manifest(application.id, version), await manifest_text(work, application.id, version)


async def _compared(before: _Known, after: _Known) -> ManifestDifference:
    return await asyncio.to_thread(compare_manifests, before[0], after[0], (before[1], after[1]))


async def list_used_versions(ctx: Context, application_id: str, version: int | None) -> tuple[int, list[UsedVersion]]:
    """Return a version and those of live instances against it, the newest first.

    The default is the newest one. Instances that the caller may not read don't count. Digests that are missing are
    computed and kept, only so many in one call (`limits.USED_VERSIONS_COMPILED`): those of the other versions are
    pending, and come with the next calls. Raises BadRequest for an unknown version, and InvalidManifest for one that no
    longer compiles.
    """
    counts = await count_by_version(ctx, application_id)
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        version = known_version(application, version)
        wanted = sorted({version, *counts})
        rows = await store.list_digests(work.connection, application_id=application.id, versions=wanted)
    found: dict[int, Digests] = {}
    missing: list[DigestsRow] = []
    for row in rows:
        kept = read_digests(row.digests, ctx.app.manifests.compiler)
        if kept is None or (row.version == version and isinstance(kept, NoDigests)):  # it is to be raised
            missing.append(row)
        else:
            found[row.version] = kept
    missing.sort(key=lambda row: row.version != version)
    left_bytes = limits.USED_VERSIONS_COMPILED_BYTES
    for row in missing[: limits.USED_VERSIONS_COMPILED]:
        if left_bytes > 0:  # so at least one
            found[row.version] = await _computed(ctx, application.id, row, is_wanted=row.version == version)
        left_bytes -= row.bytes
    new = found[version]
    assert isinstance(new, ManifestDigests), "it was compiled, or this has raised"
    used = [row.version for row in rows if row.version in counts]
    return version, [_used(each, counts[each], found.get(each), new) for each in used]


def _used(version: int, instances: int, old: Digests | None, new: ManifestDigests) -> UsedVersion:
    if old is None:
        return UsedVersion(version, instances, [], is_pending=True)
    if isinstance(old, NoDigests):
        return UsedVersion(version, instances, [], problem=old.problem)
    return UsedVersion(
        version,
        instances,
        list(component_changes(old, new)),
        is_application_changed=old.application != new.application,
    )


async def _computed(ctx: Context, application_id: str, row: DigestsRow, *, is_wanted: bool) -> Digests:
    """Compute the digests of a version that lacks them, and keep them.

    If it no longer compiles, that is kept. Raises InvalidManifest if the version `is_wanted`.
    """
    found: Digests
    try:
        async with ctx.read() as work:
            compiled = await work.manifest(application_id, row.version)
        found = await asyncio.to_thread(digests, compiled)
    except InvalidManifest as error:
        if is_wanted:
            raise
        found = NoDigests(DIGEST_FORM, error.messages[0], ctx.app.manifests.compiler)
    if not is_of_later_form(row.digests):
        async with ctx.app.database.transaction() as connection:
            await store.set_digests(
                connection,
                application_id=application_id,
                version=row.version,
                digests=msgspec.json.encode(found).decode(),
                former=row.digests,
            )
    return found
