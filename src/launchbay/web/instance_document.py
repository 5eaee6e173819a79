"""Instances as the API shows them (reference §2; additions: api-decisions, "States")."""

from typing import Any, TypedDict

import msgspec

from launchbay.clock import to_ms
from launchbay.model.instance import Waits, waiting_for
from launchbay.model.job import JobStatus, raise_percent
from launchbay.store.instances import JobRow, read_history
from launchbay.usecases.instances import InstanceView


class StepDocument(TypedDict):
    """A step in brief."""

    name: str
    status: str
    percentComplete: int


class WorkflowDocument(TypedDict):
    """The running job, in exactly the fields of the reference."""

    name: str
    status: str
    ownerId: str
    steps: list[StepDocument]


class JobDocument(WorkflowDocument):
    """A job of the history."""

    id: str
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None


class ComponentDocument(TypedDict, total=False):
    """A component; `instanceId` is there when it stands for another instance."""

    name: str
    instanceId: str


class _InstanceDocument(TypedDict):
    id: str
    name: str
    version: int
    parameters: dict[str, Any]
    status: str
    ownerId: str
    workflowHistory: list[JobDocument]
    returnValues: dict[str, Any]
    applicationId: str
    environmentId: str
    components: list[ComponentDocument]
    errorMessage: str | None
    availableWorkflows: list[str]
    destroyAt: int | None
    userData: dict[str, Any]
    createdAt: int


class InstanceDocument(_InstanceDocument, total=False):
    """An instance in detail; `workflow` is there while a job runs, `dryRun` where its machines are dry-run ones.

    `waitingFor` is there while its work does not go on: sentences that say what it waits for.
    """

    workflow: WorkflowDocument
    waitingFor: str
    dryRun: bool


def instance_document(view: InstanceView) -> dict[str, Any]:
    """Return an instance in detail. Stored documents are passed on as they are."""
    detail = view.detail
    history = [job_document(row) for row in read_history(detail.history)]
    document: dict[str, Any] = {
        "id": detail.id,
        "name": detail.name,
        "version": detail.version,
        "parameters": msgspec.Raw(detail.parameters.encode()),
        "status": detail.status,
        "ownerId": detail.owner_id,
        "workflowHistory": history,
        "returnValues": msgspec.Raw(detail.return_values.encode()),
        "applicationId": detail.application_id,
        "environmentId": detail.environment_id,
        "components": msgspec.Raw(detail.components.encode()),
        "errorMessage": detail.error_message,
        "availableWorkflows": view.available_workflows,
        "destroyAt": None if detail.destroy_at is None else to_ms(detail.destroy_at),
        "userData": msgspec.Raw(detail.user_data.encode()),
        "createdAt": to_ms(detail.created_at),
    }
    running = next((job for job in history if job["status"] == JobStatus.EXECUTING), None)
    if running is not None:
        document["workflow"] = {name: running[name] for name in ("name", "status", "ownerId", "steps")}
    sentences = "" if detail.waits is None else waiting_for(msgspec.json.decode(detail.waits, type=Waits))
    if sentences:
        document["waitingFor"] = sentences
    if view.is_dry_run:
        document["dryRun"] = True
    return document


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
    }


def _steps(row: JobRow) -> list[dict[str, Any]]:
    live = {path: (status, percent) for path, status, percent in row.live_steps or ()}
    steps = []
    for path, name, status, percent in row.steps:
        now_status, now_percent = live.get(path, (status, percent))
        steps.append({"name": name, "status": now_status, "percentComplete": raise_percent(percent, now_percent)})
    return steps
