"""Organizations (reference §4, Organizations; conformance.md, "Beyond the reference")."""

import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from launchbay.auth import permissions
from launchbay.auth.audit import record_for_operator
from launchbay.auth.gate import ADMINISTRATOR_TEXT, GUEST_TEXT
from launchbay.auth.passwords import Passwords
from launchbay.auth.permissions import Permission, Resource
from launchbay.errors import BadRequest, CannotStart, NotAllowed, NotFound
from launchbay.ids import NamedRow, is_id, new_id
from launchbay.model.email_address import canonical_email
from launchbay.quotas.bounds import Quota
from launchbay.service_types.builtin import SecureStore, WorkflowService
from launchbay.service_types.key_pairs import fingerprint
from launchbay.settings import SERVER_ADMINISTRATORS, USER_MANAGERS
from launchbay.store import audit as store
from launchbay.store import environments, machines, organizations, quotas, services, users
from launchbay.store.audit import AuditRow, FoundObject, LastChange
from launchbay.store.database import Connection, Database
from launchbay.store.machines import HostKeyRow
from launchbay.store.organizations import Organization, Origin
from launchbay.store.users import RoleKind
from launchbay.telemetry import metrics
from launchbay.tenants import Tenants
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.permissions import manages_every_user, permitted_anywhere

LAST_ENTRY = 2**63 - 1
_OUT_OF_ORDER_MINUTES = 1  # between the order of IDs and that of times, where transactions overlap


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which entries of an audit log.

    Times are in UTC; `since` is included, `until` is not.

    `actor` is a user's ID or email address; with the ID, `actor_email` is the address of the account if the caller has
    read it. `about` is an object's ID, or a path, which includes what is below it.
    """

    actor: str | None = None
    actor_email: str | None = None
    about: str | None = None
    actions: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


AuditChunk = tuple[list[AuditRow], Mapping[str, str]]


async def read_audit_entries(
    ctx: Context, organization_id: str, wanted: AuditFilter, *, after: int | None, limit: int | None, newest_first: bool
) -> AsyncIterator[AuditChunk]:
    """Stream entries in chunks, each with the names of its objects by ID.

    Whoever views it sees all of it, so the permission is for everything. Raises BadRequest for a wrong `about`.
    """
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id, Permission.VIEW_AUDIT)
        conditions = await entry_conditions(work.connection, organization_id, wanted)
    lend = ctx.app.database.connection
    start = after if after is not None else LAST_ENTRY if newest_first else 0
    found = store.list_entries.chunks(lend, **conditions, descends=newest_first, after=start, limit=limit)
    async with aclosing(found) as chunks:
        async for chunk in chunks:
            async with lend() as connection:
                names = await names_of(connection, organization_id, chunk)
            yield chunk, names


async def entry_conditions(connection: Connection, organization_id: str, wanted: AuditFilter) -> dict[str, Any]:
    """Return the parameters of the statement that say which entries.

    Raises BadRequest for a wrong `about`.
    """
    actor, about = wanted.actor, wanted.about
    is_object_id, is_actor_id = about is not None and is_id(about), actor is not None and is_id(actor)
    if about is not None and not is_object_id and not about.startswith("/"):
        raise BadRequest("object: give an id, or a path such as /applications/{id}.", code="WrongField")
    is_address = actor is not None and "@" in actor
    # What an account did has its address, by which there is an index. Only entries of removed accounts get another one.
    address = actor if is_address else wanted.actor_email
    if actor is not None and is_actor_id and address is None:
        account = await users.get(connection, id=actor)
        address = None if account is None else account.email
    first, end = await _span(connection, organization_id, wanted)
    return {
        "organization_id": organization_id,
        "actor_id": actor if is_actor_id else None,
        "actor_email": address,
        "actor": None if is_actor_id or is_address else actor,
        "object_id": about if is_object_id else None,
        "path": None if is_object_id else about,
        "actions": None if wanted.actions is None else list(wanted.actions),
        "since": wanted.since,
        "until": wanted.until,
        "first": first,
        "end": end,
    }


async def _span(connection: Connection, organization_id: str, wanted: AuditFilter) -> tuple[int, int]:
    """Return the IDs between which entries of the wanted times are.

    The first is included, the last is not.
    """
    first, end = 1, LAST_ENTRY
    if wanted.since is not None:
        about = {"organization_id": organization_id, "at": wanted.since, "minutes": -_OUT_OF_ORDER_MINUTES}
        first = await store.get_place(connection, **about) or first
    if wanted.until is not None:
        about = {"organization_id": organization_id, "at": wanted.until, "minutes": _OUT_OF_ORDER_MINUTES}
        end = await store.get_place(connection, **about) or end
    return first, end


_QUOTED_ID = re.compile('"([0-9a-f]{24})"')
_MENTIONED = 500  # IDs in the fields of entries that get names


async def names_of(connection: Connection, organization_id: str, rows: Iterable[AuditRow]) -> dict[str, str]:
    """Return the names of actors and objects in entries, by ID."""
    ids = {part for row in rows for part in (row.actor_id, *row.object.split("/")) if is_id(part)}
    mentioned = (found for row in rows for text in (row.before, row.after) for found in _QUOTED_ID.findall(text or ""))
    ids.update(islice(mentioned, _MENTIONED))
    named = await store.list_names(connection, organization_id=organization_id, ids=sorted(ids))
    return {row.id: row.name for row in named}


async def list_last_changes(ctx: Context, organization_id: str, ids: Sequence[str]) -> dict[str, LastChange]:
    """Return the last change of each object by ID.

    None for who may not see the audit log, nor for objects whose changes are older than the log.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if not work.lookup.holds(organization_id, Permission.VIEW_AUDIT):
            return {}
        rows = await store.list_last_changes(work.connection, organization_id=organization_id, ids=list(ids))
    return {row.id: row for row in rows}


