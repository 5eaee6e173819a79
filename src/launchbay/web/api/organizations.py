"""Organizations, their audit log and their pinned host keys (reference §4; conformance.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.service_types.key_pairs import fingerprint
from launchbay.store.audit import AuditRow
from launchbay.store.machines import HostKeyRow
from launchbay.usecases import organizations
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import (
    Created,
    MomentMs,
    NameBody,
    Named,
    Paging,
    Response,
    WordPaging,
    first_moment,
    list_of_chunks,
    list_response,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Organizations")
audit_routes = Routes("Audit", extension=True)
usage_routes = Routes("Organizations", extension=True)
host_keys_routes = Routes("Organizations", extension=True)


@routes.get(
    "/organizations",
    permission="None: lists your own organizations",
    returns=Returns("The organizations, by name.", [{"id": EXAMPLE_ID, "name": "Default"}], type=list[Named]),
)
async def list_organizations(request: Request[None, Paging]) -> Response:
    """List your organizations."""
    rows = await organizations.list_organizations(request.ctx)
    return list_response(request, [Named(row.id, row.name) for row in rows])


@routes.post(
    "/organizations",
    permission="Administrator of the server (setting `organization_creators`)",
    body=JsonBody(example={"name": "Research"}),
    returns=Returns("The ID of the new organization.", {"id": EXAMPLE_ID}),
    extension=True,
    idempotency_key=True,
)
async def create_organization(request: Request[NameBody, None]) -> Created:
    """Create an organization with its default environment, services and roles. The caller becomes its administrator."""
    return Created(await organizations.create_organization(request.ctx, request.body.name))


@routes.get(
    "/organizations/{orgId}",
    permission="None: every member",
    returns=Returns("The organization.", {"id": EXAMPLE_ID, "name": "Default"}),
    statuses=(403,),
    extension=True,
)
async def read_organization(request: Request[None, None]) -> Named:
    """Show an organization."""
    found = await organizations.read_organization(request.ctx, request.path["orgId"])
    return Named(found.id, found.name)


@routes.put(
    "/organizations/{orgId}",
    permission="ManageUsers for all users",
    body=JsonBody(example={"name": "Research"}),
    extension=True,
)
async def rename_organization(request: Request[NameBody, None]) -> None:
    """Rename an organization."""
    await organizations.rename_organization(request.ctx, request.path["orgId"], request.body.name)


class Usage(msgspec.Struct):
    """The quota `id`. Without `allowed`, the organization may use any amount."""

    id: str
    used: int
    allowed: int | None


@usage_routes.get(
    "/organizations/{orgId}/usage",
    command="organization usage",
    permission="None: every member",
    returns=Returns(
        "The quotas. The server that answers counts `eventStreams` and `requestsPerSecond` for itself.",
        [{"id": "instances", "used": 12, "allowed": 200_000}],
        type=list[Usage],
    ),
    statuses=(403,),
)
async def read_usage(request: Request[None, WordPaging]) -> Response:
    """List what an organization uses and what it may use."""
    rows = await organizations.read_usage(request.ctx, request.path["orgId"])
    return list_response(request, [Usage(row.quota.value, row.used, row.allowed) for row in rows])


_ID_DIGITS = 24
_LAST_NUMBER = 2**63 - 1


class AuditQuery(Paging, frozen=True):
    """Paging and filters of the audit log. Times are in milliseconds since the Unix epoch."""

    actor: Annotated[str | None, msgspec.Meta(description="Only changes by this user: an ID or an email address.")] = (
        None
    )
    object: Annotated[
        str | None,
        msgspec.Meta(
            description="Only changes of this object: an ID, or a path, which includes everything below it.",
            extra_json_schema={"pattern": "^([0-9a-f]{24}$|/)"},
        ),
    ] = None
    action: Annotated[
        str | None,
        msgspec.Meta(
            description="Only these operations, separated by commas, such as `run_workflow,resume_job`.",
        ),
    ] = None
    since: Annotated[MomentMs | None, msgspec.Meta(description="Only changes from this time on.")] = None
    until: Annotated[MomentMs | None, msgspec.Meta(description="Only changes before this time.")] = None
    sort: Annotated[Literal["at", "-at"], msgspec.Meta(description="The order; `-at` is newest first.")] = "at"


class AuditToken(msgspec.Struct):
    """The access token that acted."""

    id: str
    name: str


class AuditActor(msgspec.Struct, omit_defaults=True):
    """The account, how it signed in, and with which access token, if any."""

    id: str
    email: str
    method: str
    token: AuditToken | None = None
    name: str | None = None


class AuditChange(msgspec.Struct):
    """One field that the change has set. `field` has dots for nested fields."""

    field: str
    before: Any
    after: Any


class AuditEntry(msgspec.Struct):
    """One change. `at` is in milliseconds since the Unix epoch; `before` and `after` show secrets as fingerprints.

    `changes` lists the fields that differ. `names` has the current names of IDs in `object`, as far as they exist.
    """

    id: str
    at: int
    actor: AuditActor
    address: str
    operation: str
    object: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None
    names: dict[str, str]
    changes: list[AuditChange]


class AuditEntryShape(AuditEntry):
    """An entry as the documentation describes it."""

    before: dict[str, Any] | None  # type: ignore[assignment] # stored JSON is sent unchanged
    after: dict[str, Any] | None  # type: ignore[assignment] # stored JSON is sent unchanged


_EXAMPLE = {
    "id": f"{17:024x}",
    "at": 1_767_225_600_000,
    "actor": {"id": EXAMPLE_ID, "email": "ann@example.org", "method": "basic"},
    "address": "192.0.2.7",
    "operation": "update_role",
    "object": "/roles/" + EXAMPLE_ID,
    "before": {"name": "Developer", "permissions": "- Read: [/*]\n"},
    "after": {"name": "Developer", "permissions": ""},
    "names": {EXAMPLE_ID: "Developer"},
    "changes": [{"field": "permissions", "before": "- Read: [/*]\n", "after": ""}],
}


@audit_routes.get(
    "/organizations/{orgId}/audit",
    command="audit list",
    permission="ViewAudit",
    returns=Returns("The entries, oldest first unless sorted.", [_EXAMPLE], type=list[AuditEntryShape]),
)
async def list_audit_entries(request: Request[None, AuditQuery]) -> Response:
    """List the changes made in an organization: by whom, when, from where, before and after."""
    query = request.query
    found = organizations.read_audit_entries(
        request.ctx,
        request.path["orgId"],
        organizations.AuditFilter(
            actor=query.actor,
            about=query.object,
            actions=None if query.action is None else query.action.split(","),
            since=first_moment(query.since),
            until=first_moment(query.until),
        ),
        after=None if query.after is None else min(int(query.after, 16), _LAST_NUMBER),
        limit=None if query.limit is None else query.limit + 1,
        newest_first=query.sort == "-at",
    )
    return await list_of_chunks(request, ([_entry(row, names) for row in chunk] async for chunk, names in found))


def _token(row: AuditRow) -> AuditToken | None:
    return None if row.token_id is None else AuditToken(row.token_id, row.token_name or "")


def _entry(row: AuditRow, names: Mapping[str, str]) -> AuditEntry:
    return AuditEntry(
        id=f"{row.id:0{_ID_DIGITS}x}",
        at=to_ms(row.at),
        actor=AuditActor(row.actor_id, row.actor_email, row.method, _token(row), names.get(row.actor_id)),
        address=row.address,
        operation=row.operation,
        object=row.object,
        before=_raw(row.before),
        after=_raw(row.after),
        names={part: names[part] for part in row.object.split("/") if part in names},
        changes=[
            AuditChange(each.field, each.before, each.after)
            for each in organizations.list_changes(row.before, row.after)
        ],
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


_PERMISSION = "EditEnvironment for all environments of the organization"


class HostKey(msgspec.Struct):
    """A pinned key. `id` is the host's address and port; times are in milliseconds since the Unix epoch."""

    id: str
    algorithm: str
    fingerprint: str
    pinnedAt: int


@host_keys_routes.get(
    "/organizations/{orgId}/hostKeys",
    command="organization host-keys",
    permission=_PERMISSION,
    returns=Returns("The pinned keys, by host.", type=list[HostKey]),
)
async def list_host_keys(request: Request[None, WordPaging]) -> Response:
    """List the pinned SSH host keys of an organization."""
    rows = await organizations.list_host_keys(request.ctx, request.path["orgId"])
    return list_response(request, [_host_key(row) for row in rows])


@host_keys_routes.delete(
    "/organizations/{orgId}/hostKeys/{host}", command="organization forget-host-key", permission=_PERMISSION
)
async def forget_host_key(request: Request[None, None]) -> None:
    """Forget the pinned key of a host, such as 10.0.0.5:22. The next key it presents is pinned."""
    await organizations.forget_host_key(request.ctx, request.path["orgId"], request.path["host"])


def _host_key(row: HostKeyRow) -> HostKey:
    algorithm = row.public_key.partition(" ")[0]
    return HostKey(row.host, algorithm, fingerprint(row.public_key), to_ms(row.pinned_at))
