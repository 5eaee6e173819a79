"""Export and import an organization as an archive, all or nothing (promise 8).

An archive is one document, or lines: all but the manifests, then a line for each version. Nobody holds all lines in
memory.
"""

import asyncio
import base64
import hashlib
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import IO, Any, Literal, Protocol

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.auth.secret_key import SecretKey
from launchbay.errors import BadRequest, FieldErrors, LaunchbayError, NotFound
from launchbay.features.change_rules.usecases import replace_rules
from launchbay.features.directories import objects as directory_objects
from launchbay.features.directories.contents import KINDS
from launchbay.features.directories.files import read_object_text
from launchbay.features.directories.objects import Listing
from launchbay.features.directories.organization import replace_all_rules, replace_order
from launchbay.features.directories.values import (
    LINES_VERSION,
    Archive,
    ArchivedApplication,
    ArchivedRevision,
    ArchivedRole,
    ArchivedService,
    ArchivedUser,
    Environment,
    ManifestLine,
    PropertyEntry,
    RuleOwner,
    Rules,
    StageEntry,
    revision_names,
    with_revision_ids,
    with_revision_names,
)
from launchbay.features.lifetimes.rules import LifetimeRules
from launchbay.features.sleep_windows.rules import SleepRules
from launchbay.ids import IN_TEXT, is_id, new_id
from launchbay.manifest.policies import write_policies
from launchbay.model.email_address import canonical_email
from launchbay.model.environment import Marker, Property
from launchbay.model.freezes import read_windows
from launchbay.model.labels import read_labels
from launchbay.model.places import ConcurrencyLimit
from launchbay.model.promotion import OrderOwner, read_stages
from launchbay.model.redaction import Redactor
from launchbay.model.wrong_values import converted
from launchbay.model.yaml_text import yaml_text
from launchbay.quotas.bounds import Quota
from launchbay.service_types.contract import ParameterScope, ServiceParameters, ServiceType, changed_parameters
from launchbay.service_types.secrets import is_reference
from launchbay.store import applications, fleet, services
from launchbay.store import organizations as store
from launchbay.store import users as role_store
from launchbay.store.applications import VersionText
from launchbay.store.database import Connection
from launchbay.store.organizations import (
    StoredApplication,
    StoredEnvironment,
    StoredOrganization,
    StoredRevision,
    StoredRules,
)
from launchbay.store.users import RoleKind
from launchbay.usecases import environments, organizations, roles, users
from launchbay.usecases.applications import insert_application
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import check_manifest
from launchbay.usecases.organizations import require_creation
from launchbay.usecases.revisions import create_revision
from launchbay.usecases.sealing import open_source_url, redact_source_url, seal_source_url
from launchbay.usecases.sign_in import Invitation


async def export_organization(ctx: Context, organization_id: str) -> Archive:
    """Return an organization as of one point in time, without secrets.

    Requires what an import would: ManageUsers for all users and ManageRoles for all roles. Raises BadRequest if it is
    too large for one document.
    """
    exported = await _export(ctx, organization_id, limits.ORGANIZATION_ARCHIVE_BYTES, _TOO_LARGE, with_manifests=True)
    if exported.size > limits.ORGANIZATION_ARCHIVE_BYTES:
        raise _too_large(limits.ORGANIZATION_ARCHIVE_BYTES, _TOO_LARGE)
    return exported.archive


async def export_lines(ctx: Context, organization_id: str) -> AsyncIterator[bytes]:
    """Yield an organization as the lines of an archive, a few at a time.

    Requires and raises what `export_organization` does.
    """
    exported = await _export(ctx, organization_id, limits.ARCHIVE_MANIFEST_BYTES, _FAR_TOO_LARGE, with_manifests=False)
    if exported.size > limits.ORGANIZATION_ARCHIVE_BYTES:
        raise _too_large(limits.ORGANIZATION_ARCHIVE_BYTES, f"Even without its manifests. {_FAR_TOO_LARGE}")
    archive = exported.archive
    archive.version = LINES_VERSION
    yield msgspec.json.encode(archive) + b"\n"
    names = {each.id: each.name for each in exported.applications}
    left = _Left(organization_id, exported.applications)
    # Versions never change: no transaction is open while the client takes its time.
    while left:
        async with ctx.read() as work:
            rows = await left.take(work.connection)
        yield await asyncio.to_thread(_lines_of, names, rows)


