"""Operations of the API: organizations.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Archive, Created, HostKey, ImportedOrganization, Named


@list_operation(
    Row(
        id="list_organizations",
        method="GET",
        path="/api/1/organizations",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_organizations(*, limit: int | None = None, after: str | None = None) -> Call[list[Named]]:
    """Lists the organizations that the caller belongs to.

    Needs: None: everybody sees their own organizations.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Named], query={"limit": limit, "after": after})


@operation(
    Row(id="create_organization", method="POST", path="/api/1/organizations", media_type="application/json", keyed=True)
)
def create_organization(*, name: str, idempotency_key: str | None = None) -> Call[Created]:
    """Creates an organization with all that comes with one; the caller becomes its administrator.

    Needs: ManageUsers for all users of some organization.
    """
    return Call(Created, body=given({"name": name}), idempotency_key=idempotency_key)


@operation(Row(id="read_organization", method="GET", path="/api/1/organizations/{orgId}"))
def read_organization(organization_id: str) -> Call[Named]:
    """Reads an organization.

    Needs: None: for those who belong to it.
    """
    return Call(Named, (organization_id,))


@operation(
    Row(id="rename_organization", method="PUT", path="/api/1/organizations/{orgId}", media_type="application/json")
)
def rename_organization(organization_id: str, *, name: str) -> Call[None]:
    """Renames an organization.

    Needs: ManageUsers for all users.
    """
    return Call(NoneType, (organization_id,), body=given({"name": name}))


@operation(Row(id="export_organization", method="GET", path="/api/1/organizations/{orgId}/archive"))
def export_organization(organization_id: str) -> Call[Archive]:
    """Exports an organization as one document, without its secrets and its instances.

    Needs: ManageUsers for all users and ManageRoles for all roles.
    """
    return Call(Archive, (organization_id,))


@operation(
    Row(id="import_organization", method="POST", path="/api/1/archives", media_type="application/json", keyed=True)
)
def import_organization(
    *, archive: Mapping[str, Any], name: str | None = None, plan: bool | None = None, idempotency_key: str | None = None
) -> Call[ImportedOrganization]:
    """Makes an organization of an archive, all of it or nothing; the caller becomes its administrator.

    Needs: ManageUsers for all users of some organization.
    """
    return Call(
        ImportedOrganization,
        body=given({"archive": archive, "name": name, "plan": plan}),
        idempotency_key=idempotency_key,
    )


@list_operation(
    Row(
        id="list_host_keys",
        method="GET",
        path="/api/1/organizations/{orgId}/hostKeys",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_host_keys(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[HostKey]]:
    """Lists the keys that the hosts of workflows showed at their first use.

    Needs: EditEnvironment for all environments of the organization.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[HostKey], (organization_id,), query={"limit": limit, "after": after})


@operation(Row(id="forget_host_key", method="DELETE", path="/api/1/organizations/{orgId}/hostKeys/{host}"))
def forget_host_key(organization_id: str, host: str) -> Call[None]:
    """Forgets the key of a host, such as 10.0.0.5:22: the key that it shows next is pinned.

    Needs: EditEnvironment for all environments of the organization.
    """
    return Call(
        NoneType,
        (
            organization_id,
            host,
        ),
    )
