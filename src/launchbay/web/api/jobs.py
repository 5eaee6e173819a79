"""Jobs of an instance (conformance.md, "Beyond the reference")."""

import asyncio
from collections.abc import Container, Sequence
from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX, LONGEST_WAIT_S
from launchbay.model.job import (
    JobStatus,
    Origin,
    StepStatus,
    failure_code,
    is_cancellation,
    is_own_step,
    outer_paths,
    owner_of,
    raise_percent,
)
from launchbay.model.masked_comparison import ValueComparison
from launchbay.model.redaction import Redactor
from launchbay.model.waits import Wait
from launchbay.planning.plans import step_at
from launchbay.store.instances import JobRow
from launchbay.store.jobs import JobLink, JobView, StepView
from launchbay.usecases import job_comparisons, jobs
from launchbay.usecases.jobs import JobDetails
from launchbay.usecases.waits import Awaited
from launchbay.web.api.instances import JobDocument, job_document
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import (
    Created,
    JSONResponse,
    Paging,
    RawJSONResponse,
    Response,
    encode_buffered,
    job_headers,
    list_of_chunks,
    next_link,
    optional_ms,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Jobs", extension=True)


class AttemptDetail(msgspec.Struct):
    """One attempt of a step; `errorMessage` says why it failed."""

    number: int
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None


class StepDetail(msgspec.Struct, kw_only=True):
    """A step. `path` is its place in the plan; times are in milliseconds since the Unix epoch.

    `component` has the workflow of the step; `phase` and `action` are null if the manifest no longer has the step.
    `children` are the steps inside it. `notRun` is true if the job ended before the step began, `skipped` if its
    condition was false, `ignored` if it failed and the workflow continued (`ignoreFail`). `outputsOmitted` is true if
    the outputs are too large to show.

    `inputs` are the parameters as the step was sent them, those of a loop its items, with secrets masked; null if none
    are recorded. `inputsCut` is true if they aren't whole: `…` is where that is so. `inputsOmitted` is true if they are
    recorded, but those of the whole job are too large to show.
    """

    path: str
    name: str
    status: str
    percentComplete: int
    attempt: int
    startedAt: int | None = None
    finishedAt: int | None = None
    outputs: dict[str, Any] | None = None
    outputsOmitted: bool = False
    inputs: dict[str, Any] | None = None
    inputsCut: bool = False
    inputsOmitted: bool = False
    errorMessage: str | None = None
    component: str = ""
    phase: str | None = None
    action: str | None = None
    durationMs: int | None = None
    attempts: list[AttemptDetail] = []
    children: int = 0
    notRun: bool = False
    skipped: bool = False
    ignored: bool = False


class JobReference(msgspec.Struct):
    """A job on another instance."""

    id: str
    number: int
    workflow: str
    status: str
    instanceId: str
    instanceName: str
    cancelled: bool


class Beginning(msgspec.Struct):
    """What began a job: `person`, `token`, `schedule`, `trigger`, `expiry` or `job`.

    `name` is that of the person, token or schedule; a schedule of one instance has that of its workflow. That of an
    expiry says whether the lifetime or the idle time of the instance ended. That of a job is its workflow, and where a
    job is read by itself also the instance. `owner` is the person whose permissions the
    job has.
    """

    kind: str
    id: str
    name: str
    owner: str


class WaitDetail(msgspec.Struct):
    """One thing that a job waits for, since when, and what ends it.

    `kind` is `worker`, `limit`, `approval`, `job`, `instance`, `service`, `resource`, `machine`, `peers`, `retry` or
    `time`. `position` is
    the job's place in the queue for a worker or a resource; `jobId` and `instanceId` are the job to wait for.
    """

    kind: str
    text: str
    since: int
    endsWhen: str
    until: int | None
    position: int | None
    jobId: str | None
    instanceId: str | None


class ListedJob(JobDocument):
    """A job of an instance. `number` counts them.

    `cancelled` is true if somebody cancelled it: its status is Failed, but nothing went wrong. `failureCode` is the
    error code that explains `errorMessage`; null if a step didn't fail.
    """

    cancelled: bool


class JobDetail(msgspec.Struct, kw_only=True):
    """A job. `number` counts the jobs of its instance; `workflow` equals `name`.

    `parameters` and `results` are those of a command, or the effective parameters and the return values of a launch or
    reconfiguration. `parametersCut` or `resultsCut` is true if they aren't whole: `…` is where that is so.
    `parametersRecorded` is false if an earlier version of Launchbay ran the launch or reconfiguration. `component` is
    set if the job runs a workflow of one component.
    `queuedAt` is the time of the request. `resumes` is the failed job that this one continues, and `attempt` counts
    both. `parent` is the job that runs this one, and `children` are the jobs that this one runs on other instances.
    `usualDurationMs` is the median of the last successful runs. `failureCode` is the error code that explains
    `errorMessage`; null if a step didn't fail. `cancelled` is true if somebody cancelled the job: its status is Failed,
    but nothing went wrong.
    """

    id: str
    instanceId: str
    name: str
    status: str
    ownerId: str
    createdAt: int
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    failureCode: str | None
    cancelled: bool
    parameters: dict[str, Any]
    parametersCut: bool
    parametersRecorded: bool
    results: dict[str, Any]
    resultsCut: bool
    resumes: str | None
    steps: list[StepDetail]
    number: int
    workflow: str
    component: str | None
    beganBy: Beginning
    queuedAt: int
    durationMs: int | None
    percent: int
    attempt: int
    parent: JobReference | None
    children: list[JobReference]
    waitingFor: list[WaitDetail]
    usualDurationMs: int | None


def job_item(row: JobRow, redactor: Redactor) -> dict[str, Any]:
    document = {**job_document(row), "cancelled": is_cancellation(row.error_message)}
    if row.error_message is not None:
        document["errorMessage"] = redactor.text(row.error_message)
    return document


def _job_items(rows: Sequence[JobRow], redactor: Redactor) -> list[dict[str, Any]]:
    return [job_item(row, redactor) for row in rows]


def job_detail(job: JobDetails) -> JobDetail:
    """Return a job: the planned steps in the manifest's order, each followed by the steps inside it."""
    view, plan, redactor = job.view, job.plan, job.redactor
    steps = _steps(job)
    parent = None if job.parent is None else _reference(job.parent)
    parameters, results = job.parameters(), job.results()
    return JobDetail(
        id=view.id,
        instanceId=view.instance_id,
        name=view.name,
        status=view.status,
        ownerId=view.owner_id,
        createdAt=to_ms(view.created_at),
        startedAt=optional_ms(view.started_at),
        finishedAt=optional_ms(view.finished_at),
        errorMessage=None if view.error_message is None else redactor.text(view.error_message),
        failureCode=failure_code(view.error_message),
        cancelled=is_cancellation(view.error_message),
        parameters={} if parameters is None else parameters.values,
        parametersCut=parameters is not None and parameters.is_cut,
        parametersRecorded=parameters is not None,
        results=results.values,
        resultsCut=results.is_cut,
        resumes=plan.resumes[-1] if plan.resumes else None,
        steps=steps,
        number=view.number,
        workflow=view.name,
        component=plan.component,
        beganBy=_beginning(job, parent),
        queuedAt=to_ms(view.created_at),
        durationMs=_between(optional_ms(view.started_at), optional_ms(view.finished_at)),
        percent=_percent(view, steps),
        attempt=len(plan.resumes) + 1,
        parent=parent,
        children=[_reference(link) for link in job.children],
        waitingFor=[_wait(wait, redactor) for wait in job.waits],
        usualDurationMs=job.usual_ms,
    )


def _reference(link: JobLink) -> JobReference:
    return JobReference(
        link.id, link.number, link.workflow, link.status, link.instance_id, link.instance_name, link.is_cancelled
    )


def _wait(wait: Wait, redactor: Redactor) -> WaitDetail:
    text = redactor.text(wait.text)
    return WaitDetail(wait.kind, text, wait.since, wait.ends_when, wait.until, wait.position, wait.job, wait.instance)


def _beginning(job: JobDetails, parent: JobReference | None) -> Beginning:
    view, plan = job.view, job.plan
    owner = view.owner or ""
    if parent is not None:
        return Beginning("job", parent.id, f"{parent.workflow} of {parent.instanceName}", owner)
    return beginning(plan.origin, plan.kind, view.name, view.owner_id, owner)


def beginning(origin: Origin | None, kind: str | None, workflow: str, owner_id: str, owner: str) -> Beginning:
    """Return what began a job that no other one runs.

    `kind` is that of its plan.
    """
    if origin is None and kind != "trigger":
        return Beginning("person", owner_id, owner, owner)
    if origin is None:  # a job of an earlier version
        return Beginning("trigger", "", owner, owner)
    name = origin.name or (workflow if origin.kind == "schedule" else owner)
    return Beginning(origin.kind, origin.id, name, owner)


def _between(began: int | None, ended: int | None) -> int | None:
    return None if began is None or ended is None else ended - began


def _percent(view: JobView, steps: Sequence[StepDetail]) -> int:
    """Return the mean of the job's own steps, and 100 only for success.

    A step whose failure is ignored is finished (decision 0175).
    """
    if view.status == JobStatus.SUCCEEDED:
        return 100
    own = [100 if step.ignored else step.percentComplete for step in steps if is_own_step(step.path)]
    return min(99, sum(own) // len(own)) if own else 0


def _steps(job: JobDetails) -> list[StepDetail]:
    planned = {path: number for number, (path, *_) in enumerate(job.view.planned())}
    groups: dict[int, list[StepDetail]] = {number: [] for number in planned.values()}
    for view in job.view.recorded():
        if "/" not in view.path:
            continue  # the failed launch of a component; the step that failed in it reports the same
        number = planned.get(view.path, _outermost(view.path, planned))
        groups.setdefault(number, []).append(_recorded(view, job.redactor))
    for path, name, status, percent in job.view.planned():
        group = groups[planned[path]]
        own = next((step for step in group if step.path == path), None)
        if own is None:
            group.insert(0, StepDetail(path=path, name=name, status=status, percentComplete=percent, attempt=0))
        else:
            own.percentComplete = raise_percent(own.percentComplete, percent)
            group.remove(own)
            group.insert(0, own)
    steps = [step for number in sorted(groups) for step in groups[number]]
    _complete(job, steps)
    return steps


def _complete(job: JobDetails, steps: Sequence[StepDetail]) -> None:
    """Add what follows from the places of the steps and from the manifest."""
    by_path = {step.path: step for step in steps}
    has_ended = job.view.status != JobStatus.EXECUTING
    for step in steps:
        step.component = owner_of(step.path)
        step.notRun = has_ended and step.status == StepStatus.REQUESTED
        declared = None if job.manifest is None else step_at(job.manifest, step.path)
        if declared is not None:
            step.phase, step.action = declared.phase, declared.action
        outer = _outer_step(step.path, by_path)
        if outer is not None:
            by_path[outer].children += 1


def _outer_step(path: str, known: Container[str]) -> str | None:
    """Return the step that a step runs inside, if any."""
    return next((outer for outer in outer_paths(path) if outer in known), None)


def _outermost(path: str, planned: dict[str, int]) -> int:
    """Return the number of the planned step that a step runs inside; other steps come last."""
    for position, character in enumerate(path):
        if character in "/>~" and path[:position] in planned:
            return planned[path[:position]]
    return len(planned)


def _recorded(view: StepView, redactor: Redactor) -> StepDetail:
    outputs = None if view.outputs is None else redactor.value(msgspec.json.decode(view.outputs))
    error = None if view.error_message is None else redactor.text(view.error_message)
    # A write that came twice brings an attempt twice.
    failed = {number: (began, ended, text) for number, began, ended, text, _ in view.failed_attempts or ()}
    attempts = [
        AttemptDetail(number, began, ended, redactor.text(text)) for number, (began, ended, text) in failed.items()
    ]
    if view.attempt not in failed and not view.is_skipped:
        last_ended = max((ended for _, ended, _ in failed.values()), default=None)
        attempts.append(AttemptDetail(view.attempt, last_ended or view.started_at_ms, view.finished_at_ms, error))
    return StepDetail(
        path=view.path,
        name=view.name,
        status=view.status,
        percentComplete=100 if view.status == StepStatus.SUCCEEDED else view.percent,
        attempt=view.attempt,
        startedAt=view.started_at_ms,
        finishedAt=view.finished_at_ms,
        outputs=outputs,
        outputsOmitted=view.has_outputs and view.outputs is None,
        inputs=None if view.inputs is None else redactor.value(view.inputs.values),
        inputsCut=view.inputs is not None and view.inputs.is_cut,
        inputsOmitted=view.has_inputs and view.inputs is None,
        errorMessage=error,
        durationMs=_between(view.started_at_ms, view.finished_at_ms),
        attempts=attempts,
        skipped=view.is_skipped,
        ignored=view.is_ignored,
    )


class ResumeBody(msgspec.Struct):
    """What to change before a job resumes: arguments of its command, or parameters of the instance."""

    parameters: dict[str, Any] | None = None


@routes.get(
    "/instances/{id}/jobs",
    permission="Read",
    returns=Returns("The jobs, newest first, with a summary of their planned steps.", type=list[ListedJob]),
    computes=True,
)
async def list_jobs(request: Request[None, Paging]) -> Response:
    """List the jobs of an instance."""
    query = request.query
    limit = None if query.limit is None else query.limit + 1
    found = jobs.list_jobs(request.ctx, request.path["id"], after=query.after, limit=limit)
    return await list_of_chunks(
        request, (await asyncio.to_thread(_job_items, chunk, redactor) async for chunk, redactor in found)
    )


class JobQuery(msgspec.Struct, frozen=True):
    """How long to wait for the end of the job."""

    wait: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=LONGEST_WAIT_S,
            description="Respond as soon as the job has ended, or after this many seconds.",
        ),
    ] = 0


