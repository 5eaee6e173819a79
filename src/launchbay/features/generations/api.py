"""Generations of instances, rollbacks, and the policy for failed reconfigurations."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest
from launchbay.features.generations import usecases as generations
from launchbay.features.generations.rows import Generation
from launchbay.features.generations.usecases import read_kept_submodules
from launchbay.model.environment import read_environment_view
from launchbay.usecases.preview import Preview
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Pages, Response, job_headers, next_link
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)


class CauseDocument(msgspec.Struct):
    """The larger change that brought it: `change-set`, `rollout` or `rollback`.

    `id` is its ID, or the number of the generation.
    """

    kind: str
    id: str


class GenerationItem(msgspec.Struct, kw_only=True):
    """A generation in the list. `id` is the number, written as an ID."""

    id: str
    number: int
    version: int
    revisionId: str | None
    ownerId: str
    jobId: str | None
    cause: CauseDocument | None
    createdAt: int


class GenerationSubmodule(msgspec.Struct, kw_only=True):
    """The instance that was behind a component. `outerId` is the instance with the component."""

    outerId: str
    component: str
    instanceId: str
    link: str
    applicationId: str | None
    version: int | None
    revisionId: str | None
    parameters: dict[str, Any] | None


class GenerationDocument(GenerationItem, kw_only=True):
    """A configuration that took effect, as it was given."""

    parameters: dict[str, Any]
    submodules: list[GenerationSubmodule]
    environment: Annotated[
        dict[str, Any], msgspec.Meta(description="Policies, markers and properties of the environment at that time.")
    ]


class RollbackBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to go back to."""

    generation: Annotated[
        int | None,
        msgspec.Meta(description="Default: the newest one that took effect and isn't the present configuration."),
    ] = None
    preview: Annotated[bool, msgspec.Meta(description="Only show what would happen.")] = False


class RollbackDocument(msgspec.Struct, kw_only=True):
    """The generation, and what the rollback does. A preview has no `jobId`."""

    generation: int
    jobId: str | None
    preview: Preview | None


class FailurePolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What instances do when a reconfiguration fails: `keep` the failed state, or `rollback`."""

    onFailure: Literal["keep", "rollback"]


@routes.get(
    "/instances/{id}/generations",
    command="instance generations",
    tags=("Instances",),
    permission="Read",
    returns=Returns("The generations, newest first.", type=list[GenerationItem]),
)
async def list_generations(request: Request[None, Pages]) -> Response:
    """List the configurations of an instance that took effect."""
    query = request.query
    limit = query.most_items
    before = None if query.after is None else min(int(query.after, 16), 2**31 - 1)
    rows = await generations.list_generations(request.ctx, request.path["id"], before=before, count=limit + 1)
    shown = [_item(row) for row in rows[:limit]]
    return JSONResponse(shown, next_link(request, shown[-1].id) if len(rows) > limit else ())


@routes.get(
    "/instances/{id}/generations/{number}",
    command="instance generation",
    tags=("Instances",),
    permission="Read",
    returns=Returns("The generation."),
)
async def read_generation(request: Request[None, None]) -> GenerationDocument:
    """Show a configuration of an instance that took effect."""
    found = await generations.read_generation(request.ctx, request.path["id"], _number(request.path["number"]))
    return GenerationDocument(
        **msgspec.structs.asdict(_item(found)),
        parameters=msgspec.json.decode(found.parameters),
        submodules=[
            GenerationSubmodule(
                outerId=each.outer,
                component=each.component,
                instanceId=each.target,
                link=each.kind,
                applicationId=each.application,
                version=each.version,
                revisionId=each.revision,
                parameters=each.parameters,
            )
            for each in read_kept_submodules(found.submodules)
        ],
        environment=msgspec.to_builtins(read_environment_view(found.environment_view)),
    )


@routes.post(
    "/instances/{id}/configuration/rollback",
    tags=("Instances",),
    permission="EditInstance; CreateInstance on applications of submodules to launch again",
    body=JsonBody(required=False, example={"generation": 3, "preview": True}),
    returns=Returns("The rollback, or its preview.", type=RollbackDocument),
    statuses=(409,),
    starts_job=True,
    idempotency_key=True,
)
async def rollback_instance(request: Request[RollbackBody, None]) -> Response:
    """Roll an instance back to an earlier configuration.

    The change takes effect after the response.
    """
    body, instance_id = request.body, request.path["id"]
    if body.preview:
        generation, preview = await generations.preview_rollback(request.ctx, instance_id, body.generation)
        return JSONResponse(RollbackDocument(generation=generation.number, jobId=None, preview=preview))
    generation, started = await generations.rollback(request.ctx, instance_id, body.generation)
    document = RollbackDocument(generation=generation.number, jobId=started.job_id, preview=None)
    return JSONResponse(document, job_headers(started))


@routes.get(
    "/applications/{appId}/failurePolicy",
    command="application failure-policy",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The policy.", {"onFailure": "rollback"}),
)
async def read_failure_policy(request: Request[None, None]) -> FailurePolicyBody:
    """Show what instances of an application do when a reconfiguration fails."""
    return FailurePolicyBody(await generations.read_failure_policy(request.ctx, request.path["appId"]))


@routes.put(
    "/applications/{appId}/failurePolicy",
    command="application set-failure-policy",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example={"onFailure": "rollback"}),
)
async def set_failure_policy(request: Request[FailurePolicyBody, None]) -> None:
    """Set what instances of an application do when a reconfiguration fails."""
    await generations.set_failure_policy(request.ctx, request.path["appId"], request.body.onFailure)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(f"{text[:40]!r} isn't the number of a generation.", code="InvalidField")
    return int(text)


def _item(row: Generation) -> GenerationItem:
    cause = None if row.cause_kind is None else CauseDocument(row.cause_kind, row.cause_id or "")
    return GenerationItem(
        id=f"{row.number:024x}",
        number=row.number,
        version=row.version,
        revisionId=row.revision_id,
        ownerId=row.owner_id,
        jobId=row.job_id,
        cause=cause,
        createdAt=to_ms(row.created_at),
    )
