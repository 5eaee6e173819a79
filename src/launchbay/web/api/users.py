"""The users of an organization (reference §2 and §4; conformance.md, "Beyond the reference")."""

from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.store.users import AccountRow, OrganizationUserRow
from launchbay.usecases import roles, users
from launchbay.usecases.users import UserView
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, absolute_url, list_response, page
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
    """A user in detail. `invited`: has no password yet. `pending`: must accept the invitation first."""

    enabled: bool
    invited: bool
    createdAt: int
    pending: bool | msgspec.UnsetType = msgspec.UNSET


class NewUser(msgspec.Struct):
    """A user to add. An existing account with this email address is invited."""

    email: str
    name: str
    password: Annotated[
        str | None, msgspec.Meta(description="First password. Default: an invitation link for the user to set one.")
    ] = None
    roles: list[str] = []
    isForProgram: Annotated[
        bool,
        msgspec.Meta(
            description="The account is for a program that signs in with this password, which never expires. The "
            "password of a person expires unless the person replaces it."
        ),
    ] = False


class AddedUser(msgspec.Struct, omit_defaults=True):
    """The ID of the user. `pending`: they must accept the invitation first."""

    id: str
    invitation: str | None = None
    invitationExpiresAt: int | None = None
    pending: bool = False


class PendingUser(msgspec.Struct):
    """Somebody who is invited. `roles` are those offered."""

    id: str
    name: str
    email: str
    roles: list[str]
    createdAt: int
    expiresAt: int


class UserChange(msgspec.Struct):
    """Whether the account is enabled."""

    enabled: Annotated[bool, msgspec.Meta(description="Whether the account can sign in.")]


class SignInBlock(msgspec.Struct):
    """A user who can't sign in for so many seconds."""

    id: str
    name: str
    email: str
    seconds: int


@routes.get(
    "/organizations/{orgId}/users",
    permission="Read on each user returned",
    returns=Returns("The users.", [_USER], type=list[UserItem]),
)
async def list_users(request: Request[None, Paging]) -> Response:
    """List the users of an organization."""
    limit, after = request.query.limit, request.query.after or ""
    if limit is not None:
        found = await users.list_users_after(request.ctx, request.path["orgId"], after, limit + 1)
        return page(request, [UserItem(*_item(view)) for view in found], limit)
    views = await users.list_users(request.ctx, request.path["orgId"])
    return list_response(request, [UserItem(*_item(view)) for view in views])


@routes.post(
    "/organizations/{orgId}/users",
    permission="ManageUsers; ManageRoles too if roles are given",
    body=JsonBody(example={"email": "ann@example.org", "name": "Ann", "roles": ["Guest"]}),
    returns=Returns(
        "The ID of the user, and the invitation link, shown once, unless it is a new account with a password.",
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
    """Add a user to an organization, or invite an existing account."""
    body = request.body
    added = await users.create_user(
        request.ctx,
        request.path["orgId"],
        email=body.email,
        name=body.name,
        password=body.password,
        role_names=body.roles,
        is_for_program=body.isForProgram,
    )
    if added.invitation is None:
        return AddedUser(added.id)
    link = absolute_url(request, added.invitation.path)
    return AddedUser(added.id, link, to_ms(added.invitation.expires_at), added.is_pending)


@routes.get(
    "/organizations/{orgId}/invitations",
    command="user invited",
    permission="ManageUsers on each user returned",
    returns=Returns(
        "The people.",
        [
            {
                "id": EXAMPLE_ID,
                "name": "Ann",
                "email": "ann@example.org",
                "roles": ["Guest"],
                "createdAt": 1_767_225_600_000,
                "expiresAt": 1_767_830_400_000,
            }
        ],
        type=list[PendingUser],
    ),
    extension=True,
)
async def list_pending_users(request: Request[None, Paging]) -> Response:
    """List people who have an account and are invited to an organization."""
    rows = await users.list_pending_members(request.ctx, request.path["orgId"])
    return list_response(
        request,
        [
            PendingUser(row.id, row.name, row.email, row.roles, to_ms(row.created_at), to_ms(row.expires_at))
            for row in rows
        ],
    )


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
    pending = True if view.is_pending else msgspec.UNSET
    return UserDetail(*_item(view), row.enabled, row.is_invited, to_ms(row.created_at), pending)


@routes.put(
    "/organizations/{orgId}/users/{userId}",
    permission="ManageUsers on the user, in the organization that made the account",
    body=JsonBody(example={"enabled": False}),
    statuses=(409,),
    extension=True,
)
async def update_user(request: Request[UserChange, None]) -> None:
    """Disable or enable a user's account."""
    await users.update_user(request.ctx, request.path["orgId"], request.path["userId"], enabled=request.body.enabled)


@routes.delete("/organizations/{orgId}/users/{userId}", permission="ManageUsers on the user", extension=True)
async def remove_user(request: Request[None, None]) -> None:
    """Remove a user from an organization. An account without any organization is deleted."""
    await users.remove_user(request.ctx, request.path["orgId"], request.path["userId"])


@routes.put(
    "/organizations/{orgId}/users/{userId}/roles",
    command="user assign-roles",
    permission="ManageRoles on the user and on each role",
    body=JsonBody(example=["Guest"]),
)
async def assign_roles(request: Request[list[str], None]) -> None:
    """Assign roles to a user."""
    await roles.assign_roles(request.ctx, request.path["orgId"], request.path["userId"], request.body)


@routes.delete(
    "/organizations/{orgId}/users/{userId}/roles",
    command="user revoke-roles",
    permission="ManageRoles on the user and on each role",
    body=JsonBody(example=["Guest"]),
)
async def revoke_roles(request: Request[list[str], None]) -> None:
    """Revoke roles from a user."""
    await roles.revoke_roles(request.ctx, request.path["orgId"], request.path["userId"], request.body)


@routes.get(
    "/organizations/{orgId}/signInBlocks",
    command="user blocks",
    permission="ManageUsers on each user returned",
    returns=Returns(
        "The users whose sign-in is blocked.",
        [{"id": EXAMPLE_ID, "name": "Ann", "email": "ann@example.org", "seconds": 42}],
        type=list[SignInBlock],
    ),
    extension=True,
)
async def list_sign_in_blocks(request: Request[None, Paging]) -> Response:
    """List users blocked after wrong passwords."""
    rows = await users.list_sign_in_blocks(request.ctx, request.path["orgId"])
    return list_response(request, [SignInBlock(row.id, row.name, row.email, row.blocked_s) for row in rows])


@routes.delete(
    "/organizations/{orgId}/users/{userId}/signInBlock",
    command="user unblock",
    permission="ManageUsers on the user",
    extension=True,
)
async def lift_sign_in_block(request: Request[None, None]) -> None:
    """Let a blocked user sign in again."""
    await users.lift_sign_in_block(request.ctx, request.path["orgId"], request.path["userId"])


def _item(view: UserView[OrganizationUserRow] | UserView[AccountRow]) -> tuple[str, str, str, list[str], bool, bool]:
    row = view.row
    return row.id, row.name, row.email, row.roles, view.can_evict, view.can_manage_roles