_SHOWN = Returns("The job; its planned steps in order, each followed by the steps inside it.")


async def _awaited(request: Request[None, JobQuery]) -> Awaited | None:
    return await jobs.awaited(request.ctx, request.path.get("id"), request.path["jobId"])


@routes.get("/instances/{id}/jobs/{jobId}", permission="Read", returns=_SHOWN, computes=True, waits=_awaited)
async def read_job(request: Request[None, JobQuery]) -> JobDetail:
    """Show a job with all its steps: attempts, times, outputs, errors. Secrets are masked."""
    path = request.path
    job = await jobs.read_job(request.ctx, path["id"], path["jobId"])
    # Masking secrets in large outputs takes a while; other requests must not wait for it.
    return await asyncio.to_thread(job_detail, job)


class StepsQuery(msgspec.Struct, frozen=True):
    """One level of a job's steps, page by page."""

    parent: Annotated[
        str | None,
        msgspec.Meta(description="Only steps directly inside the step with this path. Default: the job's own steps."),
    ] = None
    after: Annotated[str | None, msgspec.Meta(description="Only steps after the one with this path.")] = None
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of steps. Default: all.")]
        | None
    ) = None


@routes.get(
    "/instances/{id}/jobs/{jobId}/steps",
    command="job steps",
    permission="Read",
    returns=Returns("The steps of one level, in order.", type=list[StepDetail]),
    computes=True,
)
async def list_job_steps(request: Request[None, StepsQuery]) -> Response:
    """List the steps of a job, one level at a time."""
    job = await jobs.read_job(request.ctx, request.path["id"], request.path["jobId"])
    return await asyncio.to_thread(_level, request, job)


