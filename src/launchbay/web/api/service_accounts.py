"""Service accounts, and access tokens (conformance.md, "Beyond the reference")."""

from typing import Annotated

import msgspec

from launchbay.auth.gate import read_role_text
from launchbay.clock import to_ms
from launchbay.store.access_tokens import ListedTokenRow, ServiceAccountRow
from launchbay.usecases import access_tokens, service_accounts
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, list_response, optional_ms
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Service accounts")

_TIME = 1_767_225_600_000
_ACCOUNT = {
    "id": EXAMPLE_ID,
    "name": "Deployment",
    "email": "deployment-4f3a01@service.invalid",
    "description": "Deploys from the build server",
    "enabled": True,
    "roles": ["Guest"],
    "createdAt": _TIME,
}


class ServiceAccount(msgspec.Struct):
    """A service account. The audit log shows its `email`, which gets no mail."""

    id: str
    name: str
    email: str
    description: str
    enabled: bool
    roles: list[str]
    createdAt: int


class NewServiceAccount(msgspec.Struct):
    """A service account to create."""

    name: str
    description: str = ""
    roles: list[str] = []


class ServiceAccountChange(msgspec.Struct):
    """What to change; without a value it stays."""

    name: str | None = None
    description: str | None = None
    enabled: Annotated[bool | None, msgspec.Meta(description="Whether its tokens work. Disabling it revokes them.")] = (
        None
    )


class TokenOwner(msgspec.Struct):
    """The user or service account whose permissions a token uses."""

    id: str
    name: str
    email: str
    isServiceAccount: bool


class AccessTokenItem(msgspec.Struct):
    """An access token, never its value. Without a scope nothing limits it."""

    id: str
    name: str
    scope: list[str] | None
    owner: TokenOwner
    createdAt: int
    expiresAt: int
    lastUsedAt: int | None


class NewAccessToken(msgspec.Struct, forbid_unknown_fields=True):
    """An access token to create."""

    name: str = "Access token"
    scope: Annotated[
        list[str] | None,
        msgspec.Meta(
            description="What it allows: entries of a role, such as `Read: [/*]`. Default: all that its owner may do."
        ),
    ] = None
    days: Annotated[int, msgspec.Meta(description="Days until it expires, 1 to 366.")] = 90
    owner: Annotated[
        str | None, msgspec.Meta(description="ID of the service account that it is for. Default: you.")
    ] = None


class CreatedAccessToken(msgspec.Struct):
    """A new access token. Its value is shown only here."""

    id: str
    token: str
    name: str
    scope: list[str] | None
    expiresAt: int


@routes.get(
    "/organizations/{orgId}/serviceAccounts",
    permission="Read on each service account returned, as `/users/{id}`",
    returns=Returns("The service accounts.", [_ACCOUNT], type=list[ServiceAccount]),
    extension=True,
)
async def list_service_accounts(request: Request[None, Paging]) -> Response:
    """List the service accounts of an organization."""
    rows = await service_accounts.list_service_accounts(request.ctx, request.path["orgId"])
    return list_response(request, [_account(row) for row in rows])


@routes.post(
    "/organizations/{orgId}/serviceAccounts",
    permission="ManageUsers; ManageRoles too if roles are given",
    body=JsonBody(example={"name": "Deployment", "description": "Deploys from the build server", "roles": ["Guest"]}),
    returns=Returns("The service account.", _ACCOUNT),
    extension=True,
    idempotency_key=True,
)
async def create_service_account(request: Request[NewServiceAccount, None]) -> ServiceAccount:
    """Create a service account, which programs use by access token."""
    body = request.body
    row = await service_accounts.create_service_account(
        request.ctx,
        request.path["orgId"],
        name=body.name,
        description=body.description,
        role_names=body.roles,
    )
    return _account(row)


@routes.get(
    "/organizations/{orgId}/serviceAccounts/{userId}",
    permission="Read on the service account, as `/users/{id}`",
    returns=Returns("The service account.", _ACCOUNT),
    extension=True,
)
async def read_service_account(request: Request[None, None]) -> ServiceAccount:
    """Show a service account."""
    path = request.path
    return _account(await service_accounts.read_service_account(request.ctx, path["orgId"], path["userId"]))


