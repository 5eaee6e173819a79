"""Application instances: lists, detail, user data, deletion (reference §4)."""

from functools import partial
from sys import getsizeof
from typing import Annotated, Any, Literal, TypedDict
from weakref import ref

import msgspec

from launchbay.clock import to_ms
from launchbay.concurrency import computed
from launchbay.limits import ANSWER_KEPT_BYTES, ANSWERS_KEPT_BYTES, LONGEST_WAIT_S
from launchbay.model.job import JobStatus, failure_code, raise_percent
from launchbay.store.instances import FailureRow, InstanceDetail, InstanceSummary, JobRow, read_history
from launchbay.usecases import components, instances
from launchbay.usecases.instances import InstanceView
from launchbay.usecases.waits import Awaited
from launchbay.web.conditions import version_tag
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import (
    EmptyResponse,
    JSONResponse,
    KeptAnswer,
    KeptAnswers,
    MomentMs,
    Paging,
    Response,
    Versioned,
    encode_buffered,
    job_headers,
    list_of_chunks,
    optional_ms,
)
from launchbay.web.routing import Returns, Routes

expiry_routes = Routes("Instances", extension=True)
routes = Routes("Instances")


class DestroyAt(msgspec.Struct):
    """Milliseconds since the Unix epoch; -1 is never."""

    destroyAt: int


@expiry_routes.put(
    "/instances/{id}/destroyAt",
    command="instance set-destroy-at",
    permission="EditInstance",
    body=JsonBody(example={"destroyAt": 1_798_761_600_000}),
)
async def set_destroy_at(request: Request[DestroyAt, None]) -> None:
    """Set when an instance is destroyed automatically."""
    await instances.set_destroy_at(request.ctx, request.path["id"], request.body.destroyAt)


class ComponentDetail(msgspec.Struct):
    """What a component does (docs/reference/component-states.md).

    `status` is NotStarted, InProgress, NeedsApproval, Running, Degraded, Sleeping, Failed, Interrupted, Destroying or
    Destroyed. `step` is the name of the step that runs, asks, failed or was interrupted, and `percent` is set while
    steps run. `instanceId` is set if it stands for a submodule. It is `declared` unless it belongs to an earlier
    version and is not removed yet.
    """

    path: str
    type: str
    status: str
    step: str | None
    percent: int | None
    instanceId: str | None
    declared: bool


@expiry_routes.get(
    "/instances/{id}/components", command="instance components", permission="Read", returns=Returns("The components.")
)
async def list_components(request: Request[None, None]) -> list[ComponentDetail]:
    """Show what each component of an instance does, in launch order."""
    return [
        ComponentDetail(
            each.path,
            each.type,
            each.state.status,
            each.state.step,
            each.state.percent,
            each.instance_id,
            each.is_declared,
        )
        for each in await components.list_components(request.ctx, request.path["id"])
    ]


class StepDocument(TypedDict):
    """A step in brief."""

    name: str
    status: str
    percentComplete: int


class WorkflowDocument(TypedDict):
    """The running job, with exactly the fields of the reference."""

    name: str
    status: str
    ownerId: str
    steps: list[StepDocument]


class JobDocument(WorkflowDocument):
    """A job of the history. `number` counts the jobs of the instance.

    `failureCode` is the error code that explains `errorMessage`; null if a step didn't fail.
    """

    id: str
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    failureCode: str | None
    number: int


class ComponentDocument(TypedDict, total=False):
    """A component; `instanceId` is set if it represents another instance."""

    name: str
    instanceId: str


class FailureDocument(TypedDict):
    """The last failure; `time` is in milliseconds since the epoch.

    `code` is the error code that explains `message`; null if a step didn't fail.
    """

    jobId: str
    workflow: str
    time: int
    message: str
    code: str | None


class _InstanceDocument(TypedDict):
    id: str
    name: str
    version: int
    parameters: dict[str, Any]
    parameterOrigins: dict[str, Literal["given", "default", "revision", "parent"]]
    status: str
    ownerId: str
    workflowHistory: list[JobDocument]
    returnValues: dict[str, Any]
    applicationId: str
    environmentId: str
    components: list[ComponentDocument]
    errorMessage: str | None
    lastFailure: FailureDocument | None
    availableWorkflows: list[str]
    destroyAt: int | None
    userData: dict[str, Any]
    createdAt: int