def _level(request: Request[None, StepsQuery], job: JobDetails) -> Response:
    query = request.query
    steps = _steps(job)
    by_path = {step.path: step for step in steps}
    level = [step for step in steps if _outer_step(step.path, by_path) == query.parent]
    if query.after is not None:
        place = next((number for number, step in enumerate(level) if step.path == query.after), len(level))
        level = level[place + 1 :]
    shown = level[: query.limit]
    more = next_link(request, shown[-1].path) if len(shown) < len(level) else ()
    return RawJSONResponse(encode_buffered(JSONResponse(shown))[1], more)


@routes.get("/jobs/{jobId}", permission="Read", returns=_SHOWN, computes=True, waits=_awaited)
async def find_job(request: Request[None, JobQuery]) -> JobDetail:
    """Show a job by its ID alone, with all its steps. With wait, respond when it has ended."""
    job = await jobs.find_job(request.ctx, request.path["jobId"])
    return await asyncio.to_thread(job_detail, job)


class ComparedJob(msgspec.Struct):
    """One of two compared jobs. `manifestVersion` is the version that it ran."""

    id: str
    number: int | None
    workflow: str
    status: str
    instanceId: str
    manifestVersion: int | None
    durationMs: int | None


class ValueDifference(msgspec.Struct):
    """A value that differs: null where it is missing.

    Names in maps follow those of the maps, after a period.
    """

    name: str
    one: Any
    other: Any


