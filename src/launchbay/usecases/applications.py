"""Applications (reference §4, Applications; conformance.md, "Beyond the reference")."""

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest
from launchbay.ids import NamedRow, new_id
from launchbay.model.labels import read_selector
from launchbay.quotas.bounds import Quota
from launchbay.store import applications
from launchbay.store import applications as store
from launchbay.store.applications import Application
from launchbay.store.database import unique_violation_as
from launchbay.usecases.context import Context, Work, name_taken, validate_name
from launchbay.usecases.manifests import encoded_digests

DEFAULT_MANIFEST = "launch:\n  steps: []\ndestroy:\n  steps: []\n"


async def list_applications(ctx: Context, organization_id: str, labels: str | None = None) -> list[NamedRow]:
    """Return the applications of an organization that the caller may read, by name.

    `labels` is a selector of their labels. Raises BadRequest for a wrong one.
    """
    selector = None if labels is None else read_selector(labels)
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_organization(work.connection, organization_id=organization_id)
        if selector is not None:
            listed = await store.list_labels(work.connection, organization_id=organization_id)
            labels_by_id = {row.id: msgspec.json.decode(row.labels) for row in listed}
            rows = [row for row in rows if selector.fits(labels_by_id.get(row.id, {}))]
    return await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.application)


async def create_application(ctx: Context, organization_id: str, name: str) -> str:
    """Create an application with an empty manifest as version 1; return its id.

    Raises BadRequest for a name that is empty, too long or taken.
    """
    application_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.CREATE_APPLICATION, permissions.application(application_id)
        )
        name = validate_name(name)
        await insert_application(work, application_id, organization.id, name)
        await work.admit(organization.id, {Quota.MANIFEST_BYTES: len(DEFAULT_MANIFEST)})
        await applications.insert_manifest(
            work.connection,
            application_id=application_id,
            version=1,
            content=DEFAULT_MANIFEST,
            author_id=ctx.actor.user_id,
            message=None,
            digests=await encoded_digests(ctx.app, DEFAULT_MANIFEST),
        )
        await work.audit(
            "create_application", organization, after={"name": name}, at=permissions.application(application_id)
        )
    return application_id


async def insert_application(work: Work, application_id: str, organization_id: str, name: str) -> None:
    """Write an application without a manifest. Raises BadRequest."""
    await work.admit(organization_id, {Quota.APPLICATIONS: 1})
    with unique_violation_as(*name_taken("an application", name)):
        await store.insert(work.connection, application_id=application_id, organization_id=organization_id, name=name)


async def read_application(ctx: Context, application_id: str) -> Application:
    async with ctx.read() as work:
        return await work.lookup.application(application_id, Permission.READ)


async def rename_application(ctx: Context, application_id: str, name: str) -> None:
    """Give an application another name.

    Raises BadRequest for a name that is bad or taken.
    """
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        name = validate_name(name)
        await store.lock_for_deletion(work.connection, application_id=application.id)
        await work.decide("rename_application", application, kind="edit")  # a refusal has the present name
        with unique_violation_as(*name_taken("an application", name)):
            await store.rename(work.connection, application_id=application.id, name=name)
        await work.audit("rename_application", application, before={"name": application.name}, after={"name": name})


async def delete_application(ctx: Context, application_id: str) -> None:
    """Delete an application with its manifests, revisions and destroyed instances.

    Raises BadRequest while it has instances that are not destroyed.
    """
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.DELETE_APPLICATION)
        await store.lock_for_deletion(work.connection, application_id=application.id)
        active = await store.count_active_instances(work.connection, application_id=application.id) or 0
        if active:
            raise BadRequest(
                f"The application {application.name!r} has instances that are not destroyed ({active}).",
                "Destroy them first.",
                code="ApplicationInUse",
            )
        await work.decide("delete_application", application, kind="edit")  # its freeze and rules go with it
        await store.delete_instances(work.connection, application_id=application.id)
        await store.delete(work.connection, application_id=application.id)
        await work.audit("delete_application", application, before={"name": application.name})
