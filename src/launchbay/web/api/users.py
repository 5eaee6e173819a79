"""The users of an organization (reference §2 and §4; api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import roles, users
from launchbay.usecases.users import AccountView, MemberView
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Empty, Json, Paging, absolute, listed
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Users",)
_ID = "5f" * 12
_USER = {
    "id": _ID,
    "name": "Ann",
    "email": "ann@example.org",
    "roles": ["Guest"],
    "canEvict": True,
    "canManageRoles": True,
}


class UserItem(msgspec.Struct):
    """A user as lists show it."""

    id: str
    name: str
    email: str
    roles: list[str]
    canEvict: bool
    canManageRoles: bool


class UserDetail(UserItem):
    """A user in full. `invited` tells that the account still waits for its first password."""

    enabled: bool
    invited: bool
    createdAt: int


class NewUser(msgspec.Struct):
    """Who is to be added: a new account, or the existing one of this e-mail address."""

    email: str
    name: str
    password: str | None = None
    roles: list[str] = []


class AddedUser(msgspec.Struct, omit_defaults=True):
    """The id of the user; for a new account without a password also the link that sets it, and when that ends."""

    id: str
    invitation: str | None = None
    invitationExpiresAt: int | None = None


class UserChange(msgspec.Struct):
    """Whether the account may be used."""

    enabled: bool


async def list_users(call: Call[None, Paging]) -> Answer:
    """List the users of an organization."""
    views = await users.list_users(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [UserItem(*_item(view)) for view in views])


async def read_user(call: Call[None, None]) -> Answer:
    """Read one user of an organization."""
    view = await users.read_user(call.services.desk, call.actor, call.path["orgId"], call.path["userId"])
    row = view.row
    return Json(UserDetail(*_item(view), row.enabled, row.is_invited, to_ms(row.created_at)))


async def create_user(call: Call[NewUser, None]) -> Answer:
    """Add a user to an organization."""
    body = call.body
    added = await users.create_user(
        call.services.desk,
        call.actor,
        call.path["orgId"],
        email=body.email,
        name=body.name,
        password=body.password,
        role_names=body.roles,
    )
    if added.invitation is None:
        return Json(AddedUser(added.id))
    link = absolute(call, f"/invitation/{added.invitation.token}")
    return Json(AddedUser(added.id, link, to_ms(added.invitation.expires_at)))


async def update_user(call: Call[UserChange, None]) -> Answer:
    """Disable or enable a user."""
    await users.update_user(
        call.services.desk, call.actor, call.path["orgId"], call.path["userId"], enabled=call.body.enabled
    )
    return Empty()


async def remove_user(call: Call[None, None]) -> Answer:
    """Remove a user from an organization."""
    await users.remove_user(call.services.desk, call.actor, call.path["orgId"], call.path["userId"])
    return Empty()


async def assign_roles(call: Call[list[str], None]) -> Answer:
    """Assign roles to a user."""
    await roles.assign_roles(call.services.desk, call.actor, call.path["orgId"], call.path["userId"], call.body)
    return Empty()


async def revoke_roles(call: Call[list[str], None]) -> Answer:
    """Revoke roles from a user."""
    await roles.revoke_roles(call.services.desk, call.actor, call.path["orgId"], call.path["userId"], call.body)
    return Empty()


def _item(view: MemberView | AccountView) -> tuple[str, str, str, list[str], bool, bool]:
    row = view.row
    return row.id, row.name, row.email, row.roles, view.can_evict, view.can_manage_roles


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/users",
        operation_id="list_users",
        handler=list_users,
        summary="Lists the users of an organization.",
        tags=_TAGS,
        permission="Read on each user shown.",
        query=Paging,
        returns=Returns(list[UserItem], "The users.", [_USER]),
        statuses=(403,),
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations/{orgId}/users",
        operation_id="create_user",
        handler=create_user,
        summary="Adds a user to an organization: a new account, or the existing one of this e-mail address.",
        tags=_TAGS,
        permission="ManageUsers; ManageRoles too when roles are given",
        body=JsonBody(NewUser, example={"email": "ann@example.org", "name": "Ann", "roles": ["Guest"]}),
        returns=Returns(
            AddedUser,
            "The id of the user, and the invitation link of a new account without a password, shown this once.",
            {
                "id": _ID,
                "invitation": "https://launchbay.example/invitation/…",
                "invitationExpiresAt": 1_767_225_600_000,
            },
        ),
        statuses=(403,),
        addition=True,
        idempotency_key=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/users/{userId}",
        operation_id="read_user",
        handler=read_user,
        summary="Reads a user of an organization.",
        tags=_TAGS,
        permission="Read on the user",
        returns=Returns(
            UserDetail, "The user.", {**_USER, "enabled": True, "invited": False, "createdAt": 1_767_225_600_000}
        ),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/organizations/{orgId}/users/{userId}",
        operation_id="update_user",
        handler=update_user,
        summary="Disables or enables a user's account.",
        tags=_TAGS,
        permission="ManageUsers on the user, in every organization that the account belongs to",
        body=JsonBody(UserChange, example={"enabled": False}),
        statuses=(403, 409),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/organizations/{orgId}/users/{userId}",
        operation_id="remove_user",
        handler=remove_user,
        summary="Removes a user from an organization; an account that belongs to no other one is deleted.",
        tags=_TAGS,
        permission="ManageUsers on the user",
        statuses=(400, 403),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/organizations/{orgId}/users/{userId}/roles",
        operation_id="assign_roles",
        handler=assign_roles,
        summary="Assigns roles to a user.",
        tags=_TAGS,
        permission="ManageRoles on the user and on each role",
        body=JsonBody(list[str], example=["Guest"]),
        statuses=(403,),
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/organizations/{orgId}/users/{userId}/roles",
        operation_id="revoke_roles",
        handler=revoke_roles,
        summary="Revokes roles from a user.",
        tags=_TAGS,
        permission="ManageRoles on the user and on each role",
        body=JsonBody(list[str], example=["Guest"]),
        statuses=(403,),
    ),
)