class ComparedStepDetail(msgspec.Struct):
    """A step of one of the jobs.

    `status` is as the console shows it, such as Succeeded, Skipped or Not run.
    """

    status: str
    durationMs: int | None


class StepDifference(msgspec.Struct):
    """A step in both jobs.

    `one` or `other` is null if the job has no such step. `differenceMs` is how much longer the other one took, if both
    ended. Values are those that differ. `uncertain` names those that may, such as `inputs.password`: they are masked
    or cut, and what is shown of them is equal.
    """

    path: str
    one: ComparedStepDetail | None
    other: ComparedStepDetail | None
    differenceMs: int | None
    inputs: list[ValueDifference]
    outputs: list[ValueDifference]
    uncertain: list[str]


class JobComparisonDetail(msgspec.Struct):
    """Two jobs side by side, secrets masked.

    `stepsInAll` counts the steps of both. `unrecorded` are the numbers of jobs whose parameters an earlier version
    didn't keep, so they aren't compared. `uncertain` names parameters and results that may differ, such as
    `parameters.password`: they are masked or cut, and what is shown of them is equal. `stepsUncertain` counts the steps
    with such values.
    """

    one: ComparedJob
    other: ComparedJob
    parameters: list[ValueDifference]
    results: list[ValueDifference]
    unrecorded: list[int | None]
    uncertain: list[str]
    steps: list[StepDifference]
    stepsInAll: int
    stepsUncertain: int


