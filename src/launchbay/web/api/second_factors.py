"""Second factors: the caller's own, those of a member, and organizations that demand one."""

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import second_factors, users
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, list_response, optional_ms
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

own_routes = Routes("Account", prefix="", extension=True)
routes = Routes("Users", extension=True)


class SecondFactor(msgspec.Struct):
    """A second factor: `totp` or `passkey`. Times are in milliseconds."""

    id: str
    kind: str
    name: str
    createdAt: int
    lastUsedAt: int | None


class SignInPolicy(msgspec.Struct):
    """Whether members whose accounts have a password need a second factor."""

    secondFactorRequired: bool


@own_routes.get(
    "/api/1/users/me/secondFactors",
    command="account second-factors",
    permission="None: your own account",
    returns=Returns(
        "The factors, oldest first.",
        [{"id": EXAMPLE_ID, "kind": "totp", "name": "Phone", "createdAt": 1_767_225_600_000, "lastUsedAt": None}],
        type=list[SecondFactor],
    ),
)
async def list_second_factors(request: Request[None, Paging]) -> Response:
    """List your second factors.

    You add and remove them in the console.
    """
    found = await second_factors.list_own(request.ctx)
    items = [
        SecondFactor(row.id, row.kind, row.name, to_ms(row.created_at), optional_ms(row.last_used_at))
        for row in found.rows
    ]
    return list_response(request, items)


@routes.delete(
    "/organizations/{orgId}/users/{userId}/secondFactors",
    command="user reset-second-factors",
    permission="ManageUsers where the account was made",
)
async def reset_second_factors(request: Request[None, None]) -> None:
    """Remove a user's second factors.

    For who lost them. Sessions, refresh tokens and session tokens end too.
    """
    await users.reset_second_factors(request.ctx, request.path["orgId"], request.path["userId"])


@routes.get(
    "/organizations/{orgId}/signInPolicy",
    command="organization sign-in-policy",
    permission="None: every member",
    returns=Returns("The policy.", {"secondFactorRequired": False}),
    statuses=(403,),
)
async def read_sign_in_policy(request: Request[None, None]) -> SignInPolicy:
    """Show whether an organization demands a second factor."""
    return SignInPolicy(await second_factors.read_requirement(request.ctx, request.path["orgId"]))


@routes.put(
    "/organizations/{orgId}/signInPolicy",
    command="organization set-sign-in-policy",
    permission="ManageUsers for all users",
    body=JsonBody(example={"secondFactorRequired": True}),
)
async def write_sign_in_policy(request: Request[SignInPolicy, None]) -> None:
    """Set the sign-in policy of an organization.

    A password alone ends for its members when it demands a second factor. Refresh tokens stay.
    """
    required = request.body.secondFactorRequired
    await second_factors.write_requirement(request.ctx, request.path["orgId"], required=required)
