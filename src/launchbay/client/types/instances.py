"""Types of the API: instances. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class InstanceSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance as lists show it, in exactly the fields of the reference (§2), under their names. There may be a
    hundred thousand in a list, so a row becomes this and this becomes JSON, with nothing in between.
    """

    id: str
    name: str
    environment: str
    application: str
    revision: str | None
    status: str


class ComponentDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component; `instanceId` is there when it stands for another instance."""

    instance_id: str | None = None
    name: str | None = None


class StepDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step in brief."""

    name: str
    percent_complete: int
    status: str


class JobDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job of the history."""

    error_message: str | None
    finished_at: int | None
    id: str
    name: str
    owner_id: str
    started_at: int | None
    status: str
    steps: list[StepDocument]


class WorkflowDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The running job, in exactly the fields of the reference."""

    name: str
    owner_id: str
    status: str
    steps: list[StepDocument]


class InstanceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance in detail; `workflow` is there while a job runs, `dryRun` where its machines are dry-run ones.
    `waitingFor` is there while its work does not go on: sentences that say what it waits for.
    """

    application_id: str
    available_workflows: list[str]
    components: list[ComponentDocument]
    created_at: int
    destroy_at: int | None
    dry_run: bool | None = None
    environment_id: str
    error_message: str | None
    id: str
    name: str
    owner_id: str
    parameters: dict[str, Any]
    return_values: dict[str, Any]
    status: str
    user_data: dict[str, Any]
    version: int
    waiting_for: str | None = None
    workflow: WorkflowDocument | None = None
    workflow_history: list[JobDocument]


class ParameterChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A configuration pin whose value would change; `reset` says that it goes back to its default."""

    name: str
    from_: Any = msgspec.field(name="from")
    to: Any
    reset: bool


class PreviewedComponent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would happen to a component; `path` leads through the submodules."""

    path: str
    change: str
    parameters: list[ParameterChange]


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would happen. With errors nothing would: they are the reasons for a refusal."""

    components: list[PreviewedComponent] = []
    workflows: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []


class OfferedIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ids of the environments that offer an instance as a service."""

    environments: list[str]
