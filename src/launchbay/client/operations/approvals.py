"""Operations of the API: approvals.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Approval


@list_operation(
    Row(
        id="list_approvals",
        method="GET",
        path="/api/1/organizations/{orgId}/approvals",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_approvals(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Approval]]:
    """Lists the approvals that workflows of the organization wait for.

    Needs: Read for the instance of each.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Approval], (organization_id,), query={"limit": limit, "after": after})


@list_operation(
    Row(
        id="list_instance_approvals",
        method="GET",
        path="/api/1/instances/{id}/approvals",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_instance_approvals(
    instance_id: str, *, limit: int | None = None, after: str | None = None
) -> Call[list[Approval]]:
    """Lists the approvals that workflows of the instance wait for or have got.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Approval], (instance_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="approve",
        method="POST",
        path="/api/1/approvals/{approvalId}/approve",
        media_type="application/json",
        keyed=True,
    )
)
def approve(approval_id: str, *, comment: str | None = None, idempotency_key: str | None = None) -> Call[Approval]:
    """Approves what a step waits for.

    Needs: ApproveInstanceWorkflow, and what the step asks for.
    """
    return Call(Approval, (approval_id,), body=given({"comment": comment}), idempotency_key=idempotency_key)


@operation(
    Row(
        id="reject",
        method="POST",
        path="/api/1/approvals/{approvalId}/reject",
        media_type="application/json",
        keyed=True,
    )
)
def reject(approval_id: str, *, comment: str | None = None, idempotency_key: str | None = None) -> Call[Approval]:
    """Rejects what a step waits for: the step fails, and is not tried again.

    Needs: ApproveInstanceWorkflow, and what the step asks for.
    """
    return Call(Approval, (approval_id,), body=given({"comment": comment}), idempotency_key=idempotency_key)