class InstanceDocument(_InstanceDocument, total=False):
    """An instance; `workflow` is set while a job runs, `dryRun` if its machines are simulated.

    `parameters` are the effective ones, with the manifest's defaults; `parameterOrigins` says where each comes from.

    For a time in the past, `at` is set, `recordedSince` says how far back the record goes, and `environment` and
    `machines` (by component) are what the instance had then.

    `waitingFor` is set while it or its job waits: it describes for what. `errorMessage` and `lastFailure` are those of
    the last failed job, until a launch or reconfiguration succeeds.
    """

    workflow: WorkflowDocument
    waitingFor: str
    labels: dict[str, str]
    dryRun: bool
    at: int
    recordedSince: int
    environment: dict[str, Any]
    machines: dict[str, list[dict[str, Any]]]


def instance_document(view: InstanceView) -> dict[str, Any]:
    """Return the document of an instance. Stored JSON is passed on unchanged."""
    detail = view.detail
    history = [job_document(row) for row in read_history(detail.history)]
    document: dict[str, Any] = {
        "id": detail.id,
        "name": detail.name,
        "version": detail.version,
        "parameters": view.parameters,
        "parameterOrigins": view.origins,
        "status": detail.status,
        "ownerId": detail.owner_id,
        "workflowHistory": history,
        "returnValues": msgspec.Raw(detail.return_values.encode()),
        "applicationId": detail.application_id,
        "environmentId": detail.environment_id,
        "components": msgspec.Raw(detail.components.encode()),
        "errorMessage": detail.error_message,
        "lastFailure": _failure(detail.failure),
        "availableWorkflows": view.available_workflows,
        "destroyAt": optional_ms(detail.destroy_at),
        "userData": msgspec.Raw(detail.user_data.encode()),
        "createdAt": to_ms(detail.created_at),
        "labels": msgspec.Raw(detail.labels.encode()),
    }
    running = next((job for job in history if job["status"] == JobStatus.EXECUTING), None)
    if running is not None:
        document["workflow"] = {name: running[name] for name in ("name", "status", "ownerId", "steps")}
    if detail.waits is not None:
        document["waitingFor"] = detail.waits
    if view.is_dry_run:
        document["dryRun"] = True
    return document


def _failure(row: FailureRow | None) -> FailureDocument | None:
    if row is None:
        return None
    return {
        "jobId": row.job_id,
        "workflow": row.workflow,
        "time": row.time,
        "message": row.message,
        "code": failure_code(row.message),
    }


def job_document(row: JobRow) -> dict[str, Any]:
    """Return a job of the history with its steps in brief."""
    return {
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "ownerId": row.owner_id,
        "steps": _steps(row),
        "startedAt": row.started_at_ms,
        "finishedAt": row.finished_at_ms,
        "errorMessage": row.error_message,
        "failureCode": failure_code(row.error_message),
        "number": row.number,
    }


def _steps(row: JobRow) -> list[dict[str, Any]]:
    live = {path: (status, percent) for path, status, percent in row.live_steps or ()}
    steps = []
    for path, name, status, percent in row.steps:
        now_status, now_percent = live.get(path, (status, percent))
        steps.append({"name": name, "status": now_status, "percentComplete": raise_percent(percent, now_percent)})
    return steps


class InstanceQuery(Paging, frozen=True):
    """Paging and filters of instance lists."""

    status: Annotated[str | None, msgspec.Meta(description="Only instances in this status.")] = None
    name: Annotated[str | None, msgspec.Meta(description="Only instances with exactly this name.")] = None


_LISTED = Returns("The instances that the caller may read, oldest first.", type=list[InstanceSummary])


class WaitQuery(msgspec.Struct, frozen=True):
    """How long to wait for the end of a job."""

    wait: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=LONGEST_WAIT_S,
            description="Respond as soon as no job is under way on the instance, or after this many seconds.",
        ),
    ] = 0


class ReadQuery(WaitQuery, frozen=True):
    """How long to wait, or which time to show."""

    at: Annotated[
        MomentMs | None,
        msgspec.Meta(description="Show the instance as it was at this time, in milliseconds since the epoch."),
    ] = None