def _lines_of(names: Mapping[str, str], rows: Iterable[VersionText]) -> bytes:
    lines = (ManifestLine(names[each.application_id], each.version, each.content) for each in rows)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


_TOO_LARGE = "Export it in lines: `launchbay organization export`, or GET …/archive/lines."
_FAR_TOO_LARGE = "Delete applications that nobody needs, or back up the whole database."


def _too_large(most_bytes: int, remedy: str) -> LaunchbayError:
    return BadRequest(
        f"The organization is larger than this archive may be, {most_bytes} bytes.", remedy, code="ArchiveTooLarge"
    )


@dataclass(frozen=True)
class _Exported:
    """An archive, its size as JSON in bytes, and its stored applications."""

    archive: Archive
    size: int
    applications: list[StoredApplication]


async def _export(
    ctx: Context, organization_id: str, most_bytes: int, remedy: str, *, with_manifests: bool
) -> _Exported:
    """Return an organization as of one point in time.

    Raises BadRequest if its manifests are larger than `most_bytes`.
    """
    mentioned: set[str] = set()
    manifests: dict[str, list[str]] = {}
    async with ctx.app.database.snapshot():
        async with ctx.read() as work:
            organization = await work.lookup.organization(
                organization_id, Permission.MANAGE_USERS, permissions.user(permissions.EVERY)
            )
            work.lookup.require(organization.id, Permission.MANAGE_ROLES, permissions.role(permissions.EVERY))
            text = await store.get_contents(work.connection, organization_id=organization.id)
            if text is None:
                raise NotFound("The organization was deleted by another request.")
            stored = await asyncio.to_thread(store.read_contents, text)
            if sum(each.manifest_bytes for each in stored.applications) > most_bytes:
                raise _too_large(most_bytes, remedy)
            left = _Left(organization.id, stored.applications)
            while left:
                rows = await left.take(work.connection)
                mentioned |= await asyncio.to_thread(_mentioned, [each.content for each in rows])
                for each in rows if with_manifests else ():
                    manifests.setdefault(each.application_id, []).append(each.content)
        listing = await directory_objects.list_directory_objects(ctx, organization_id)
    sees_all = all(
        work.lookup.allows(organization.id, Permission.READ, each(permissions.EVERY))
        for each in (permissions.user, permissions.service, permissions.application)
    )

    def made() -> _Exported:
        archive = _Exporter(stored, ctx.app.secret_key, manifests).archive(mentioned)
        _add_objects(archive, listing)
        if not sees_all:
            archive.holes.append("service accounts, Git sources and schedules that you can't read: all of them")
        return _Exported(archive, len(msgspec.json.encode(archive)), stored.applications)

    return await asyncio.to_thread(made)


def _mentioned(texts: Iterable[str]) -> set[str]:
    return {found for text in texts for found in IN_TEXT.findall(text)}


class _Left:
    """The versions of applications that are still to be read, some at a time."""

    def __init__(self, organization_id: str, stored: Iterable[StoredApplication]) -> None:
        self._organization_id = organization_id
        self._applications = deque(each for each in stored if each.versions)
        self._version = 1  # of the first application, the next one

    def __bool__(self) -> bool:
        return bool(self._applications)

    async def take(self, connection: Connection) -> list[VersionText]:
        """Return the next ones. Raises NotFound if an application was deleted meanwhile."""
        next_ones = [*islice(self._applications, _APPLICATIONS_AT_ONCE)]
        found = await applications.list_manifest_texts(
            connection,
            organization_id=self._organization_id,
            application_ids=[each.id for each in next_ones],
            firsts=[self._version, *[1] * (len(next_ones) - 1)],
            lasts=[each.versions for each in next_ones],
            bytes=limits.ARCHIVE_CHUNK_BYTES,
        )
        for row in found:
            first = self._applications[0] if self._applications else None
            if first is None or (row.application_id, row.version) != (first.id, self._version):
                break
            self._version += 1
            if row.version == first.versions:
                self._applications.popleft()
                self._version = 1
        else:
            if found:
                return found
        raise NotFound(f"The application '{self._applications[0].name}' was deleted by another request.")