async def find_by_name(ctx: Context, organization_id: str, text: str, count: int) -> list[FoundObject]:
    """Return objects and members by the beginning of their names, in any case.

    For those who may see the audit log.
    """
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id, Permission.VIEW_AUDIT)
        return await store.list_named(work.connection, organization_id=organization_id, text=text, count=count)


@dataclass(frozen=True)
class AuditedChange:
    """A field that a change has set; nested ones have dots in their names."""

    field: str
    before: Any
    after: Any


def list_changes(before: str | None, after: str | None) -> list[AuditedChange]:
    """Return what differs between the two documents of an entry, by field."""
    old = _fields("", {} if before is None else msgspec.json.decode(before))
    new = _fields("", {} if after is None else msgspec.json.decode(after))
    return [
        AuditedChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if (name in old) != (name in new) or old.get(name) != new.get(name)
    ]


def _fields(prefix: str, document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or not document:
        return {prefix: document} if prefix else {}
    found: dict[str, Any] = {}
    for name, value in document.items():
        found.update(_fields(f"{prefix}.{name}" if prefix else name, value))
    return found


@dataclass(frozen=True, slots=True)
class FirstAdministrator:
    """The account of the first start, with its password, shown once."""

    email: str
    password: str
    is_generated: bool


async def initialize(
    database: Database, passwords: Passwords, *, organization: str, email: str, password: str
) -> FirstAdministrator | None:
    """Create the first organization and its administrator, or return None.

    Several servers may start at once: an advisory lock lets one of them do it. Raises CannotStart for an address or a
    password that nobody may have.
    """
    async with database.connection() as connection:
        if await organizations.any_exists(connection):
            return None
    try:
        email = canonical_email(email)
    except BadRequest as error:
        raise CannotStart(f"LAUNCHBAY_ADMIN_EMAIL (admin_email in the settings file): {error}") from None
    generated = not password
    password = password or secrets.token_urlsafe(18)
    try:
        password_hash = await (passwords.hash(password) if generated else passwords.hash_new(password, email))
    except BadRequest as error:
        raise CannotStart(f"LAUNCHBAY_ADMIN_PASSWORD (admin_password in the settings file): {error}") from None
    async with database.transaction() as connection:
        await organizations.lock_first_start(connection)
        if await organizations.any_exists(connection):
            return None
        user_id = new_id()
        await users.insert(connection, id=user_id, email=email, name="Administrator", password_hash=password_hash)
        await create_first_organization(connection, organization, user_id)
    return FirstAdministrator(email, password, generated)


async def create_first_organization(connection: Connection, name: str, administrator_id: str) -> str:
    """Create an organization with its environment, services, roles and administrator."""
    organization_id = await create_empty_organization(connection, name, administrator_id)
    environment_id = new_id()
    await environments.insert(
        connection, environment_id=environment_id, organization_id=organization_id, name="default", is_default=True
    )
    await _add_services(connection, organization_id, environment_id)
    await users.insert_role(
        connection,
        id=new_id(),
        organization_id=organization_id,
        name="Guest",
        kind=RoleKind.GUEST,
        permissions=GUEST_TEXT,
    )
    return organization_id


async def create_empty_organization(connection: Connection, name: str, administrator_id: str) -> str:
    """Create an organization with only its zone and administrator; return its id."""
    organization_id, role_id = new_id(), new_id()
    await organizations.insert(connection, organization_id=organization_id, name=name, creator_id=administrator_id)
    await services.insert_zone(connection, zone_id=new_id(), organization_id=organization_id, name="Default")
    await users.insert_role(
        connection,
        id=role_id,
        organization_id=organization_id,
        name="Administrator",
        kind=RoleKind.ADMINISTRATOR,
        permissions=ADMINISTRATOR_TEXT,
    )
    await users.join_organization(connection, organization_id=organization_id, user_id=administrator_id)
    await users.assign_role(connection, role_ids=[role_id], user_id=administrator_id)
    return organization_id


async def _add_services(connection: Connection, organization_id: str, environment_id: str) -> None:
    """Give the default environment the two services that need no setting up."""
    [zone] = await services.list_zones(connection, organization_id=organization_id)
    for name, type_id in (
        ("Default workflow service", WorkflowService.id),
        ("Default credentials service", SecureStore.id),
    ):
        service_id = new_id()
        await services.insert(
            connection,
            service_id=service_id,
            organization_id=organization_id,
            zone_id=zone.id,
            name=name,
            type_id=type_id,
            parameters="{}",
        )
        await services.insert_offer(connection, environment_id=environment_id, service_id=service_id)


async def list_organizations(ctx: Context) -> list[NamedRow]:
    """Return the organizations that the caller belongs to, by name."""
    async with ctx.read() as work:
        await work.lookup.require_caller()
        rows = await organizations.list_by_user(work.connection, user_id=ctx.actor.user_id)
    token = ctx.actor.token
    return rows if token is None else [row for row in rows if row.id == token.organization_id]


async def read_organization(ctx: Context, organization_id: str) -> Organization:
    """Return an organization that the caller belongs to."""
    async with ctx.read() as work:
        return await work.lookup.organization(organization_id)


async def create_organization(ctx: Context, name: str) -> str:
    """Create a complete organization with the caller as administrator; return its id.

    Each organization has quotas and shares of its own, so not everybody may create them (decision 0140). Names don't
    have to be unique: an error would reveal other organizations. Raises BadRequest for a bad name, and beyond the
    caller's quota.
    """
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        creator = await require_creation(work)
        name = validate_name(name)
        organization_id = await create_first_organization(work.connection, name, caller.id)
        at = f"/organizations/{organization_id}"
        await work.audit("create_organization", organization_id, after={"name": name}, at=at)
    creator.note(organization_id)
    return organization_id


async def rename_organization(ctx: Context, organization_id: str, name: str) -> None:
    """Give an organization another name; the permission is ManageUsers for all users. Raises BadRequest."""
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.MANAGE_USERS, permissions.user(permissions.EVERY)
        )
        name = validate_name(name)
        await organizations.rename(work.connection, organization_id=organization.id, name=name)
        await work.audit("rename_organization", organization, before={"name": organization.name}, after={"name": name})