class ForceQuery(msgspec.Struct, frozen=True):
    """Whether to delete an active instance."""

    force: Annotated[
        int, msgspec.Meta(ge=0, le=1, description="Also delete an active instance, after destroying it.")
    ] = 0


@routes.get("/environments/{envId}/instances", command="environment instances", permission="Read", returns=_LISTED)
async def list_environment_instances(request: Request[None, InstanceQuery]) -> Response:
    """List the instances of an environment."""
    return await _list(request, "environments", request.path["envId"])


@routes.get("/applications/{appId}/instances", command="application instances", permission="Read", returns=_LISTED)
async def list_application_instances(request: Request[None, InstanceQuery]) -> Response:
    """List the instances of an application."""
    return await _list(request, "applications", request.path["appId"])


@routes.get("/revisions/{revId}/instances", command="revision instances", permission="Read", returns=_LISTED)
async def list_revision_instances(request: Request[None, InstanceQuery]) -> Response:
    """List the instances of a revision."""
    return await _list(request, "revisions", request.path["revId"])


async def _awaited(request: Request[None, ReadQuery]) -> Awaited | None:
    return None if request.query.at is not None else await instances.awaited(request.ctx, request.path["id"])


@routes.get(
    "/instances/{id}", permission="Read", returns=Returns("The instance.", type=InstanceDocument), waits=_awaited
)
async def read_instance(request: Request[None, ReadQuery]) -> Response:
    """Show an instance with its workflow history."""
    if request.query.at is not None:
        return JSONResponse(
            await request.ctx.app.ports.past_instance(request.ctx, request.path["id"], request.query.at)
        )
    found = await instances.read_sources(request.ctx, request.path["id"])
    # A manifest may be large, and belongs to those who keep manifests.
    sources = (found.detail, ref(found.manifest), found.providers)
    if (kept := _answers.find(found.detail.id, sources)) is not None:
        return Versioned(kept.tag, kept.made)
    view = instances.view_of(found)
    # The document is made of these, and costs much more than they do: clients that poll mostly have it already.
    version = _encode_version((view.detail, view.available_workflows, view.is_dry_run, view.parameters, view.origins))
    return Versioned(tag := version_tag(version), partial(_make_document, view, sources, tag))


_encode_version = msgspec.msgpack.Encoder().encode
_answers = KeptAnswers(ANSWERS_KEPT_BYTES, ANSWER_KEPT_BYTES)


async def _make_document(view: InstanceView, sources: tuple[InstanceDetail, object, object], tag: str) -> bytes:
    """Return the encoded document of an instance, and keep it for the next read."""

    def encode() -> bytes:
        return encode_buffered(JSONResponse(instance_document(view)))[1]

    detail = sources[0]
    length = len(detail.history) + len(detail.return_values)
    data = await computed(length, encode)
    size = getsizeof(data) + sum(map(getsizeof, msgspec.structs.astuple(detail)))
    _answers.keep(detail.id, KeptAnswer(sources, tag, data, size))
    return data


@routes.put(
    "/instances/{id}/userData",
    command="instance set-user-data",
    permission="EditInstance",
    body=JsonBody(required=True, example={"ticket": "OPS-17", "tags": ["blue"]}),
)
async def put_user_data(request: Request[dict[str, Any], None]) -> None:
    """Replace the user data of an instance."""
    await instances.put_user_data(request.ctx, request.path["id"], request.body)


@routes.delete("/instances/{id}", permission="DeleteInstance", statuses=(409,), starts_job=True)
async def delete_instance(request: Request[None, ForceQuery]) -> EmptyResponse:
    """Delete a destroyed instance. With force, destroy an active instance and then delete it."""
    started = await instances.delete_instance(request.ctx, request.path["id"], force=request.query.force == 1)
    return EmptyResponse(() if started is None else job_headers(started))


async def _list(request: Request[None, InstanceQuery], kind: str, of_id: str) -> Response:
    query = request.query
    found = instances.list_instances(
        request.ctx,
        kind,
        of_id,
        status=query.status,
        name=query.name,
        after=query.after or "",
        limit=None if query.limit is None else query.limit + 1,
    )
    return await list_of_chunks(request, found)
