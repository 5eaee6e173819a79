"""Secrets that people reveal, each with an entry in the audit log."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.usecases import secrets
from launchbay.usecases.secrets import SecretKind
from launchbay.web.requests import JsonBody, Request
from launchbay.web.routing import Returns, Routes

routes = Routes("Secrets", extension=True)
_Reason = Annotated[str, msgspec.Meta(description="Why you need the value. The audit log keeps it.")]


class SecretNames(msgspec.Struct, kw_only=True):
    """The names of masked values."""

    parameters: list[str]
    returnValues: list[str]


class ServiceSecret(msgspec.Struct, kw_only=True):
    """The secret parameter to reveal."""

    name: str
    reason: _Reason


class InstanceSecret(msgspec.Struct, kw_only=True):
    """The masked value to reveal."""

    name: str
    reason: _Reason
    kind: Annotated[
        Literal["parameters", "returnValues"] | None,
        msgspec.Meta(description="`parameters` or `returnValues`. Default: where the name is, parameters first."),
    ] = None


class Revealed(msgspec.Struct, kw_only=True):
    """The value in clear."""

    name: str
    value: Any


_SHOWN = Returns("The value.", {"name": "credential", "value": "s3cr3t"}, type=Revealed)


@routes.get(
    "/services/{id}/secrets",
    command="service secrets",
    permission="Read",
    returns=Returns("The names.", type=SecretNames),
)
async def list_service_secrets(request: Request[None, None]) -> SecretNames:
    """List the secret parameters of a service, without their values."""
    return _names(await secrets.list_service_secrets(request.ctx, request.path["id"]))


@routes.post(
    "/services/{id}/secrets/reveal",
    command="service reveal",
    permission="RevealSecrets",
    body=JsonBody(required=True, example={"name": "credential", "reason": "The provider asks for it."}),
    returns=_SHOWN,
)
async def reveal_service_secret(request: Request[ServiceSecret, None]) -> Revealed:
    """Show a secret parameter of a service in clear, and log that."""
    body = request.body
    value = await secrets.reveal_service_secret(request.ctx, request.path["id"], body.name, body.reason)
    return Revealed(name=body.name, value=value)


@routes.get(
    "/instances/{id}/secrets",
    command="instance secrets",
    permission="Read",
    returns=Returns("The names.", type=SecretNames),
)
async def list_instance_secrets(request: Request[None, None]) -> SecretNames:
    """List the parameters and return values of an instance that are masked."""
    return _names(await secrets.list_instance_secrets(request.ctx, request.path["id"]))


@routes.post(
    "/instances/{id}/secrets/reveal",
    command="instance reveal",
    permission="RevealSecrets",
    body=JsonBody(required=True, example={"name": "input.password", "reason": "To sign in after the launch."}),
    returns=_SHOWN,
)
async def reveal_instance_secret(request: Request[InstanceSecret, None]) -> Revealed:
    """Show a parameter or return value of an instance in clear, and log that."""
    body = request.body
    kind = None if body.kind is None else SecretKind(body.kind)
    value = await secrets.reveal_instance_secret(request.ctx, request.path["id"], kind, body.name, body.reason)
    return Revealed(name=body.name, value=value)


def _names(found: secrets.Secrets) -> SecretNames:
    return SecretNames(
        parameters=list(found.names.get(SecretKind.PARAMETERS, ())),
        returnValues=list(found.names.get(SecretKind.RETURN_VALUES, ())),
    )