@dataclass(frozen=True, slots=True)
class Creator:
    """A person who may create organizations. `allowed` is None for any number."""

    id: str
    administers_server: bool
    created: int
    allowed: int | None
    _tenants: Tenants

    @property
    def is_full(self) -> bool:
        return self.allowed is not None and self.created >= self.allowed

    def note(self, organization_id: str) -> None:
        """Let a new organization share with the creator's others at once.

        Other processes read it within seconds.
        """
        if not self.administers_server:
            self._tenants.add(organization_id, self.id)


async def require_creation(work: Work) -> Creator:
    """Return the caller, who may create an organization until the end of the transaction.

    Raises NotAllowed, and BadRequest with the code QuotaExceeded.
    """
    caller = await work.lookup.caller()
    await organizations.lock_creator(work.connection, creator_id=caller.id)
    creator = await _creator(work)
    if creator is None:
        if USER_MANAGERS in work.app.organization_creators:
            who = f"who has the permission {Permission.MANAGE_USERS} for all users of an organization"
        else:
            who = "administrators of this server"
        raise NotAllowed(
            f"Only {who} can create organizations.",
            "Ask one of them to create it and to add you, or ask the operator to change the setting"
            " organization_creators.",
        )
    if creator.is_full:
        metrics.quota_refusals.labels("organizations").inc()
        raise BadRequest(
            f"You may create {creator.allowed} organizations, and have created {creator.created}.",
            "Use one of them, or ask the operator of this server to raise the setting quota_organizations.",
            code="QuotaExceeded",
        )
    return creator


