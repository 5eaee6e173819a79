"""Applications and their manifests (reference §4, Applications)."""

from launchbay.access import resources
from launchbay.access.actor import Actor
from launchbay.access.permissions import Permission
from launchbay.errors import InvalidManifest, ManifestSourceLocked
from launchbay.ids import new_id
from launchbay.model.findings import Finding
from launchbay.store import applications as store
from launchbay.store import manifests
from launchbay.store.constraints import refuse_duplicate
from launchbay.store.rows import NamedRow
from launchbay.usecases.desk import Desk
from launchbay.usecases.names import checked_name

DEFAULT_MANIFEST = "launch:\n  steps: []\ndestroy:\n  steps: []\n"


async def list_applications(desk: Desk, actor: Actor, organization_id: str) -> list[NamedRow]:
    """Return the applications of an organization that the caller may read, by name."""
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
        rows = await store.of_organization(connection, organization_id=organization.id)
    return [row for row in rows if lookup.allows(organization.id, Permission.READ, resources.application(row.id))]


async def create_application(desk: Desk, actor: Actor, organization_id: str, name: str) -> str:
    """Create an application with the default no-op manifest as version 1 and return its id.

    Raises BadRequest for a name that is empty, too long or taken.
    """
    application_id = new_id()
    async with desk.database.transaction() as connection:
        organization = await desk.lookups.on(connection, actor).organization(
            organization_id, Permission.CREATE_APPLICATION, resources.application(application_id)
        )
        name = checked_name(name)
        with refuse_duplicate(f"There is an application named {name!r} already. Choose another name.", "NameTaken"):
            await store.insert(connection, application_id=application_id, organization_id=organization.id, name=name)
        await manifests.insert(
            connection, application_id=application_id, version=1, content=DEFAULT_MANIFEST, author_id=actor.user_id
        )
    return application_id


async def replace_manifest(desk: Desk, actor: Actor, application_id: str, text: str) -> int:
    """Store a manifest as the application's newest version and return the version's number.

    Raises InvalidManifest with every finding, or ManifestSourceLocked when the manifest comes from a URL.
    """
    async with desk.database.transaction() as connection:
        application = await desk.lookups.on(connection, actor).application(application_id, Permission.EDIT_APPLICATION)
        if application.source_url is not None:
            raise ManifestSourceLocked(
                "The manifest of this application is loaded from an external location; an upload cannot replace it.",
                "Change it at its source.",
            )
        errors = [finding for finding in desk.check(text.encode()) if finding.severity == "error"]
        if errors:
            raise InvalidManifest([finding.to_document() for finding in errors])
        version = await store.next_version(connection, application_id=application.id)
        assert version is not None, "the application was looked up in this transaction"
        await manifests.insert(
            connection, application_id=application.id, version=version, content=text, author_id=actor.user_id
        )
    return version


async def validate_manifest(desk: Desk, actor: Actor, text: str) -> list[Finding]:
    """Return all findings of a manifest text, errors and warnings."""
    async with desk.database.connection() as connection:
        await desk.lookups.on(connection, actor).caller()
    return desk.check(text.encode())
