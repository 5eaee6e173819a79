"""An organization as plans of directories use it, from a thread.

Reading and comparing files takes time that the event loop doesn't have, so a plan runs in a thread. Inside
`database.joined` all its calls are one transaction, and a change that is refused takes all of them back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from launchbay.concurrency import shielded
from launchbay.errors import BadRequest, Unavailable
from launchbay.features.change_rules import usecases as change_rules
from launchbay.features.concurrency_limits.usecases import read_concurrency, replace_concurrency
from launchbay.features.directories import objects as directory_objects
from launchbay.features.directories.comparison import Listed, StoredApplication, StoredObject, StoredRevision
from launchbay.features.directories.contents import Noun
from launchbay.features.directories.values import PropertyEntry, RuleOwner, Rules
from launchbay.features.freezes import usecases as freezes
from launchbay.features.identities import usecases as identities
from launchbay.features.lifetimes import usecases as lifetimes
from launchbay.features.sleep_windows import usecases as sleep_windows
from launchbay.model.environment import Marker, Property
from launchbay.model.promotion import OrderOwner, Stage
from launchbay.store import organizations
from launchbay.usecases import applications, environments, manifests, revisions, roles, services
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import put_labels, read_object_labels
from launchbay.usecases.launch_request import RevisionRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredOrders:
    """How promotion orders are read and set. The feature that has them offers it.

    None is an owner without an order of its own.
    """

    read: Callable[[Context, OrderOwner, str], Awaitable[Sequence[Stage] | None]]
    replace: Callable[[Context, OrderOwner, str, Sequence[Stage] | None], Awaitable[None]]


async def read_order(ctx: Context, kind: OrderOwner, owner_id: str) -> Sequence[Stage] | None:
    """Return the order that an organization or application has itself."""
    for each in ctx.app.offered(StoredOrders):
        return await each.read(ctx, kind, owner_id)
    return None


async def replace_order(ctx: Context, kind: OrderOwner, owner_id: str, stages: Sequence[Stage] | None) -> None:
    """Set the own order of an organization or application.

    Raises BadRequest, also without the feature.
    """
    for each in ctx.app.offered(StoredOrders):
        await each.replace(ctx, kind, owner_id, stages)
        return
    raise BadRequest("This installation has no promotion.", code="InvalidDirectory")


async def in_thread(ctx: Context, organization_id: str, work: "Callable[[StoredOrganization], T]") -> T:
    """Return what `work` does with an organization, in a thread.

    Its calls have ended when this returns or raises.
    """
    organization = StoredOrganization(ctx, organization_id, asyncio.get_running_loop())
    running = asyncio.ensure_future(asyncio.to_thread(work, organization))
    try:
        return await shielded(running)
    except asyncio.CancelledError:
        organization.stop()
        await asyncio.wait({running})
        raise


async def replace_all_rules(ctx: Context, kind: RuleOwner, owner_id: str, rules: Rules) -> None:
    """Replace the rules of an application or environment where they differ. Raises BadRequest."""
    lifetime, sleep, limits, windows = rules.read(kind)
    if lifetime != await lifetimes.read_rules(ctx, kind, owner_id):
        await lifetimes.replace_rules(ctx, kind, owner_id, lifetime)
    if sleep != await sleep_windows.read_rules(ctx, kind, owner_id):
        await sleep_windows.replace_rules(ctx, kind, owner_id, sleep)
    if limits != await read_concurrency(ctx, kind, owner_id):
        await replace_concurrency(ctx, kind, owner_id, [msgspec.to_builtins(each) for each in limits])
    if windows != await freezes.read_own_windows(ctx, kind, owner_id):
        await freezes.replace_windows(ctx, kind, owner_id, windows)
    if rules.changes is not None:
        await change_rules.replace_rules(ctx, kind, owner_id, rules.changes)
    if rules.audiences is not None:
        await identities.replace_audiences(ctx, owner_id, rules.audiences)


class StoredOrganization:
    """An organization of this server; implements `comparison.Organization`. Its methods are for another thread."""

    def __init__(self, ctx: Context, organization_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self._ctx = ctx
        self._id = organization_id
        self._loop = loop
        self._stopped = False
        self.changed: set[str] = set()  # applications with a new manifest

    def stop(self) -> None:
        """Refuse further calls."""
        self._stopped = True

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._stopped:
            work.close()
            raise Unavailable("The server stops. The work begins again on another one.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def lock(self) -> None:
        """Wait for other changes of the organization, which lock objects in any order."""

        async def lock() -> None:
            async with self._ctx.begin() as work:
                await organizations.lock(work.connection, organization_id=self._id)

        self._call(lock())

    def list_roles(self) -> list[Listed]:
        found = self._call(roles.list_roles(self._ctx, self._id))
        return [Listed(each.id, each.name, each.can_edit) for each in found]

    def list_environments(self) -> list[Listed]:
        found = self._call(environments.list_environments(self._ctx, self._id))
        return [Listed(each.id, each.name, each.is_default) for each in found]

    def list_applications(self) -> list[Listed]:
        found = self._call(applications.list_applications(self._ctx, self._id))
        return [Listed(each.id, each.name) for each in found]

    def list_services(self) -> list[Listed]:
        return [Listed(each.id, each.name) for each in self._call(services.list_services(self._ctx, self._id))]

    def service_fingerprints(self, ids: list[str]) -> list[str]:
        """Return what tells whether services were replaced, in the order of the IDs."""

        async def read() -> list[str]:
            async with self._ctx.read() as work:
                found = await services.fingerprints(work, ids)
            return [found.get(each, "") for each in ids]

        return self._call(read())

    def role_text(self, role: str) -> str:
        return self._call(roles.read_role(self._ctx, role)).permissions

    def policies_text(self, environment: str) -> str:
        return self._call(environments.read_policies_document(self._ctx, environment))

    def markers(self, environment: str) -> list[str]:
        return [each.name for each in self._call(environments.read_markers(self._ctx, environment))]

    def properties(self, environment: str) -> list[PropertyEntry]:
        found = self._call(environments.read_properties(self._ctx, environment))
        return [PropertyEntry(each.name, each.type, each.value) for each in found]

    def environment_services(self, environment: str) -> list[str]:
        return [each.id for each in self._call(environments.read_services(self._ctx, environment))]

    def environment_labels(self, environment: str) -> dict[str, str]:
        return self._call(read_object_labels(self._ctx, "environment", environment))

    def application(self, application: str) -> StoredApplication:
        found = self._call(applications.read_application(self._ctx, application))
        return StoredApplication(found.name, found.latest_version, found.source_url)

    def application_labels(self, application: str) -> dict[str, str]:
        return self._call(read_object_labels(self._ctx, "application", application))

    def manifest(self, application: str, version: int) -> str:
        return self._call(manifests.read_manifest(self._ctx, application, version))

    def versions(self, application: str) -> list[int]:
        return [each.version for each in self._call(manifests.list_manifests(self._ctx, application))]

    def list_revisions(self, application: str) -> list[Listed]:
        return [Listed(each.id, each.name) for each in self._call(revisions.list_revisions(self._ctx, application))]

    def revision(self, revision: str) -> StoredRevision:
        found = self._call(revisions.read_revision(self._ctx, revision))
        return StoredRevision(
            found.id,
            found.name,
            found.application_id,
            found.version,
            msgspec.json.decode(found.parameters),
            found.environment_id,
            msgspec.json.decode(found.submodules),
        )

    def manifest_problem(self, text: str) -> str | None:
        for finding in self._call(manifests.validate_manifest(self._ctx, text)):
            if finding.severity == "error":
                return f"line {finding.line}, column {finding.column}: {finding.message}"
        return None

    def rules(self, kind: RuleOwner, owner: str) -> Rules:
        of_environment = kind == "environment"
        audiences = self._call(identities.read_audiences(self._ctx, owner)) if of_environment else []
        return Rules.of(
            self._call(lifetimes.read_rules(self._ctx, kind, owner)),
            self._call(sleep_windows.read_rules(self._ctx, kind, owner)),
            self._call(read_concurrency(self._ctx, kind, owner)),
            self._call(freezes.read_own_windows(self._ctx, kind, owner)),
            self._call(change_rules.read_rules(self._ctx, kind, owner)).rules or None,
            audiences or None,
        )

    def set_rules(self, kind: RuleOwner, owner: str, rules: Rules) -> None:
        self._call(replace_all_rules(self._ctx, kind, owner, rules))

    def promotion_order(self, application: str | None) -> Sequence[Stage] | None:
        return self._call(read_order(self._ctx, *self._owner(application)))

    def set_promotion_order(self, application: str | None, stages: Sequence[Stage] | None) -> None:
        self._call(replace_order(self._ctx, *self._owner(application), stages))

    def _owner(self, application: str | None) -> tuple[OrderOwner, str]:
        return ("organization", self._id) if application is None else ("application", application)

    def objects(self) -> tuple[list[StoredObject], list[str]]:
        """Return the objects that have a file each, and what a directory can't hold."""
        found = self._call(directory_objects.list_directory_objects(self._ctx, self._id))
        return [StoredObject(*each) for each in (*found.objects, *found.unexported)], found.omitted

    def service_types(self) -> list[str]:
        return [each.id for each in self._ctx.app.service_types.all()]

    def put_object(self, kind: Noun, name: str, content: dict[str, Any]) -> str:
        """Make or change an object, and return its ID.

        The invitation of a new user isn't kept: invite them again.
        """
        return self._call(directory_objects.put_directory_object(self._ctx, self._id, kind, name, content)).id

    def delete_object(self, kind: Noun, number: str) -> None:
        self._call(directory_objects.delete_directory_object(self._ctx, self._id, kind, number))

    def create_role(self, name: str, text: str) -> None:
        self._call(roles.create_role(self._ctx, self._id, name, text))

    def update_role(self, role: str, name: str, text: str) -> None:
        self._call(roles.update_role(self._ctx, role, name, text))

    def delete_role(self, role: str) -> None:
        self._call(roles.delete_role(self._ctx, role))

    def create_environment(self, name: str) -> str:
        return self._call(environments.create_environment(self._ctx, self._id, name))

    def delete_environment(self, environment: str) -> None:
        self._call(environments.delete_environment(self._ctx, environment))

    def set_policies(self, environment: str, document: str) -> None:
        self._call(environments.replace_policies(self._ctx, environment, document))

    def set_markers(self, environment: str, names: list[str]) -> None:
        self._call(environments.replace_markers(self._ctx, environment, [Marker(each) for each in names]))

    def set_properties(self, environment: str, properties: list[PropertyEntry]) -> None:
        found = [Property(each.name, each.value, each.type) for each in properties]
        self._call(environments.replace_properties(self._ctx, environment, found))

    def set_environment_services(self, environment: str, services: list[str]) -> None:
        self._call(environments.replace_services(self._ctx, environment, services))

    def set_environment_labels(self, environment: str, labels: Mapping[str, str]) -> None:
        self._call(put_labels(self._ctx, "environment", environment, labels))

    def set_default_environment(self, environment: str) -> None:
        self._call(environments.set_default_environment(self._ctx, self._id, environment))

    def create_application(self, name: str) -> str:
        return self._call(applications.create_application(self._ctx, self._id, name))

    def delete_application(self, application: str) -> None:
        self._call(applications.delete_application(self._ctx, application))

    def set_application_labels(self, application: str, labels: Mapping[str, str]) -> None:
        self._call(put_labels(self._ctx, "application", application, labels))

    def replace_manifest(self, application: str, name: str, text: str) -> None:  # noqa: ARG002 - the client shows it
        self._call(manifests.replace_manifest(self._ctx, application, text))
        self.changed.add(application)

    def set_manifest_source(self, application: str, url: str) -> None:
        self._call(manifests.set_manifest_source(self._ctx, application, url))
        self.changed.add(application)

    def delete_revision(self, revision: str) -> None:
        self._call(revisions.delete_revision(self._ctx, revision))

    def create_revision(
        self,
        application: str,
        *,
        name: str,
        version: int,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> str:
        request = RevisionRequest(
            name=name, version=version, parameters=parameters, environment_id=environment, submodules=submodules
        )
        return self._call(revisions.create_revision(self._ctx, application, request))

    def change_revision(
        self,
        revision: str,
        *,
        version: int | None,
        parameters: dict[str, Any],
        environment: str | None,
        submodules: dict[str, Any],
    ) -> None:
        request = RevisionRequest(
            version=version, parameters=parameters, environment_id=environment, submodules=submodules
        )
        self._call(revisions.change_revision(self._ctx, revision, request))
