"""This installation as an OpenID Connect issuer, and for whom steps may get tokens."""

from typing import Annotated, Any

import msgspec

from launchbay.features.identities import usecases as identities
from launchbay.limits import IDENTITY_KEYS_CACHED_S
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Environments", extension=True)
issuer_routes = Routes("Health", prefix="", extension=True)
_CACHED = (("cache-control", f"public, max-age={IDENTITY_KEYS_CACHED_S}"),)


class AudiencesBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For whom steps in an environment may get tokens."""

    audiences: Annotated[
        list[str], msgspec.Meta(description="Compared as they are, without patterns. Empty: no step gets a token.")
    ]


class IssuerDocument(msgspec.Struct, kw_only=True):
    """The metadata of an issuer (OpenID Connect Discovery)."""

    issuer: str
    jwks_uri: str
    response_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]


class KeySetDocument(msgspec.Struct, kw_only=True):
    """Public keys (RFC 7517)."""

    keys: list[dict[str, Any]]


@routes.get(
    "/environments/{envId}/audiences",
    command="environment audiences",
    permission="Read",
    returns=Returns("The audiences.", {"audiences": ["vault"]}),
)
async def read_environment_audiences(request: Request[None, None]) -> AudiencesBody:
    """Show for whom steps in an environment may get tokens."""
    return AudiencesBody(audiences=await identities.read_audiences(request.ctx, request.path["envId"]))


@routes.put(
    "/environments/{envId}/audiences",
    command="environment set-audiences",
    permission="EditEnvironment",
    body=JsonBody(example={"audiences": ["vault"]}),
)
async def replace_environment_audiences(request: Request[AudiencesBody, None]) -> None:
    """Set for whom steps in an environment may get tokens."""
    await identities.replace_audiences(request.ctx, request.path["envId"], request.body.audiences)


@issuer_routes.get(
    "/.well-known/openid-configuration",
    command="server issuer",
    public=True,
    statuses=(404,),
    returns=Returns("The metadata.", type=IssuerDocument),
)
async def read_issuer(request: Request[None, None]) -> Response:
    """Show the issuer of tokens of jobs."""
    return JSONResponse(request.deps.app.identity_tokens.metadata(), headers=_CACHED)


@issuer_routes.get(
    "/.well-known/jwks.json",
    command="server keys",
    public=True,
    returns=Returns("The keys.", type=KeySetDocument),
)
async def read_issuer_keys(request: Request[None, None]) -> Response:
    """Show the public keys that verify tokens of jobs."""
    return JSONResponse({"keys": await request.deps.app.identity_tokens.public_keys()}, headers=_CACHED)