class ComparisonQuery(msgspec.Struct, frozen=True):
    """Which steps to compare."""

    everyStep: Annotated[bool, msgspec.Meta(description="Also steps that don't differ.")] = False


@routes.get(
    "/jobs/{jobId}/compare/{otherJobId}",
    permission="Read of both instances",
    returns=Returns("What differs. Steps are in the order of the other job."),
    computes=True,
)
async def compare_jobs(request: Request[None, ComparisonQuery]) -> JobComparisonDetail:
    """Compare two jobs: their parameters and results, and what differs in their steps.

    That is inputs, outputs, status and duration. Steps differ in duration by a tenth, and by at least 100 ms.
    """
    path = request.path
    found = await job_comparisons.compare_jobs(request.ctx, path["jobId"], path["otherJobId"])
    return JobComparisonDetail(
        one=_compared_job(found.one),
        other=_compared_job(found.other),
        parameters=_differences(found.parameters),
        results=_differences(found.results),
        unrecorded=found.unrecorded,
        uncertain=found.uncertain,
        steps=[
            StepDifference(
                path=step.path,
                one=_compared_step(step.one),
                other=_compared_step(step.other),
                differenceMs=step.difference_ms,
                inputs=_differences(step.inputs),
                outputs=_differences(step.outputs),
                uncertain=step.uncertain,
            )
            for step in (found.steps if request.query.everyStep else found.differing)
        ],
        stepsInAll=len(found.steps),
        stepsUncertain=sum(bool(step.uncertain) for step in found.steps),
    )


def _compared_job(job: JobDetails) -> ComparedJob:
    view = job.view
    return ComparedJob(
        id=view.id,
        number=view.number,
        workflow=view.name,
        status=view.status,
        instanceId=view.instance_id,
        manifestVersion=job.plan.manifest_version,
        durationMs=_between(optional_ms(view.started_at), optional_ms(view.finished_at)),
    )


def _compared_step(step: job_comparisons.ComparedStep | None) -> ComparedStepDetail | None:
    return None if step is None else ComparedStepDetail(step.status.value, step.duration_ms)


def _differences(found: ValueComparison) -> list[ValueDifference]:
    return [ValueDifference(each.name, each.one, each.other) for each in found.differences]


@routes.delete(
    "/instances/{id}/jobs/{jobId}", permission="RunInstanceWorkflow; EditInstance for destroy", statuses=(409,)
)
async def cancel_job(request: Request[None, None]) -> None:
    """Cancel a running job, which ends as failed; its steps are interrupted.

    No step begins after the answer. One that was running may still succeed, and is shown so.
    """
    await jobs.cancel_job(request.ctx, request.path["id"], request.path["jobId"])


@routes.post(
    "/instances/{id}/jobs/{jobId}/resume",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(media_optional=True, example={"parameters": {"input.size": "3"}}, keeps_texts=TYPED),
    returns=Returns("The ID of the new job.", {"id": EXAMPLE_ID}, type=Created),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def resume_job(request: Request[ResumeBody, None]) -> Response:
    """Resume the newest job from the step that failed. Completed steps don't run again."""
    resumed = await jobs.resume_job(
        request.ctx, request.path["id"], request.path["jobId"], request.body.parameters or {}
    )
    return JSONResponse(Created(resumed.job_id), job_headers(resumed))