async def read_creator(ctx: Context) -> Creator | None:
    """Return how many organizations the caller may create, None for who may not."""
    async with ctx.read() as work:
        return await _creator(work)


async def _creator(work: Work) -> Creator | None:
    caller = await work.lookup.caller()
    allowed = work.app.organization_creators
    administers_server = bool(await organizations.administers_server(work.connection, user_id=caller.id))
    if not (
        (administers_server and SERVER_ADMINISTRATORS in allowed)
        or caller.id in allowed
        or (USER_MANAGERS in allowed and any(map(manages_every_user, await permitted_anywhere(work))))
    ):
        return None
    created = await organizations.count_created(work.connection, creator_id=caller.id) or 0
    return Creator(caller.id, administers_server, created, work.app.organizations_each or None, work.app.quotas.tenants)


async def read_origin(ctx: Context, organization_id: str) -> Origin | None:
    """Return who created an organization.

    Those who may see its audit log, or this person, get it. None is also the answer where it is not known.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        origin = await organizations.get_origin(work.connection, organization_id=organization_id)
        if origin is None or not (
            origin.id == ctx.actor.user_id
            or work.lookup.holds(organization_id, Permission.VIEW_AUDIT)
            or (origin.is_member and work.lookup.allows(organization_id, Permission.READ, permissions.user(origin.id)))
        ):
            return None
        return origin


@dataclass(frozen=True, slots=True)
class Usage:
    """What an organization uses of one quota. `allowed` is None for any amount."""

    quota: Quota
    used: int
    allowed: int | None

    @property
    def label(self) -> str:
        return self.quota.label

    @property
    def is_full(self) -> bool:
        return self.allowed is not None and self.used >= self.allowed


async def read_usage(ctx: Context, organization_id: str) -> list[Usage]:
    """Return used and allowed of each quota.

    Requests and event streams are those of this process.
    """
    known = ctx.app.quotas
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        await known.read_own(work.connection)
        used = await known.used(work.connection, organization_id)
    used[Quota.REQUESTS] = known.requests_per_s(organization_id)
    used[Quota.EVENT_STREAMS] = ctx.app.feed.streams.of(organization_id)
    return [Usage(quota, used[quota], known.allowed(organization_id, quota) or None) for quota in Quota]


async def set_quota(connection: Connection, organization_id: str, quota: Quota, allowed: int | None) -> None:
    """Set what an organization may use, for the operator.

    0 is any amount, and None is what the settings say.
    """
    if allowed is None:
        await quotas.reset_allowed(connection, organization_id=organization_id, quota=quota)
    else:
        await quotas.set_allowed(connection, organization_id=organization_id, quota=quota, allowed=allowed)
    await record_for_operator(
        connection,
        "set_quota",
        f"/organizations/{organization_id}",
        organization_id=organization_id,
        after={"quota": quota, "allowed": allowed},
    )


async def list_host_keys(ctx: Context, organization_id: str) -> list[HostKeyRow]:
    """Return the pinned keys of an organization, by host."""
    async with ctx.read() as work:
        await work.lookup.organization(organization_id, *_every_environment())
        return await machines.list_host_keys_by_organization(work.connection, organization_id=organization_id)


async def forget_host_key(ctx: Context, organization_id: str, host: str) -> None:
    """Forget the key of a host, so that the one it shows next is pinned. Raises NotFound."""
    async with ctx.begin() as work:
        await work.lookup.organization(organization_id, *_every_environment())
        key = await machines.get_host_key(work.connection, organization_id=organization_id, host=host)
        if key is None:
            raise NotFound(f"No key is pinned for {host[:80]!r}.", "Look the host up in the list of the organization.")
        await machines.delete_host_key(work.connection, organization_id=organization_id, host=host)
        before = {"host": host, "fingerprint": fingerprint(key)}
        await work.audit("forget_host_key", organization_id, before, at=f"/hostKeys/{host}")


def _every_environment() -> tuple[Permission, Resource]:
    """Return the required permission: editing every environment."""
    return Permission.EDIT_ENVIRONMENT, permissions.environment(permissions.EVERY)
