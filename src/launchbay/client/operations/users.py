"""Operations of the API: users.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Sequence
from types import NoneType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import AddedUser, UserDetail, UserItem


@list_operation(
    Row(
        id="list_users",
        method="GET",
        path="/api/1/organizations/{orgId}/users",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_users(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[UserItem]]:
    """Lists the users of an organization.

    Needs: Read on each user shown.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[UserItem], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_user",
        method="POST",
        path="/api/1/organizations/{orgId}/users",
        media_type="application/json",
        keyed=True,
    )
)
def create_user(
    organization_id: str,
    *,
    email: str,
    name: str,
    password: str | None = None,
    roles: Sequence[str] | None = None,
    idempotency_key: str | None = None,
) -> Call[AddedUser]:
    """Adds a user to an organization: a new account, or the existing one of this e-mail address.

    Needs: ManageUsers; ManageRoles too when roles are given.
    """
    return Call(
        AddedUser,
        (organization_id,),
        body=given({"email": email, "name": name, "password": password, "roles": roles}),
        idempotency_key=idempotency_key,
    )


@operation(Row(id="read_user", method="GET", path="/api/1/organizations/{orgId}/users/{userId}"))
def read_user(organization_id: str, user_id: str) -> Call[UserDetail]:
    """Reads a user of an organization.

    Needs: Read on the user.
    """
    return Call(
        UserDetail,
        (
            organization_id,
            user_id,
        ),
    )


@operation(
    Row(
        id="update_user",
        method="PUT",
        path="/api/1/organizations/{orgId}/users/{userId}",
        media_type="application/json",
    )
)
def update_user(organization_id: str, user_id: str, *, enabled: bool) -> Call[None]:
    """Disables or enables a user's account.

    Needs: ManageUsers on the user, in every organization that the account belongs to.
    """
    return Call(
        NoneType,
        (
            organization_id,
            user_id,
        ),
        body=given({"enabled": enabled}),
    )


@operation(Row(id="remove_user", method="DELETE", path="/api/1/organizations/{orgId}/users/{userId}"))
def remove_user(organization_id: str, user_id: str) -> Call[None]:
    """Removes a user from an organization; an account that belongs to no other one is deleted.

    Needs: ManageUsers on the user.
    """
    return Call(
        NoneType,
        (
            organization_id,
            user_id,
        ),
    )


@operation(
    Row(
        id="assign_roles",
        method="PUT",
        path="/api/1/organizations/{orgId}/users/{userId}/roles",
        media_type="application/json",
    )
)
def assign_roles(organization_id: str, user_id: str, roles: Sequence[str]) -> Call[None]:
    """Assigns roles to a user.

    Needs: ManageRoles on the user and on each role.
    """
    return Call(
        NoneType,
        (
            organization_id,
            user_id,
        ),
        body=roles,
    )


@operation(
    Row(
        id="revoke_roles",
        method="DELETE",
        path="/api/1/organizations/{orgId}/users/{userId}/roles",
        media_type="application/json",
    )
)
def revoke_roles(organization_id: str, user_id: str, roles: Sequence[str]) -> Call[None]:
    """Revokes roles from a user.

    Needs: ManageRoles on the user and on each role.
    """
    return Call(
        NoneType,
        (
            organization_id,
            user_id,
        ),
        body=roles,
    )
