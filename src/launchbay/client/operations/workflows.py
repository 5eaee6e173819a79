"""Operations of the API: workflows.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import operation
from launchbay.client.types import Created, Scheduled, Schedules


@operation(
    Row(
        id="run_workflow",
        method="POST",
        path="/api/1/instances/{id}/{workflow}",
        media_type="application/json",
        keyed=True,
    )
)
def run_workflow(
    instance_id: str, workflow: str, parameters: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
) -> Call[Created]:
    """Runs a workflow on the instance.

    Needs: RunInstanceWorkflow; EditInstance for destroy.
    """
    return Call(
        Created,
        (
            instance_id,
            workflow,
        ),
        body=parameters or {},
        idempotency_key=idempotency_key,
    )


@operation(
    Row(
        id="schedule_workflow",
        method="POST",
        path="/api/1/instances/{id}/{workflow}/schedule",
        media_type="application/json",
        keyed=True,
    )
)
def schedule_workflow(
    instance_id: str,
    workflow: str,
    *,
    interval: int | str,
    parameters: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Scheduled]:
    """Schedules a workflow; interval 0 runs it at once.

    Needs: ScheduleInstanceWorkflow; EditInstance for destroy.
    """
    return Call(
        Scheduled,
        (
            instance_id,
            workflow,
        ),
        body=given({"interval": interval, "parameters": parameters}),
        idempotency_key=idempotency_key,
    )


@operation(
    Row(
        id="reschedule_workflow",
        method="POST",
        path="/api/1/instances/{id}/{workflow}/reschedule",
        media_type="application/json",
    )
)
def reschedule_workflow(
    instance_id: str, workflow: str, *, interval: int | str, parameters: Mapping[str, Any] | None = None
) -> Call[Scheduled]:
    """Moves a schedule, named by its id or workflow; interval 0 cancels it.

    Needs: ScheduleInstanceWorkflow; EditInstance for destroy.
    """
    return Call(
        Scheduled,
        (
            instance_id,
            workflow,
        ),
        body=given({"interval": interval, "parameters": parameters}),
    )


@operation(Row(id="list_schedules", method="GET", path="/api/1/instances/{id}/schedules"))
def list_schedules(instance_id: str) -> Call[Schedules]:
    """Lists the pending schedules of the instance.

    Needs: Read.
    """
    return Call(Schedules, (instance_id,))
