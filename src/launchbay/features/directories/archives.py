"""Export an organization as an archive, and import one, all of it or nothing (promise 8)."""

import asyncio
import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

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
from launchbay.features.directories.organization import replace_all_rules
from launchbay.features.directories.values import (
    ARCHIVE_VERSION,
    Archive,
    ArchivedApplication,
    ArchivedRevision,
    ArchivedRole,
    ArchivedService,
    ArchivedUser,
    Environment,
    PropertyEntry,
    RuleOwner,
    Rules,
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
from launchbay.model.redaction import Redactor
from launchbay.model.wrong_values import converted
from launchbay.model.yaml_text import yaml_text
from launchbay.planning.compiled import off_loop_if_large
from launchbay.quotas.bounds import Quota
from launchbay.service_types.contract import ParameterScope, ServiceParameters, ServiceType, changed_parameters
from launchbay.service_types.secrets import is_reference
from launchbay.store import applications, fleet, services
from launchbay.store import organizations as store
from launchbay.store import users as role_store
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
    too large for an archive.
    """
    async with ctx.app.database.snapshot():
        async with ctx.read() as work:
            organization = await work.lookup.organization(
                organization_id, Permission.MANAGE_USERS, permissions.user(new_id())
            )
            work.lookup.require(organization.id, Permission.MANAGE_ROLES, permissions.role(new_id()))
            text = await store.get_contents(work.connection, organization_id=organization.id)
        listing = await directory_objects.list_directory_objects(ctx, organization_id)
    sees_all = all(
        work.lookup.allows(organization.id, Permission.READ, each(new_id()))
        for each in (permissions.user, permissions.service, permissions.application)
    )
    if text is None:
        raise NotFound("The organization was deleted by another request.")
    archive, size = await asyncio.to_thread(_exported, text, ctx.app.secret_key, listing)
    if not sees_all:
        archive.holes.append("service accounts, Git sources and schedules that you can't read: all of them")
    if size > limits.ORGANIZATION_ARCHIVE_BYTES:
        raise BadRequest(
            f"The organization is larger than an archive may be, {limits.ORGANIZATION_ARCHIVE_BYTES} bytes.",
            "Delete applications that nobody needs any more, or back up the whole database.",
            code="ArchiveTooLarge",
        )
    return archive


def _exported(text: str, key: SecretKey, listing: Listing) -> tuple[Archive, int]:
    """Return the archive of what is stored, and its size in bytes."""
    archive = _Exporter(store.read_contents(text), key).archive()
    _add_objects(archive, listing)
    return archive, len(msgspec.json.encode(archive))


_ELSEWHERE = ("service ", "webhook ")  # the archive names holes of these itself


def _add_objects(archive: Archive, listing: Listing) -> None:
    """Add the objects that an archive holds as files of a directory do, and what can't be in it."""
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

    def __init__(self, stored: StoredOrganization, key: SecretKey) -> None:
        self._stored = stored
        self._key = key
        self._redactor = Redactor()
        self._holes: list[str] = []
        self._services = dict(_unique((each.id, each.name) for each in stored.services))
        self._environments = {each.id: each.name for each in stored.environments}
        self._revisions = {
            revision.id: f"{each.name}/{revision.name}" for each in stored.applications for revision in each.revisions
        }

    def archive(self) -> Archive:
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
        texts = [text for each in applications.values() for text in each.manifests]
        return Archive(
            name=stored.name,
            services=services,
            environments=environments,
            applications=applications,
            roles=roles,
            users={each.email: ArchivedUser(each.name, each.roles) for each in stored.users},
            mentions=dict(self._mentions([*texts, *(each.permissions for each in roles.values())])),
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
        return ArchivedApplication(
            manifests=stored.manifests,
            source=source,
            labels=dict(sorted(stored.labels.items())),
            rules=_rules(stored.rules),
            revisions={each.name: self._revision(stored.name, each) for each in stored.revisions},
        )

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

    def _mentions(self, texts: Iterable[str]) -> Iterator[tuple[str, tuple[str, str]]]:
        stored = self._stored
        known = {
            **{each.id: ("application", each.name) for each in stored.applications},
            **{number: ("environment", name) for number, name in self._environments.items()},
            **{number: ("service", name) for number, name in self._services.items()},
            **{each.id: ("user", each.email) for each in stored.users},
        }
        for number in sorted({found for text in texts for found in IN_TEXT.findall(text)}):
            if number in known:
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
    if isinstance(version, int) and version > ARCHIVE_VERSION:
        raise BadRequest(
            f"The archive has format {version}; this version of Launchbay reads formats up to {ARCHIVE_VERSION}.",
            "Import it with the version that exported it, or a later one.",
            code="InvalidArchive",
        )
    try:
        return converted(document, Archive)
    except ValueError as error:
        raise BadRequest(f"The document isn't an archive of an organization: {error}", code="InvalidArchive") from None


async def import_organization(ctx: Context, document: Mapping[str, Any], name: str | None, *, plan: bool) -> Imported:
    """Make an organization of an archive, with the caller as an administrator; as a plan only try it.

    Who may create an organization may import one. Raises BadRequest with the part that cannot be made.
    """
    imported: Imported | None = None
    try:
        async with ctx.begin() as work:
            creator = await require_creation(work)
            # An archive may be large; other requests must not wait for it.
            archive = await asyncio.to_thread(read_archive, document)
            with ctx.app.database.joined(work.connection):
                imported = await _Importer(work, archive).carry_out(name)
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

    def __init__(self, work: Work, archive: Archive) -> None:
        self._work = work
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
        fingerprint = await asyncio.to_thread(lambda: self._work.fingerprint(msgspec.to_builtins(archive)))
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
                await self._manifests(self._ids["application"][each], application)
                await self._rules("application", self._ids["application"][each], application.rules)
        await self._revisions()
        await self._objects()
        for kind, owner_id, text in self._change_rules:
            await replace_rules(self._ctx, kind, owner_id, text)
        return Imported(self._organization_id, self._counts(), archive.holes, self._invitations)

    def _counts(self) -> dict[str, int]:
        archive = self._archive
        return {
            "services": len(archive.services),
            "environments": len(archive.environments),
            "applications": len(archive.applications),
            "manifests": sum(len(each.manifests) for each in archive.applications.values()),
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
        """Return the parameters of a service. Whether they fit its secrets is found out when those are filled in."""
        secret = sorted(each for each, parameter in kind.parameters.items() if parameter.secret and each in given)
        if secret:
            raise BadRequest(f"An archive holds no secrets, and {', '.join(secret)} is one. Fill it in afterwards.")
        scope = ParameterScope(connection=self._connection, organization_id=self._organization_id, previous={})
        try:
            return (await changed_parameters(kind, scope, ServiceParameters(), given)).open
        except FieldErrors as error:
            has_holes = name in self._archive.objects.get("service", ()) or any(
                hole.startswith(f"service '{name}':") for hole in self._archive.holes
            )
            if not has_holes or not set(given) <= set(kind.parameters):
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
        """Make roles and users. Roles may name users by id, so the users come first and get their roles last."""
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

    async def _manifests(self, application_id: str, application: ArchivedApplication) -> None:
        if not application.manifests:
            raise BadRequest("It has no manifest.")
        size = sum(len(content.encode()) for content in application.manifests)
        await self._work.admit(self._organization_id, {Quota.MANIFEST_BYTES: size})
        for version, content in enumerate(application.manifests, 1):
            if len(content.encode()) > self._work.app.manifest_bytes:
                raise BadRequest(
                    f"Version {version} of the manifest is longer than {self._work.app.manifest_bytes} bytes."
                )
            await applications.insert_manifest(
                self._connection,
                application_id=application_id,
                version=version,
                content=await off_loop_if_large(lambda data: self._with_new_ids(data.decode()), content),
                author_id=self._ctx.actor.user_id,
                message=None,
                digests=None,  # computed when somebody asks: an old version may not compile any more
            )
        await applications.set_version(
            self._connection, application_id=application_id, version=len(application.manifests)
        )
        await check_manifest(self._ctx.app, application.manifests[-1])
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
        """Return a text with the ids of what was made in the place of those that it mentions."""

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
