"""Providers of secrets: what they let jobs read, and who has read from them."""

from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.features.secret_providers import usecases as providers
from launchbay.limits import CHANGED_SECRETS_SHOWN, SECRET_READS_SHOWN, STEP_SECRETS
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Named
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Services", extension=True)
instance_routes = Routes("Instances", extension=True)


class ProviderTestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """As which job to sign in, and what to look at."""

    environmentId: Annotated[str, msgspec.Meta(description="An environment that offers the service.")]
    paths: Annotated[
        list[str],
        msgspec.Meta(
            description=f"As steps name them, without the provider: `secret/shop#password`. 1 to {STEP_SECRETS}."
        ),
    ]
    applicationId: Annotated[
        str | None, msgspec.Meta(description="The application whose launch it is. Default: none.")
    ] = None


class PathTestDocument(msgspec.Struct, kw_only=True):
    """What a job may do with a path. It has no value."""

    path: str
    result: Annotated[
        str,
        msgspec.Meta(
            description="`readable`; `allowed` if reading it would make something, such as an account; `forbidden`;"
            " `missing`; or `failed`."
        ),
    ]
    mayWrite: Annotated[bool | None, msgspec.Meta(description="Null if the provider can't say.")]
    message: Annotated[str, msgspec.Meta(description="Why it isn't readable, or empty.")]


class ProviderTestDocument(msgspec.Struct, kw_only=True):
    """What came of a test."""

    problem: Annotated[str | None, msgspec.Meta(description="Why the sign-in or the test failed; null if it didn't.")]
    paths: list[PathTestDocument]


class SecretReadDocument(msgspec.Struct, kw_only=True):
    """The last read of a secret by a step."""

    application: Named
    environment: Named
    instance: Named
    component: str
    step: str
    secret: Annotated[str, msgspec.Meta(description="The path and the key, never the value.")]
    readAt: Annotated[int, msgspec.Meta(description="In milliseconds since 1970.")]
    job: Annotated[str, msgspec.Meta(description="The ID of the job that read it last.")]
    isChanged: Annotated[
        bool, msgspec.Meta(description="Whether the secret has another version since, as far as somebody saw it.")
    ]


class ChangedSecretDocument(msgspec.Struct, kw_only=True):
    """A secret that has changed since a step read it."""

    secret: Annotated[str, msgspec.Meta(description="As steps name it, `provider/path#key`, never the value.")]
    component: str
    step: str
    readAt: Annotated[int, msgspec.Meta(description="In milliseconds since 1970.")]
    job: Annotated[str, msgspec.Meta(description="The ID of the job that read it.")]


class OpenSessionDocument(msgspec.Struct, kw_only=True):
    """A session that should be revoked, and couldn't be."""

    job: Annotated[str | None, msgspec.Meta(description="The ID of its job; null for a test.")]
    message: str
    expiresAt: Annotated[int, msgspec.Meta(description="When it ends, in milliseconds since 1970.")]


class ProviderUseDocument(msgspec.Struct, kw_only=True):
    """Who has read from a provider."""

    reads: Annotated[list[SecretReadDocument], msgspec.Meta(description=f"The newest {SECRET_READS_SHOWN} at most.")]
    openSessions: list[OpenSessionDocument]
    services: Annotated[
        list[Named],
        msgspec.Meta(description="Those of which a secret parameter refers to it, in an environment of both."),
    ]


@routes.post(
    "/services/{id}/provider/test",
    command="service test-provider",
    permission="EditService; EditEnvironment on the environment; CreateInstance on an application that is named",
    body=JsonBody(required=True, example={"environmentId": EXAMPLE_ID, "paths": ["secret/shop#password"]}),
    returns=Returns(
        "What a job may do.",
        {
            "problem": None,
            "paths": [{"path": "secret/shop#password", "result": "readable", "mayWrite": False, "message": ""}],
        },
        type=ProviderTestDocument,
    ),
    statuses=(409,),
)
async def test_secret_provider(request: Request[ProviderTestBody, None]) -> ProviderTestDocument:
    """Show what a job could read from a secret provider."""
    body = request.body
    found = await providers.try_provider(
        request.ctx, request.path["id"], body.environmentId, body.paths, body.applicationId
    )
    return ProviderTestDocument(
        problem=found.problem or None,
        paths=[
            PathTestDocument(path=each.path, result=each.result, mayWrite=each.may_write, message=each.message)
            for each in found.paths
        ],
    )


@routes.get(
    "/services/{id}/provider/use",
    command="service provider-use",
    permission="Read; Read on each instance returned",
    returns=Returns("The reads, the newest first.", type=ProviderUseDocument),
)
async def read_secret_provider_use(request: Request[None, None]) -> ProviderUseDocument:
    """Show who has read from a secret provider, and unrevoked sessions."""
    found = await providers.read_use(request.ctx, request.path["id"])
    return ProviderUseDocument(
        reads=[
            SecretReadDocument(
                application=Named(row.application_id, row.application),
                environment=Named(row.environment_id, row.environment),
                instance=Named(row.instance_id, row.instance),
                component=row.component,
                step=row.step,
                secret=row.secret,
                readAt=to_ms(row.read_at),
                job=row.job_id,
                isChanged=row.is_changed,
            )
            for row in found.reads
        ],
        openSessions=[
            OpenSessionDocument(job=row.job_id or None, message=row.message, expiresAt=to_ms(row.expires_at))
            for row in found.open_sessions
        ],
        services=[Named(service_id, name) for service_id, name in found.services],
    )


@instance_routes.get(
    "/instances/{id}/secrets/changed",
    command="instance changed-secrets",
    permission="Read",
    returns=Returns(
        f"What each step read last, of the first {CHANGED_SECRETS_SHOWN} secrets.", type=list[ChangedSecretDocument]
    ),
)
async def list_changed_secrets(request: Request[None, None]) -> list[ChangedSecretDocument]:
    """Show the secrets that changed since an instance read them."""
    return [
        ChangedSecretDocument(
            secret=f"{row.provider}/{row.secret}",
            component=row.component,
            step=row.step,
            readAt=to_ms(row.read_at),
            job=row.job_id,
        )
        for row in await providers.list_changed_secrets(request.ctx, request.path["id"])
    ]