@routes.put(
    "/organizations/{orgId}/serviceAccounts/{userId}",
    permission="ManageUsers on the service account, as `/users/{id}`",
    body=JsonBody(example={"enabled": False}),
    extension=True,
)
async def update_service_account(request: Request[ServiceAccountChange, None]) -> None:
    """Rename, describe, disable or enable a service account."""
    body = request.body
    await service_accounts.update_service_account(
        request.ctx,
        request.path["orgId"],
        request.path["userId"],
        name=body.name,
        description=body.description,
        enabled=body.enabled,
    )


@routes.delete(
    "/organizations/{orgId}/serviceAccounts/{userId}",
    permission="ManageUsers on the service account, as `/users/{id}`",
    extension=True,
)
async def delete_service_account(request: Request[None, None]) -> None:
    """Delete a service account with its access tokens."""
    await service_accounts.delete_service_account(request.ctx, request.path["orgId"], request.path["userId"])


@routes.get(
    "/organizations/{orgId}/accessTokens",
    permission="None for your own; ManageUsers on the owner for others",
    returns=Returns(
        "The access tokens.",
        [
            {
                "id": EXAMPLE_ID,
                "name": "build server",
                "scope": ["Read: [/*]"],
                "owner": {
                    "id": EXAMPLE_ID,
                    "name": "Deployment",
                    "email": "deployment-4f3a01@service.invalid",
                    "isServiceAccount": True,
                },
                "createdAt": _TIME,
                "expiresAt": _TIME,
                "lastUsedAt": None,
            }
        ],
        type=list[AccessTokenItem],
    ),
    extension=True,
)
async def list_access_tokens(request: Request[None, Paging]) -> Response:
    """List your own access tokens, and those of owners whom you manage."""
    rows = await access_tokens.list_access_tokens(request.ctx, request.path["orgId"])
    return list_response(request, [_token(row) for row in rows])


@routes.post(
    "/organizations/{orgId}/accessTokens",
    permission="None for your own; for a service account, ManageRoles on it and on each of its roles",
    body=JsonBody(example={"name": "build server", "scope": ["Read: [/*]"], "days": 90}),
    returns=Returns(
        "The access token, shown once.",
        {"id": EXAMPLE_ID, "token": "lbt_…", "name": "build server", "scope": ["Read: [/*]"], "expiresAt": _TIME},
    ),
    extension=True,
)
async def create_access_token(request: Request[NewAccessToken, None]) -> CreatedAccessToken:
    """Create an access token, and show it once."""
    body = request.body
    made = await access_tokens.create_access_token(
        request.ctx, request.path["orgId"], name=body.name, scope=body.scope, days=body.days, owner_id=body.owner
    )
    scope = None if made.scope is None else list(made.scope)
    return CreatedAccessToken(made.id, made.token, made.name, scope, to_ms(made.expires_at))


@routes.delete(
    "/organizations/{orgId}/accessTokens/{accessTokenId}",
    permission="None for your own; ManageUsers on the owner for others",
    extension=True,
)
async def revoke_access_token(request: Request[None, None]) -> None:
    """Revoke an access token."""
    await access_tokens.revoke_access_token(request.ctx, request.path["orgId"], request.path["accessTokenId"])


def _account(row: ServiceAccountRow) -> ServiceAccount:
    return ServiceAccount(row.id, row.name, row.email, row.description, row.enabled, row.roles, to_ms(row.created_at))


def _token(row: ListedTokenRow) -> AccessTokenItem:
    return AccessTokenItem(
        row.id,
        row.name,
        None if row.scope is None else [str(entry) for entry in read_role_text(row.scope)],
        TokenOwner(row.user_id, row.user_name, row.email, row.is_service),
        to_ms(row.created_at),
        to_ms(row.expires_at),
        optional_ms(row.last_used_at),
    )
