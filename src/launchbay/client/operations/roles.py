"""Operations of the API: roles.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from types import NoneType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Explained, RoleDetail, RoleItem


@list_operation(
    Row(
        id="list_roles",
        method="GET",
        path="/api/1/organizations/{orgId}/roles",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_roles(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[RoleItem]]:
    """Lists the roles of an organization.

    Needs: Read on each role shown.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[RoleItem], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_role",
        method="POST",
        path="/api/1/organizations/{orgId}/roles",
        media_type="application/json",
        keyed=True,
    )
)
def create_role(
    organization_id: str, *, name: str, permissions: str, idempotency_key: str | None = None
) -> Call[RoleDetail]:
    """Creates a role.

    Needs: ManageRoles.
    """
    return Call(
        RoleDetail,
        (organization_id,),
        body=given({"name": name, "permissions": permissions}),
        idempotency_key=idempotency_key,
    )


@operation(Row(id="read_role", method="GET", path="/api/1/roles/{roleId}"))
def read_role(role_id: str) -> Call[RoleDetail]:
    """Reads a role with its permissions.

    Needs: Read.
    """
    return Call(RoleDetail, (role_id,))


@operation(Row(id="update_role", method="PUT", path="/api/1/roles/{roleId}", media_type="application/json"))
def update_role(role_id: str, *, name: str, permissions: str) -> Call[None]:
    """Modifies a role; it counts for the next request of everybody who holds it.

    Needs: ManageRoles.
    """
    return Call(NoneType, (role_id,), body=given({"name": name, "permissions": permissions}))


@operation(Row(id="delete_role", method="DELETE", path="/api/1/roles/{roleId}"))
def delete_role(role_id: str) -> Call[None]:
    """Removes a role, also from everybody who holds it.

    Needs: ManageRoles.
    """
    return Call(NoneType, (role_id,))


@operation(
    Row(
        id="explain_permission",
        method="GET",
        path="/api/1/permissions/explain",
        about={
            "permission": "The permission's name, such as CreateInstance.",
            "path": "The object's path, such as /applications/{id}.",
            "user": "The user's id; the caller without it.",
            "touching": "Another object that is touched, such as a launch's /environments/{id}.",
            "organization": "For a path of a user: in which organization.",
        },
    )
)
def explain_permission(
    *, permission: str, path: str, user: str | None = None, touching: str | None = None, organization: str | None = None
) -> Call[Explained]:
    """Tells whether a user may do something, and which role, entry and pattern decide.

    Needs: None for oneself, ManageRoles on the user for others.

    `permission`: The permission's name, such as CreateInstance.

    `path`: The object's path, such as /applications/{id}.

    `user`: The user's id; the caller without it.

    `touching`: Another object that is touched, such as a launch's /environments/{id}.

    `organization`: For a path of a user: in which organization.
    """
    return Call(
        Explained,
        query={
            "permission": permission,
            "path": path,
            "user": user,
            "touching": touching,
            "organization": organization,
        },
    )
