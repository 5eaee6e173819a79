"""The users of an organization (reference §2 and §4; conformance.md, "Beyond the reference")."""

from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.store.users import AccountRow, OrganizationUserRow
from launchbay.usecases import roles, users
from launchbay.usecases.users import UserView
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, absolute_url, list_response
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Users")

_USER = {
    "id": EXAMPLE_ID,
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
    """A user in detail. `invited` is true until the first password is set."""

    enabled: bool
    invited: bool
    createdAt: int


class NewUser(msgspec.Struct):
    """A user to add: a new account, or the existing account with this email address."""

    email: str
    name: str
    password: Annotated[
        str | None, msgspec.Meta(description="First password. Default: an invitation link for the user to set one.")
    ] = None
    roles: list[str] = []


class AddedUser(msgspec.Struct, omit_defaults=True):
    """The ID of the user; for a new account without a password also the invitation link and its expiry."""

    id: str
    invitation: str | None = None
    invitationExpiresAt: int | None = None


class UserChange(msgspec.Struct):
    """Whether the account is enabled."""

    enabled: Annotated[bool, msgspec.Meta(description="Whether the account can sign in.")]


@routes.get(
    "/organizations/{orgId}/users",
    permission="Read on each user returned",
    returns=Returns("The users.", [_USER], type=list[UserItem]),
)
async def list_users(request: Request[None, Paging]) -> Response:
    """List the users of an organization."""
    views = await users.list_users(request.ctx, request.path["orgId"])
    return list_response(request, [UserItem(*_item(view)) for view in views])


@routes.post(
    "/organizations/{orgId}/users",
    permission="ManageUsers; ManageRoles too if roles are given",
    body=JsonBody(example={"email": "ann@example.org", "name": "Ann", "roles": ["Guest"]}),
    returns=Returns(
        "The ID of the user, and the invitation link of a new account without a password, shown once.",
        {
            "id": EXAMPLE_ID,
            "invitation": "https://launchbay.example/invitation/…",
            "invitationExpiresAt": 1_767_225_600_000,
        },
    ),
    extension=True,
    idempotency_key=True,
)
async def create_user(request: Request[NewUser, None]) -> AddedUser:
    """Add a user to an organization: a new account, or the existing account with this email address."""
    body = request.body
    added = await users.create_user(
        request.ctx,
        request.path["orgId"],
        email=body.email,
        name=body.name,
        password=body.password,
        role_names=body.roles,
    )
    if added.invitation is None:
        return AddedUser(added.id)
    link = absolute_url(request, f"/invitation/{added.invitation.token}")
    return AddedUser(added.id, link, to_ms(added.invitation.expires_at))


@routes.get(
    "/organizations/{orgId}/users/{userId}",
    permission="Read on the user",
    returns=Returns("The user.", {**_USER, "enabled": True, "invited": False, "createdAt": 1_767_225_600_000}),
    extension=True,
)
async def read_user(request: Request[None, None]) -> UserDetail:
    """Show a user of an organization."""
    view = await users.read_user(request.ctx, request.path["orgId"], request.path["userId"])
    row = view.row
    return UserDetail(*_item(view), row.enabled, row.is_invited, to_ms(row.created_at))


@routes.put(
    "/organizations/{orgId}/users/{userId}",
    permission="ManageUsers on the user, in every organization that the account belongs to",
    body=JsonBody(example={"enabled": False}),
    statuses=(409,),
    extension=True,
)
async def update_user(request: Request[UserChange, None]) -> None:
    """Disable or enable a user's account."""
    await users.update_user(request.ctx, request.path["orgId"], request.path["userId"], enabled=request.body.enabled)


@routes.delete(
    "/organizations/{orgId}/users/{userId}", permission="ManageUsers on the user", statuses=(400,), extension=True
)
async def remove_user(request: Request[None, None]) -> None:
    """Remove a user from an organization. An account without any organization is deleted."""
    await users.remove_user(request.ctx, request.path["orgId"], request.path["userId"])


@routes.put(
    "/organizations/{orgId}/users/{userId}/roles",
    permission="ManageRoles on the user and on each role",
    body=JsonBody(example=["Guest"]),
)
async def assign_roles(request: Request[list[str], None]) -> None:
    """Assign roles to a user."""
    await roles.assign_roles(request.ctx, request.path["orgId"], request.path["userId"], request.body)


@routes.delete(
    "/organizations/{orgId}/users/{userId}/roles",
    permission="ManageRoles on the user and on each role",
    body=JsonBody(example=["Guest"]),
)
async def revoke_roles(request: Request[list[str], None]) -> None:
    """Revoke roles from a user."""
    await roles.revoke_roles(request.ctx, request.path["orgId"], request.path["userId"], request.body)


def _item(view: UserView[OrganizationUserRow] | UserView[AccountRow]) -> tuple[str, str, str, list[str], bool, bool]:
    row = view.row
    return row.id, row.name, row.email, row.roles, view.can_evict, view.can_manage_roles