_APPLICATIONS_AT_ONCE = 500  # that a statement reads versions of, as many as it returns


_ELSEWHERE = ("service ", "webhook ")  # the archive names holes of these itself


def _add_objects(archive: Archive, listing: Listing) -> None:
    """Add objects in the form of a directory, and those that are left out."""
    holes = {each for each in listing.omitted if not each.startswith(_ELSEWHERE)}
    for each in listing.objects:
        if each.kind == "user":
            continue
        if each.kind == "service":
            referring = [name for name, value in each.content.get("parameters", {}).items() if is_reference(value)]
            if not referring:
                continue
            archive.holes = [
                hole
                for hole in archive.holes
                if hole not in {f"service '{each.name}': the secret parameter '{name}'" for name in referring}
            ]
        same = archive.objects.setdefault(each.kind, {})
        if each.name in same:
            holes.add(f"{each.kind} '{each.name}': another one of this name")
        same.setdefault(each.name, yaml_text(each.content, keeps_numbers=True))
    archive.holes = sorted({*archive.holes, *holes})


class _Exporter:
    """One export. `holes` are noted wherever something is left out."""

    def __init__(self, stored: StoredOrganization, key: SecretKey, manifests: Mapping[str, list[str]]) -> None:
        self._stored = stored
        self._manifests = manifests  # by the ID of the application; none of an archive in lines
        self._key = key
        self._redactor = Redactor()
        self._holes: list[str] = []
        self._services = dict(_unique((each.id, each.name) for each in stored.services))
        self._environments = {each.id: each.name for each in stored.environments}
        self._revisions = {
            revision.id: f"{each.name}/{revision.name}" for each in stored.applications for revision in each.revisions
        }

    def archive(self, mentioned: set[str]) -> Archive:
        """Return all of it; the manifests mention these IDs."""
        stored = self._stored
        services: dict[str, ArchivedService] = {}
        for service in stored.services:
            name = self._services[service.id]
            parameters = self._open(f"service '{name}': parameters", "", msgspec.json.decode(service.parameters))
            services[name] = ArchivedService(service.type_id, parameters)
            self._holes += [f"service '{name}': the secret parameter '{each}'" for each in service.secrets]
            self._holes += [f"service '{name}': the {kind} '{each}'" for kind, each in service.kept]
        self._holes += [
            f"webhook to {shown}: all of it, since address and secret are secrets" for shown in stored.webhooks
        ]
        environments = {each.name: self._environment(each) for each in stored.environments}
        applications = {each.name: self._application(each) for each in stored.applications}
        roles = {
            each.name: ArchivedRole(each.permissions, each.kind == RoleKind.GUEST)
            for each in stored.roles
            if each.kind != RoleKind.ADMINISTRATOR
        }
        promotion = self._order("organization", stored.promotion)
        return Archive(
            name=stored.name,
            services=services,
            environments=environments,
            applications=applications,
            roles=roles,
            users={each.email: ArchivedUser(each.name, each.roles) for each in stored.users},
            promotion=promotion,
            mentions=dict(self._mentions(mentioned | _mentioned(each.permissions for each in roles.values()))),
            holes=sorted(self._holes),
        )

    def _environment(self, stored: StoredEnvironment) -> Environment:
        where = f"environment '{stored.name}'"
        policies = msgspec.json.decode(stored.policies)
        properties = msgspec.json.decode(stored.properties, type=list[PropertyEntry])
        return Environment(
            default=stored.is_default,
            policies={name: self._open(f"{where}: the policy '{name}'", name, each) for name, each in policies.items()},
            markers=[each["name"] for each in msgspec.json.decode(stored.markers)],
            properties=[
                PropertyEntry(
                    each.name, each.type, self._open(f"{where}: the property '{each.name}'", each.name, each.value)
                )
                for each in properties
            ],
            services=sorted(self._services[each] for each in stored.services),
            labels=dict(sorted(stored.labels.items())) or None,
            rules=_rules(stored.rules),
        )

    def _application(self, stored: StoredApplication) -> ArchivedApplication:
        source = None
        if stored.source_url is not None:
            sealed = base64.b64decode(stored.sealed_source or "")
            address = open_source_url(self._key, stored.id, sealed) if sealed else stored.source_url
            if address == stored.source_url:
                source = address
            else:
                self._holes.append(f"application '{stored.name}': the source {stored.source_url}, which holds a secret")
        manifests = self._manifests.get(stored.id, [])
        return ArchivedApplication(
            manifests=manifests,
            versions=0 if manifests else stored.versions,
            source=source,
            labels=dict(sorted(stored.labels.items())),
            rules=_rules(stored.rules),
            revisions={each.name: self._revision(stored.name, each) for each in stored.revisions},
            promotion=self._order(f"application '{stored.name}'", stored.promotion),
        )

    def _order(self, where: str, stored: str | None) -> list[StageEntry] | None:
        """Return the order of an owner, unless an environment of it was deleted."""
        stages = None if stored is None else read_stages(stored)
        if stages is None:
            return None
        if any(each.environment_id not in self._environments for each in stages):
            self._holes.append(f"{where}: the promotion order, of which an environment was deleted")
            return None
        return [StageEntry.of(each, self._environments[each.environment_id]) for each in stages]

    def _revision(self, application: str, stored: StoredRevision) -> ArchivedRevision:
        where = f"revision '{application}/{stored.name}'"
        parameters = msgspec.json.decode(stored.parameters)
        return ArchivedRevision(
            version=stored.version,
            parameters={
                name: self._open(f"{where}: the parameter '{name}'", name, each) for name, each in parameters.items()
            },
            environment=self._environments.get(stored.environment_id or ""),
            submodules=self._open(
                f"{where}: parameters of submodules",
                "",
                with_revision_names(
                    msgspec.json.decode(stored.submodules), lambda number: self._revisions.get(number, number)
                ),
            ),
        )

    def _open(self, what: str, name: str, value: Any) -> Any:
        """Return a value with its secrets covered, noting a hole where there are some."""
        covered = self._redactor.named(name, value) if name else self._redactor.value(value)
        if covered != value:
            self._holes.append(what)
        return covered

    def _mentions(self, numbers: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
        stored = self._stored
        known = {
            **{each.id: ("application", each.name) for each in stored.applications},
            **{number: ("environment", name) for number, name in self._environments.items()},
            **{number: ("service", name) for number, name in self._services.items()},
            **{each.id: ("user", each.email) for each in stored.users},
        }
        for number in sorted(numbers & set(known)):
            yield number, known[number]


def _rules(stored: StoredRules) -> Rules | None:
    """Return the rules of an application or environment; None without any."""
    decode = msgspec.json.decode
    found = Rules.of(
        LifetimeRules() if stored.lifetime is None else decode(stored.lifetime, type=LifetimeRules),
        None if stored.sleep is None else decode(stored.sleep, type=SleepRules),
        [] if stored.concurrency is None else decode(stored.concurrency, type=list[ConcurrencyLimit]),
        () if stored.freeze is None else read_windows(stored.freeze),
        stored.changes,
        None if stored.audiences is None else decode(stored.audiences, type=list[str]),
    )
    return None if found == Rules() else found


def _unique(named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield names that differ: those of services need not."""
    taken: set[str] = set()
    for number, name in named:
        candidate, count = name, 1
        while candidate in taken:
            count += 1
            candidate = f"{name} ({count})"
        taken.add(candidate)
        yield number, candidate


@dataclass(frozen=True)
class Imported:
    """What became of an archive. Without an id nothing did: it was a plan."""

    id: str | None
    created: dict[str, int]
    holes: list[str]
    invitations: dict[str, Invitation] = field(default_factory=dict)


class _Planned(Exception):
    """Takes everything back that a plan has done."""


def read_archive(document: Mapping[str, Any]) -> Archive:
    """Return an archive of its document. Raises BadRequest."""
    version = document.get("version")
    if isinstance(version, int) and version > LINES_VERSION:
        raise BadRequest(
            f"The archive has format {version}; this version of Launchbay reads formats up to {LINES_VERSION}.",
            "Import it with the version that exported it, or a later one.",
            code="InvalidArchive",
        )
    try:
        return converted(document, Archive)
    except ValueError as error:
        raise BadRequest(f"The document isn't an archive of an organization: {error}", code="InvalidArchive") from None


class _Manifests(Protocol):
    """Where the versions of an archive come from."""

    digest: str  # of what the archive itself doesn't contain

    def take(self, application: str, after: int, last: int) -> list[str]:
        """Return some of the versions after one, up to the last one.

        Raises BadRequest if they aren't there.
        """
        ...

    def end(self) -> None:
        """Raise BadRequest if something is left."""
        ...


class _InDocument:
    """The versions of an archive in one document."""

    digest = ""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def take(self, application: str, after: int, last: int) -> list[str]:
        found = self._archive.applications[application].manifests[after:last]
        if not found:
            raise BadRequest("Its manifests are missing: it is of an archive in lines.")
        return found

    def end(self) -> None:
        """Nothing can be left: all of the document was read."""


class _InLines:
    """The versions of an archive in lines, in the order of its applications."""

    def __init__(self, file: IO[bytes], digest: str) -> None:
        self._file = file
        self.digest = digest
        self._number = 1  # of the line that was read last

    def take(self, application: str, after: int, last: int) -> list[str]:
        found: list[str] = []
        size = 0
        while size < limits.ARCHIVE_CHUNK_BYTES and after + len(found) < last:
            version = after + len(found) + 1
            data = self._file.readline(_LINE_BYTES)
            if not data.endswith(b"\n"):
                raise _refused(
                    f"line {self._number + 1}",
                    f"the archive is cut off before the end of version {version} of the manifest of '{application}'.",
                    "Export it again.",
                )
            self._number += 1
            try:
                line = msgspec.json.decode(data, type=ManifestLine)
            except ValueError as error:
                raise _refused(f"line {self._number}", f"it isn't a version of a manifest: {error}.") from None
            if (line.application, line.version) != (application, version):
                raise _refused(
                    f"line {self._number}",
                    f"version {line.version} of the manifest of '{line.application[:80]}' comes instead of version"
                    f" {version} of '{application}'.",
                )
            found.append(line.manifest)
            size += len(data)
        return found

    def end(self) -> None:
        if self._file.read(1):
            raise _refused(f"line {self._number + 1}", "more lines follow than the first line has versions.")


_LINE_BYTES = 64 * limits.MIB


async def check_creation(ctx: Context) -> None:
    """Raise what an import would if the caller may not create organizations."""
    async with ctx.begin() as work:
        await require_creation(work)


async def import_lines(
    ctx: Context, document: Mapping[str, Any], file: IO[bytes], name: str | None, *, plan: bool
) -> Imported:
    """Make an organization of an archive in lines, as `import_organization` does of one document.

    `document` is the first line, and `file` has the others.
    """

    def read() -> tuple[Archive, _Manifests]:
        place = file.tell()
        digest = hashlib.sha256()
        while data := file.read(limits.ARCHIVE_CHUNK_BYTES):
            digest.update(data)
        file.seek(place)
        return read_archive(document), _InLines(file, digest.hexdigest())

    return await _import(ctx, read, name, plan=plan)


async def import_organization(ctx: Context, document: Mapping[str, Any], name: str | None, *, plan: bool) -> Imported:
    """Create an organization from an archive, or only try it for a plan.

    Who may create an organization may import one. Raises BadRequest with the part that cannot be made.
    """

    def read() -> tuple[Archive, _Manifests]:
        archive = read_archive(document)
        return archive, _InDocument(archive)

    return await _import(ctx, read, name, plan=plan)


async def _import(
    ctx: Context, read: Callable[[], tuple[Archive, _Manifests]], name: str | None, *, plan: bool
) -> Imported:
    imported: Imported | None = None
    try:
        async with ctx.begin() as work:
            creator = await require_creation(work)
            # An archive may be large; other requests must not wait for it.
            archive, manifests = await asyncio.to_thread(read)
            with ctx.app.database.joined(work.connection):
                imported = await _Importer(work, archive, manifests).carry_out(name)
            _roll_back(plan)
    except _Planned:
        assert imported is not None, "a plan is taken back after it was carried out"
        return Imported(None, imported.created, imported.holes)
    assert imported.id is not None, "only a plan makes nothing"
    creator.note(imported.id)
    return imported


def _roll_back(plan: bool) -> None:  # noqa: FBT001 - the one thing that it goes by
    """End the transaction of a plan without a commit."""
    if plan:
        raise _Planned


class _Importer:
    """One import, in one transaction. The maps lead from names to the new ids."""

    def __init__(self, work: Work, archive: Archive, manifests: _Manifests) -> None:
        self._work = work
        self._manifests = manifests
        # The import is one change with one entry: the use cases that make its parts write none.
        self._ctx = Context(work.app, work.actor, audited=False)
        self._connection = work.connection
        self._archive = archive
        self._ids: dict[str, dict[str, str]] = {
            kind: {} for kind in ("service", "environment", "application", "user", "revision")
        }
        self._invitations: dict[str, Invitation] = {}
        self._change_rules: list[tuple[RuleOwner, str, str]] = []
        self._organization_id = ""

    async def carry_out(self, name: str | None) -> Imported:
        """Make everything, each part after those that it names."""
        archive, connection = self._archive, self._connection
        with _part("name"):
            name = validate_name(archive.name if name is None else name)
        self._organization_id = await organizations.create_empty_organization(connection, name, self._ctx.actor.user_id)
        whole = {"archive": archive, "manifests": self._manifests.digest} if self._manifests.digest else archive
        fingerprint = await asyncio.to_thread(lambda: self._work.fingerprint(msgspec.to_builtins(whole)))
        await self._work.audit(
            "import_organization",
            self._organization_id,
            after={"name": name, **self._counts(), "archive": fingerprint},
            at=f"/organizations/{self._organization_id}",
        )
        zone_id = (await services.list_zones(connection, organization_id=self._organization_id))[0].id
        for each, service in archive.services.items():
            with _part(f"service '{each}'"):
                await self._service(zone_id, each, service)
        for each, environment in archive.environments.items():
            with _part(f"environment '{each}'"):
                await self._environment(each, environment)
        defaults = sum(each.default for each in archive.environments.values())
        if defaults != 1:
            raise _refused("environments", f"exactly one must be the default, not {defaults}.")
        for each, application in archive.applications.items():
            with _part(f"application '{each}'"):
                made = self._ids["application"][each] = new_id()
                await insert_application(self._work, made, self._organization_id, validate_name(each))
                await self._label("application", made, application.labels)
        await self._members()
        for each, application in archive.applications.items():
            with _part(f"application '{each}'"):
                await self._versions(each, application)
                await self._rules("application", self._ids["application"][each], application.rules)
        await asyncio.to_thread(self._manifests.end)
        await self._revisions()
        await self._objects()
        await self._order("organization", self._organization_id, "organization", archive.promotion)
        for each, application in archive.applications.items():
            await self._order(
                "application", self._ids["application"][each], f"application '{each}'", application.promotion
            )
        for kind, owner_id, text in self._change_rules:
            await replace_rules(self._ctx, kind, owner_id, text)
        return Imported(self._organization_id, self._counts(), archive.holes, self._invitations)

    def _counts(self) -> dict[str, int]:
        archive = self._archive
        return {
            "services": len(archive.services),
            "environments": len(archive.environments),
            "applications": len(archive.applications),
            "manifests": sum(len(each.manifests) or each.versions for each in archive.applications.values()),
            "revisions": sum(len(each.revisions) for each in archive.applications.values()),
            "roles": len(archive.roles),
            "users": len(archive.users),
            "serviceAccounts": len(archive.objects.get("service-account", ())),
            "gitSources": len(archive.objects.get("git-source", ())),
            "schedules": len(archive.objects.get("schedule", ())),
        }

    async def _service(self, zone_id: str, name: str, service: ArchivedService) -> None:
        kind = self._ctx.app.service_types.find(service.type_id)
        if kind is None:
            raise BadRequest(f"There is no service type {service.type_id[:80]!r} in this installation.")
        checked = await self._checked(name, kind, service.parameters)
        service_id = self._ids["service"][name] = new_id()
        await services.insert(
            self._connection,
            service_id=service_id,
            organization_id=self._organization_id,
            zone_id=zone_id,
            name=validate_name(name),
            type_id=kind.id,
            parameters=msgspec.json.encode(checked).decode(),
        )

    async def _checked(self, name: str, kind: ServiceType, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters of a service.

        Whether they fit its secrets is found out when those are filled in.
        """
        secret = sorted(each for each, parameter in kind.parameters.items() if parameter.secret and each in given)
        if secret:
            raise BadRequest(f"An archive holds no secrets, and {', '.join(secret)} is one. Fill it in afterwards.")
        egress = self._ctx.app.egress.for_environment(self._organization_id)
        scope = ParameterScope(
            connection=self._connection, organization_id=self._organization_id, previous={}, egress=egress
        )
        try:
            return (await changed_parameters(kind, scope, ServiceParameters(), given)).open
        except FieldErrors as error:
            has_holes = name in self._archive.objects.get("service", ()) or any(
                hole.startswith(f"service '{name}':") for hole in self._archive.holes
            )
            secrets = {each for each, parameter in kind.parameters.items() if parameter.secret}
            if not has_holes or not set(error.fields) <= secrets:
                raise BadRequest(*error.messages) from error
            return given

    async def _environment(self, name: str, environment: Environment) -> None:
        ctx = self._ctx
        made = await environments.create_environment(ctx, self._organization_id, name)
        self._ids["environment"][name] = made
        if environment.default:
            await environments.set_default_environment(ctx, self._organization_id, made)
        if environment.policies:
            await environments.replace_policies(ctx, made, write_policies(environment.policies))
        if environment.markers:
            await environments.replace_markers(ctx, made, [Marker(each) for each in environment.markers])
        if environment.properties:
            entries = [Property(name=each.name, value=each.value, type=each.type) for each in environment.properties]
            await environments.replace_properties(ctx, made, entries)
        if environment.services:
            offered = [self._id("service", each) for each in environment.services]
            await environments.replace_services(ctx, made, offered)
        await self._label("environment", made, environment.labels or {})
        await self._rules("environment", made, environment.rules)

    async def _rules(self, kind: RuleOwner, owner_id: str, rules: Rules | None) -> None:
        """Set rules, but for those about changes.

        They come last, since they would decide about the rest of the import.
        """
        if rules is None:
            return
        await replace_all_rules(self._ctx, kind, owner_id, msgspec.structs.replace(rules, changes=None))
        if rules.changes is not None:
            self._change_rules.append((kind, owner_id, rules.changes))

    async def _order(self, kind: OrderOwner, owner_id: str, what: str, entries: list[StageEntry] | None) -> None:
        if entries is not None:
            with _part(f"{what}: promotion"):
                stages = [each.stage(self._id("environment", each.environment)) for each in entries]
                await replace_order(self._ctx, kind, owner_id, stages)

    async def _objects(self) -> None:
        """Make the objects that name the others."""
        for kind in KINDS:
            for name, text in self._archive.objects.get(kind, {}).items():
                with _part(f"{kind} '{name}'"):
                    content = await asyncio.to_thread(read_object_text, kind, text)
                    await directory_objects.put_directory_object(self._ctx, self._organization_id, kind, name, content)

    async def _label(self, kind: Literal["environment", "application"], object_id: str, labels: dict[str, str]) -> None:
        if labels:
            text = msgspec.json.encode(read_labels(labels)).decode()
            await fleet.set_labels[kind](self._connection, id=object_id, labels=text)

    async def _members(self) -> None:
        """Make roles and users.

        Roles may name users by id, so the users come first and get their roles last.
        """
        ctx, organization_id = self._ctx, self._organization_id
        for email, user in self._archive.users.items():
            with _part(f"user '{email}'"):
                if canonical_email(email) == ctx.actor.email:
                    self._ids["user"][email] = ctx.actor.user_id
                    continue
                added = await users.create_user(
                    ctx, organization_id, email=email, name=user.name, password=None, role_names=[]
                )
                self._ids["user"][email] = added.id
                if added.invitation is not None:
                    self._invitations[email] = added.invitation
        for name, role in self._archive.roles.items():
            with _part(f"role '{name}'"):
                made = await roles.create_role(ctx, organization_id, name, self._with_new_ids(role.permissions))
                if role.is_guest:
                    await role_store.set_role_kind(self._connection, id=made.id, kind=RoleKind.GUEST)
        for email, user in self._archive.users.items():
            with _part(f"user '{email}'"):
                if user.roles:
                    await roles.assign_roles(ctx, organization_id, self._ids["user"][email], user.roles)

    async def _versions(self, name: str, application: ArchivedApplication) -> None:
        """Make all versions of a manifest, some at a time."""
        application_id = self._ids["application"][name]
        count = len(application.manifests) or application.versions
        if count < 1:
            raise BadRequest("It has no manifest.")
        version, last = 0, ""
        while version < count:
            taken = await asyncio.to_thread(self._manifests.take, name, version, count)
            sizes = [len(content.encode()) for content in taken]
            for number, size in enumerate(sizes, version + 1):
                if size > self._work.app.manifest_bytes:
                    raise BadRequest(
                        f"Version {number} of the manifest is longer than {self._work.app.manifest_bytes} bytes."
                    )
            await self._work.admit(self._organization_id, {Quota.MANIFEST_BYTES: sum(sizes)})
            await applications.insert_manifests(
                self._connection,
                application_id=application_id,
                version=version + 1,
                contents=await asyncio.to_thread(lambda texts: [*map(self._with_new_ids, texts)], taken),
                author_id=self._ctx.actor.user_id,
            )
            version, last = version + len(taken), taken[-1]
        await applications.set_version(self._connection, application_id=application_id, version=count)
        await check_manifest(self._ctx.app, last)
        if application.source is not None:
            await applications.set_source(
                self._connection,
                application_id=application_id,
                source_url=redact_source_url(application.source),
                sealed_source=seal_source_url(self._ctx.app.secret_key, application_id, application.source),
            )

    async def _revisions(self) -> None:
        """Make the revisions, each after those that its submodules name."""
        waiting = {
            f"{application}/{name}": (application, name, revision)
            for application, each in self._archive.applications.items()
            for name, revision in each.revisions.items()
        }
        order = TopologicalSorter(
            {
                key: [other for other in revision_names(revision.submodules) if other in waiting]
                for key, (_, _, revision) in waiting.items()
            }
        )
        with suppress(CycleError):  # those outside of the cycle come first
            order.prepare()
        while waiting:
            ready = order.get_ready()
            if not ready:
                raise _refused("revisions", f"these refer to each other in a cycle: {', '.join(sorted(waiting))}.")
            for key in ready:
                order.done(key)
                application, name, revision = waiting.pop(key)
                with _part(f"revision '{key}'"):
                    environment = revision.environment
                    request = RevisionRequest(
                        name=name,
                        version=revision.version,
                        parameters=revision.parameters,
                        environment_id=None if environment is None else self._id("environment", environment),
                        submodules=with_revision_ids(
                            revision.submodules, lambda other: other if is_id(other) else self._id("revision", other)
                        ),
                    )
                    # What it names outside of the archive cannot be launched, as in the exported organization.
                    self._ids["revision"][key] = await create_revision(
                        self._ctx, self._ids["application"][application], request, checks_submodules=False
                    )

    def _id(self, kind: str, name: str) -> str:
        found = self._ids[kind].get(name)
        if found is None:
            raise BadRequest(f"The archive has no {kind} '{name[:80]}'.")
        return found

    def _with_new_ids(self, text: str) -> str:
        """Return a text with the new ids instead of those that it mentions."""

        def replaced(found: re.Match[str]) -> str:
            kind, name = self._archive.mentions.get(found[0], ("", ""))
            return self._ids.get(kind, {}).get(name, found[0])

        return IN_TEXT.sub(replaced, text)


@contextmanager
def _part(what: str) -> Iterator[None]:
    """Say of which part of the archive an error is."""
    try:
        yield
    except BadRequest as error:
        raise _refused(what, *error.messages) from error


def _refused(what: str, *sentences: str) -> LaunchbayError:
    return BadRequest(f"{what}: {sentences[0]}", *sentences[1:], "Nothing was imported.", code="InvalidArchive")
