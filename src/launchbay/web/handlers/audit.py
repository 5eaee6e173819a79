"""The audit log (api-decisions, "Beyond the reference")."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.store.audit import AuditRow
from launchbay.usecases.organizations import audit_entries
from launchbay.web.answers import Answer, Json, JsonList
from launchbay.web.call import Call
from launchbay.web.encode import Paging, next_link, rows
from launchbay.web.endpoint import Endpoint, Returns

_ID_DIGITS = 24
_LAST_NUMBER = 2**63 - 1


class AuditQuery(Paging, frozen=True):
    """Paging and filters of the audit log."""

    actor: Annotated[str | None, msgspec.Meta(description="Only by this user: an id or an e-mail address.")] = None
    object: Annotated[
        str | None,
        msgspec.Meta(
            description="Only about this object: its id, or a path that stands for all below it too.",
            extra_json_schema={"pattern": "^([0-9a-f]{24}$|/)"},
        ),
    ] = None


class AuditActor(msgspec.Struct):
    """Who: the account, and how it proved itself."""

    id: str
    email: str
    method: str


class AuditEntry(msgspec.Struct):
    """One change. `at` is milliseconds since the Unix epoch; secrets in `before` and `after` are fingerprints."""

    id: str
    at: int
    actor: AuditActor
    address: str
    operation: str
    object: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None


class AuditEntryShape(AuditEntry):
    """An entry as the documentation describes it."""

    before: dict[str, Any] | None  # type: ignore[assignment] # a text of JSON is sent as it is stored
    after: dict[str, Any] | None  # type: ignore[assignment] # a text of JSON is sent as it is stored


async def list_audit_entries(call: Call[None, AuditQuery]) -> Answer:
    """List what was changed."""
    query = call.query
    found = audit_entries(
        call.services.desk,
        call.actor,
        call.path["orgId"],
        after=min(int(query.after or "0", 16), _LAST_NUMBER),
        by=query.actor,
        about=query.object,
        limit=None if query.limit is None else query.limit + 1,
    )
    if query.limit is None:
        return JsonList(_encoded(found))
    entries = [_entry(row) async for chunk in found for row in chunk]
    shown = entries[: query.limit]
    return Json(shown, next_link(call, shown[-1].id) if len(entries) > len(shown) else ())


async def _encoded(chunks: AsyncIterator[list[AuditRow]]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield rows([_entry(row) for row in chunk])


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        id=f"{row.id:0{_ID_DIGITS}x}",
        at=to_ms(row.at),
        actor=AuditActor(row.actor_id, row.actor_email, row.method),
        address=row.address,
        operation=row.operation,
        object=row.object,
        before=_raw(row.before),
        after=_raw(row.after),
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


_EXAMPLE = {
    "id": f"{17:024x}",
    "at": 1_767_225_600_000,
    "actor": {"id": "5f" * 12, "email": "ann@example.org", "method": "basic"},
    "address": "192.0.2.7",
    "operation": "update_role",
    "object": "/roles/" + "5f" * 12,
    "before": {"name": "Developer", "permissions": "- Read: [/*]\n"},
    "after": {"name": "Developer", "permissions": ""},
}

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/audit",
        operation_id="list_audit_entries",
        handler=list_audit_entries,
        summary="Lists what was changed in an organization: by whom, when, from where, before and after.",
        tags=("Audit",),
        permission="ViewAudit",
        query=AuditQuery,
        returns=Returns(list[AuditEntryShape], "The entries, oldest first.", [_EXAMPLE]),
        statuses=(403,),
        addition=True,
    ),
)
