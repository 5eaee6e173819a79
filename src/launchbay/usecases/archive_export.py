"""An organization as an archive, to be made again in another installation (docs/howto/move-an-organization.md)."""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission
from launchbay.auth.secret_key import SecretKey
from launchbay.errors import BadRequest, NotFound
from launchbay.ids import new_id
from launchbay.model.archive import (
    Archive,
    ArchivedApplication,
    ArchivedRevision,
    ArchivedRole,
    ArchivedService,
    ArchivedUser,
    Environment,
    PropertyEntry,
    with_revision_names,
)
from launchbay.model.redaction import Masking
from launchbay.store import organizations as store
from launchbay.store.organizations import StoredApplication, StoredEnvironment, StoredOrganization, StoredRevision
from launchbay.store.users import RoleKind
from launchbay.usecases.desk import Desk
from launchbay.usecases.sealed_addresses import opened_source

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])")


async def export_organization(desk: Desk, actor: Actor, organization_id: str) -> Archive:
    """Return an organization as of one moment. No secret is in it.

    The permissions are those of who could make the organization anew: ManageUsers for all users and ManageRoles for all
    roles. Raises BadRequest when it is larger than an archive may be.
    """
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id, Permission.MANAGE_USERS, permissions.user(new_id()))
        lookup.require(organization.id, Permission.MANAGE_ROLES, permissions.role(new_id()))
        text = await store.contents(connection, organization_id=organization.id)
    if text is None:
        raise NotFound("The organization was deleted at this moment.")
    archive = _Exporting(store.read_contents(text), desk.secret_key).archive()
    if len(msgspec.json.encode(archive)) > limits.ORGANIZATION_ARCHIVE_BYTES:
        raise BadRequest(
            f"The organization is larger than an archive may be, {limits.ORGANIZATION_ARCHIVE_BYTES} bytes.",
            "Delete applications that nobody needs any more, or back up the whole database.",
            code="ArchiveTooLarge",
        )
    return archive


class _Exporting:
    """One export. `holes` are noted wherever something is left out."""

    def __init__(self, stored: StoredOrganization, key: SecretKey) -> None:
        self._stored = stored
        self._key = key
        self._masking = Masking()
        self._holes: list[str] = []
        self._services = dict(_unique((each.id, each.name) for each in stored.services))
        self._environments = {each.id: each.name for each in stored.environments}
        self._revisions = {
            revision.id: f"{each.name}/{revision.name}" for each in stored.applications for revision in each.revisions
        }

    def archive(self) -> Archive:
        """Return the archive."""
        stored = self._stored
        for service in stored.services:
            name = self._services[service.id]
            self._holes += [f"service '{name}': the secret parameter '{each}'" for each in service.secrets]
            self._holes += [f"service '{name}': the {kind} '{each}'" for kind, each in service.kept]
        self._holes += [
            f"webhook to {shown}: all of it, since address and secret are secrets" for shown in stored.webhooks
        ]
        services = {
            self._services[each.id]: ArchivedService(
                each.type_id,
                self._open(
                    f"service '{self._services[each.id]}': parameters", "", msgspec.json.decode(each.parameters)
                ),
            )
            for each in stored.services
        }
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
        )

    def _application(self, stored: StoredApplication) -> ArchivedApplication:
        source = None
        if stored.source_url is not None:
            sealed = base64.b64decode(stored.sealed_source or "")
            address = opened_source(self._key, stored.id, sealed) if sealed else stored.source_url
            if address == stored.source_url:
                source = address
            else:
                self._holes.append(f"application '{stored.name}': the source {stored.source_url}, which holds a secret")
        return ArchivedApplication(
            manifests=stored.manifests,
            source=source,
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
        covered = self._masking.named(name, value) if name else self._masking.value(value)
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
        for number in sorted({found for text in texts for found in _ID.findall(text)}):
            if number in known:
                yield number, known[number]


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
