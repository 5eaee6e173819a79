"""Operations of the API: audit.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.call import Call, Row
from launchbay.client.operation import list_operation
from launchbay.client.types import AuditEntryShape


@list_operation(
    Row(
        id="list_audit_entries",
        method="GET",
        path="/api/1/organizations/{orgId}/audit",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
            "actor": "Only by this user: an id or an e-mail address.",
            "object_": "Only about this object: its id, or a path that stands for all below it too.",
        },
    )
)
def list_audit_entries(
    organization_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    actor: str | None = None,
    object_: str | None = None,
) -> Call[list[AuditEntryShape]]:
    """Lists what was changed in an organization: by whom, when, from where, before and after.

    Needs: ViewAudit.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.

    `actor`: Only by this user: an id or an e-mail address.

    `object_`: Only about this object: its id, or a path that stands for all below it too.
    """
    return Call(
        list[AuditEntryShape],
        (organization_id,),
        query={"limit": limit, "after": after, "actor": actor, "object": object_},
    )
