"""Fetch and authorize in one act: the only way a use case gets hold of an object.

    async with database.transaction() as connection:
        lookup = lookups.bind(connection, actor)
        environment = await lookup.environment(environment_id, Permission.READ)
        application = await lookup.application(
            application_id, Permission.CREATE_INSTANCE, permissions.environment(environment.id)
        )

Every method makes one query, which brings the object, whether the caller's credentials still hold, and the stamp that
says whether the grants in memory still hold; only after a change a second query reloads them. In the order of checks
(conformance.md, "Wire" 6) it raises NotAuthenticated when the caller was disabled, deleted, or has ended the
sessions since the credentials were verified; NotFound when there is no such object; NotAllowed when there is one, in
whatever organization.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypeVar

import structlog

from launchbay.auth import gate, permissions
from launchbay.auth.gate import ALL_GRANTS, NO_GRANTS, Grants, RoleEntry, RoleGrants, read_role_text
from launchbay.auth.permissions import Actor, Permission, Resource
from launchbay.errors import BadRequest, NotAllowed, NotAuthenticated, NotFound
from launchbay.ids import canonical_id, is_id
from launchbay.limits import GRANTS_CACHED
from launchbay.store import lookups, users
from launchbay.store.applications import Application, Revision
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceDetail, InstanceRecord
from launchbay.store.lookups import LaunchSettings, LookupQuery, LookupRow
from launchbay.store.organizations import Organization
from launchbay.store.services import Service
from launchbay.store.users import HeldRole, Role, RoleKind, User

T = TypeVar("T")
_SLICE_S = 0.0005  # of decisions about rows, before other requests get the event loop
_ORGANIZATIONS_CACHED = 8  # whose roles are kept: the roles of one may take megabytes
_INLINE_CHARS = 16_384  # of texts of roles: longer ones take milliseconds to read
RuleOwner = Literal["application", "environment"]  # whose lifetimes, sleep windows and limits of jobs rules set
_log = structlog.get_logger("launchbay.access")


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


class _Owned(Protocol):
    @property
    def organization_id(self) -> str: ...


Identified = TypeVar("Identified", bound=_HasId)
OwnedT = TypeVar("OwnedT", bound=_Owned)


class MissingPermission(NotAllowed):
    """A member lacks a permission for what an operation touches.

    Nothing touched: for anything in the organization. `token` is the name of the access token that the roles would
    allow it, but whose scope doesn't.
    """

    def __init__(
        self,
        organization_id: str,
        permission: Permission,
        touched: tuple[Resource, ...] = (),
        *,
        token: str | None = None,
    ) -> None:
        where = f"for {' with '.join(map(str, touched))}" if touched else "in this organization"
        problem = f"You need the permission {permission} {where}."
        if token is None:
            super().__init__(problem, _REMEDY)
        else:
            super().__init__(
                problem, f"Your roles have it, but the scope of the access token {token!r} lacks it.", _WIDER
            )
        self.organization_id = organization_id
        self.permission = permission
        self.touched = touched
        self.is_complete = token is not None  # whoever else has it, nothing more is to be said

    def complete(self, sentence: str) -> None:
        """Add who has the permission, before what to do; without a sentence, nothing."""
        self.is_complete = True
        problem, *remedies = self.messages
        self.messages = (problem, *([sentence] if sentence else []), *remedies)
        self.args = (" ".join(self.messages),)


class _CachedGrants(NamedTuple):
    stamp: int
    grants: Grants


class KnownRole(NamedTuple):
    """A role of an organization, and what it grants by itself."""

    id: str
    name: str
    grants: Grants


class _CachedRoles(NamedTuple):
    stamp: int | None
    roles: tuple[KnownRole, ...]


class GrantsCache:
    """Answers what users and roles may do in an organization, with a query only when something changed."""

    def __init__(self, capacity: int = GRANTS_CACHED) -> None:
        self._capacity = capacity
        self._cached: OrderedDict[tuple[str, str], _CachedGrants] = OrderedDict()
        self._roles: OrderedDict[str, _CachedRoles] = OrderedDict()
        self._reading = asyncio.Lock()

    async def roles(self, connection: Connection, organization_id: str, stamp: int | None) -> tuple[KnownRole, ...]:
        """Return all roles under the stamp, or under a newer one.

        Their texts may have a megabyte, and many may ask at once: they are read once.
        """
        kept = self._roles.get(organization_id)
        if kept is None or kept.stamp != stamp:
            async with self._reading:
                kept = self._roles.get(organization_id)
                if kept is None or kept.stamp != stamp:
                    rows = await users.list_roles_by_organization(connection, organization_id=organization_id)
                    kept = self._roles[organization_id] = _CachedRoles(stamp, await asyncio.to_thread(_known, rows))
                    self._roles.move_to_end(organization_id)
                    if len(self._roles) > _ORGANIZATIONS_CACHED:
                        self._roles.popitem(last=False)
        return kept.roles

    async def get(self, connection: Connection, user_id: str, organization_id: str, stamp: int) -> Grants:
        """Return the grants that hold under the stamp, or under a newer one when it has been raised meanwhile."""
        key = (user_id, organization_id)
        kept = self._cached.get(key)
        if kept is None or kept.stamp != stamp:
            rows = await users.list_held_roles(connection, user_id=user_id, organization_id=organization_id)
            if not rows:
                return NO_GRANTS  # the organization is being deleted
            # Grants and stamp of one snapshot belong together; the stamp given may be older already.
            is_long = sum(len(row.permissions or "") for row in rows) > _INLINE_CHARS
            grants = await asyncio.to_thread(_grants_of, rows) if is_long else _grants_of(rows)
            kept = self._cached[key] = _CachedGrants(rows[0].access_stamp, grants)
            while len(self._cached) > self._capacity:
                self._cached.popitem(last=False)
        self._cached.move_to_end(key)
        return kept.grants


class Lookups:
    """Makes lookups. `forget` drops what authentication keeps in memory about a user whose credentials changed."""

    def __init__(self, invalidate: Callable[[str], None], grants: GrantsCache | None = None) -> None:
        self._invalidate = invalidate
        self._grants = grants or GrantsCache()
        self._organizations: OrderedDict[str, str] = OrderedDict()

    def bind(self, connection: Connection, actor: Actor) -> "Lookup":
        return Lookup(connection, actor, self._grants, self._invalidate, self._remember)

    def organization_of(self, user_id: str) -> str | None:
        """Return the organization that the user last used through this process."""
        return self._organizations.get(user_id)

    def _remember(self, user_id: str, organization_id: str) -> None:
        self._organizations[user_id] = organization_id
        self._organizations.move_to_end(user_id)
        if len(self._organizations) > GRANTS_CACHED:
            self._organizations.popitem(last=False)


class Lookup:
    """What one caller may get through one connection. `touching` names other resources that the operation touches."""

    def __init__(
        self,
        connection: Connection,
        actor: Actor,
        grants: GrantsCache,
        invalidate: Callable[[str], None],
        remember: Callable[[str, str], None],
    ) -> None:
        self._connection = connection
        self._actor = actor
        self._cache = grants
        self._invalidate = invalidate
        self._remember = remember
        self._caller = {"caller_id": actor.user_id, "refresh_token_id": actor.refresh_token_id}
        self._grants: dict[str, Grants] = {}
        self._stamps: dict[str, int] = {}

    async def caller(self, *, by_token: bool = False) -> User:
        """Return the caller's own account, for operations on no other object.

        Access tokens are for operations on objects, so they don't get it, unless `by_token` says that they may.
        """
        if self._actor.token is not None and not by_token:
            raise NotAllowed(
                "An access token can't show or change its owner's account, or create organizations.",
                "Sign in, or use a refresh token.",
            )
        found, _ = await self._find(lookups.caller, self._actor.user_id)
        return found

    async def require_caller(self) -> None:
        """Raise NotAuthenticated if the caller's credentials don't hold anymore.

        On a page that has looked something up, they do.
        """
        if not any(actor == self._actor for actor, _ in self._connection.known or ()):
            await self.caller(by_token=True)

    async def organization(
        self, organization_id: str, permission: Permission | None = None, *touching: Resource
    ) -> Organization:
        """Return an organization that the caller belongs to.

        With a permission, the caller must hold it for the resources touched; without resources, as `gate.holds` says.
        """
        found, stamp = await self._find(lookups.organization, organization_id)
        grants = await self._grants_in(found.id, stamp)
        if not grants.member:
            raise _foreign()
        if permission is not None and touching:
            self._check(found.id, permission, touching)
        elif permission is not None:
            self._check_held(found.id, permission)
        return found

    async def member_of(self, organization_id: str, permission: Permission | None = None) -> str:
        """Return the ID of an organization that the caller belongs to.

        It is for what needs nothing else of it.

        That is `organization` without a statement of its own where the page has looked something of it up already.
        """
        known = self._connection.known
        held: _CachedGrants | None = None if known is None else known.get((self._actor, _id(organization_id)))
        if held is None or not held.grants.member:
            return (await self.organization(organization_id, permission)).id
        organization_id = canonical_id(organization_id)
        self._stamps[organization_id], self._grants[organization_id] = held
        if permission is not None:
            self._check_held(organization_id, permission)
        return organization_id

    async def application(self, application_id: str, permission: Permission, *touching: Resource) -> Application:
        found, stamp = await self._find(lookups.application, application_id)
        await self._grants_in(found.organization_id, stamp)
        self._check(found.organization_id, permission, (permissions.application(found.id), *touching))
        return found

    async def launch_target(
        self, application_id: str, environment_id: str | None, permission: Permission
    ) -> tuple[Application, Environment | None, LaunchSettings]:
        """Return an application, and an environment of its organization: the default one, if none is named.

        The last value says which settings of the organization the launch must read.

        The permission is for the application alone; `require` decides about the two together.
        """
        target, stamp = await self._find(
            lookups.launch_target,
            application_id,
            environment_id=None if environment_id is None else _id(environment_id),
        )
        await self._grants_in(target.organization_id, stamp)
        self._check(target.organization_id, permission, (permissions.application(target.id),))
        return target.application(), target.environment(), target.settings()

    async def revision(self, revision_id: str, permission: Permission, *touching: Resource) -> Revision:
        """Return a revision; the permission is for its application."""
        found, stamp = await self._find(lookups.revision, revision_id)
        await self._grants_in(found.organization_id, stamp)
        self._check(found.organization_id, permission, (permissions.application(found.application_id), *touching))
        return found

    async def environment(self, environment_id: str, permission: Permission | None, *touching: Resource) -> Environment:
        """Return an environment; without a permission one of an organization that the caller belongs to.

        That is for operations on something else that only touch it, and for which `require` has decided.
        """
        found, stamp = await self._find(lookups.environment, environment_id)
        grants = await self._grants_in(found.organization_id, stamp)
        if permission is not None:
            self._check(found.organization_id, permission, (permissions.environment(found.id), *touching))
        elif not grants.member:
            raise _foreign()
        return found

    async def rule_owner(self, kind: RuleOwner, owner_id: str, *, edits: bool = False) -> Application | Environment:
        """Return the application or environment whose rules the operation reads, or edits."""
        if kind == "application":
            return await self.application(owner_id, Permission.EDIT_APPLICATION if edits else Permission.READ)
        return await self.environment(owner_id, Permission.EDIT_ENVIRONMENT if edits else Permission.READ)

    async def default_environment(self, organization_id: str) -> Environment:
        """Return the default environment of an organization that the caller belongs to."""
        return await self.of_member(lookups.default_environment, organization_id)

    async def service(self, service_id: str, permission: Permission, *touching: Resource) -> Service:
        found, stamp = await self._find(lookups.service, service_id)
        await self._grants_in(found.organization_id, stamp)
        self._check(found.organization_id, permission, (permissions.service(found.id), *touching))
        return found

    async def of_member(self, query: LookupQuery[OwnedT], object_id: str) -> OwnedT:
        """Return what `query` finds, of an organization that the caller belongs to.

        That is for objects that only members know, and whose use is decided by what they act on.
        """
        found, stamp = await self._find(query, object_id)
        if not (await self._grants_in(found.organization_id, stamp)).member:
            raise _foreign()
        return found

    async def of(
        self, query: LookupQuery[OwnedT], object_id: str, permission: Permission, path: Callable[[OwnedT], Resource]
    ) -> OwnedT:
        """Return what `query` finds. The permission is for the resource of `path`."""
        found, stamp = await self._find(query, object_id)
        await self._grants_in(found.organization_id, stamp)
        self._check(found.organization_id, permission, (path(found),))
        return found

    async def role(self, role_id: str, permission: Permission) -> Role:
        found, stamp = await self._find(lookups.role, role_id)
        await self._grants_in(found.organization_id, stamp)
        self._check(found.organization_id, permission, (permissions.role(found.id),))
        return found

    async def member(self, organization_id: str, user_id: str, permission: Permission) -> User:
        """Return a member of the organization. Raises NotFound for other users."""
        found, stamp = await self._find(lookups.member, user_id, organization_id=_id(organization_id))
        await self._grants_in(organization_id, stamp)
        self._check(organization_id, permission, (permissions.user(found.id),))
        return found

    async def instance(
        self, instance_id: str, permission: Permission, *touching: Resource, workflow: str | None = None
    ) -> InstanceRecord:
        """Return an instance; with `workflow` the permission is for that workflow on it.

        An instance touches its environment: `EditInstance: [/applications/*, /environments/<dev>]` reaches what runs
        there, and nothing else.
        """
        found, stamp = await self._find(lookups.instance, instance_id)
        await self._grants_in(found.organization_id, stamp)
        if workflow is None:
            target = permissions.instance(found.application_id, found.id)
        else:
            target = permissions.workflow(found.application_id, found.id, workflow)
        self._check(
            found.organization_id, permission, (target, permissions.environment(found.environment_id), *touching)
        )
        return found

    async def instance_detail(
        self, instance_id: str, permission: Permission, *, jobs: int, steps_bytes: int
    ) -> InstanceDetail:
        """Return an instance with its newest jobs, all of one moment: the hot read is one query.

        There are at most `jobs` of them, and fewer once their steps reach `steps_bytes`, but always the newest.
        """
        found, stamp = await self._find(lookups.instance_detail, instance_id, jobs=jobs, steps_bytes=steps_bytes)
        await self._grants_in(found.organization_id, stamp)
        target = permissions.instance(found.application_id, found.id)
        self._check(found.organization_id, permission, (target, permissions.environment(found.environment_id)))
        return found

    async def lost_right(self, instance_id: str, workflow: str, sufficient: Collection[Permission]) -> str | None:
        """Return why the caller may not run a workflow anymore, or None.

        They asked for it earlier. One of the sufficient permissions is enough.
        """
        try:
            found, stamp = await self._find(lookups.instance, instance_id)
        except NotAuthenticated:
            return "The account of the person who asked for it is disabled or was deleted."
        grants = await self._grants_in(found.organization_id, stamp)
        if not grants.member:
            return "The person who asked for it left the organization."
        targets = {
            Permission.CREATE_INSTANCE: permissions.application(found.application_id),
            Permission.EDIT_INSTANCE: permissions.instance(found.application_id, found.id),
        }
        on_workflow = permissions.workflow(found.application_id, found.id, workflow)
        environment = permissions.environment(found.environment_id)
        if any(gate.decide(grants, each, (targets.get(each, on_workflow), environment)).allowed for each in sufficient):
            return None
        return f"The person who requested it no longer has the permission {' or '.join(sufficient)}."

    def allows(self, organization_id: str, permission: Permission, *touched: Resource) -> bool:
        """Decide about one more thing of an organization that was looked up before, such as each row of a list."""
        return gate.decide(self.grants(organization_id), permission, touched).allowed

    async def permitted(
        self, organization_id: str, permission: Permission, rows: Iterable[Identified], path: Callable[[str], Resource]
    ) -> list[Identified]:
        """Return the rows that `allows` allows, and give way to other requests meanwhile."""
        grants, found = self.grants(organization_id), list[Identified]()
        if gate.holds_everything(grants):
            return list(rows)
        until_s = time.perf_counter() + _SLICE_S
        for row in rows:
            if gate.decide(grants, permission, (path(row.id),)).allowed:
                found.append(row)
            if time.perf_counter() > until_s:
                await asyncio.sleep(0)
                until_s = time.perf_counter() + _SLICE_S
        return found

    def holds(self, organization_id: str, permission: Permission) -> bool:
        """Tell whether the caller holds a permission there, as `organization` asks for it without resources."""
        return gate.holds(self.grants(organization_id), permission)

    def require(self, organization_id: str, permission: Permission, *touched: Resource) -> None:
        """Refuse what `allows` denies: for what turns out later to be touched as well. Raises NotAllowed."""
        self._check(organization_id, permission, touched)

    def has_grants(self, organization_id: str) -> bool:
        """Tell whether something of an organization was looked up, which background work doesn't do."""
        return organization_id in self._grants

    def grants(self, organization_id: str) -> Grants:
        """Return what the caller holds in an organization of which something was looked up before."""
        assert organization_id in self._grants, "look something of the organization up before you ask what is allowed"
        return self._grants[organization_id]

    def stamp(self, organization_id: str) -> int | None:
        """Return the stamp of an organization, as the last lookup found it."""
        return self._stamps.get(organization_id)

    async def roles(self, connection: Connection, organization_id: str) -> tuple[KnownRole, ...]:
        """Return all roles of an organization of which something was looked up before.

        Whether the caller may read them is checked afterwards. The connection may be another one than that of the
        lookup, which may be closed.
        """
        return await self._cache.roles(connection, organization_id, self.stamp(organization_id))

    async def grants_of(self, organization_id: str, user_id: str) -> Grants:
        """Return what a user holds in an organization, as it is now; whether the caller may know is checked before."""
        return await self._cache.get(self._connection, user_id, organization_id, _NO_STAMP)

    async def _find(self, query: LookupQuery[T], object_id: str, **more: str | int | None) -> tuple[T, int]:
        known = self._connection.known
        if known is None:
            return await self._read(query, object_id, more)
        key = self._actor, (query, object_id, *more.values())
        found: tuple[T, int] | None = known.get(key)
        if found is None:
            found = known[key] = await self._read(query, object_id, more)
        return found

    async def _read(self, query: LookupQuery[T], object_id: str, more: Mapping[str, str | int | None]) -> tuple[T, int]:
        # The query runs for an id of another form too: a caller who is no caller any more must hear that first.
        row = await query.find(self._connection, **self._caller, id=_id(object_id), **more)
        row = self._checked(row)
        if row.found is None:
            raise NotFound(f"There is no {query.noun} {object_id[:80]!r}.", f"List the {query.noun}s to find the ID.")
        return row.found, row.organization_stamp

    def _checked(self, row: LookupRow[T] | None) -> LookupRow[T]:
        actor = self._actor
        if row is None or not row.caller_enabled:
            problem = "This account no longer exists." if row is None else "This account is disabled."
        elif actor.stamp is not None and actor.stamp != row.caller_stamp:
            problem = "The password of this account was changed, its sessions ended, or the refresh token was revoked."
        else:
            return row
        if actor.stamp is not None:
            self._invalidate(actor.user_id)
        raise NotAuthenticated(problem, "Sign in again, or ask an administrator.")

    async def _grants_in(self, organization_id: str, stamp: int) -> Grants:
        self._stamps[organization_id] = stamp
        known = self._connection.known
        held: _CachedGrants | None = None if known is None else known.get((self._actor, organization_id))
        if held is not None and held.stamp == stamp:
            self._grants[organization_id] = held.grants
            return held.grants
        grants, token = NO_GRANTS, self._actor.token
        if token is None or token.organization_id == organization_id:
            grants = await self._cache.get(self._connection, self._actor.user_id, organization_id, stamp)
        if token is not None and token.scope is not None:
            grants = replace(grants, scope=RoleGrants(token.name, _entries(token.name, "", token.scope)))
        self._grants[organization_id] = grants
        if known is not None:
            known[self._actor, organization_id] = _CachedGrants(stamp, grants)
        if grants.member:
            self._remember(self._actor.user_id, organization_id)
        return grants

    def _check(self, organization_id: str, permission: Permission, touched: tuple[Resource, ...]) -> None:
        grants = self.grants(organization_id)
        if not gate.decide(grants, permission, touched).allowed:
            if not grants.member:
                raise _foreign()  # a sentence that named the resources would tell ids of another organization
            token = None
            if grants.scope is not None and gate.decide(replace(grants, scope=None), permission, touched).allowed:
                token = grants.scope.role
            raise MissingPermission(organization_id, permission, touched, token=token)

    def _check_held(self, organization_id: str, permission: Permission) -> None:
        grants = self.grants(organization_id)
        if not gate.holds(grants, permission):
            token = None
            if grants.scope is not None and gate.holds(replace(grants, scope=None), permission):
                token = grants.scope.role
            raise MissingPermission(organization_id, permission, token=token)


_NO_STAMP = -1  # of no organization, so grants in memory never pass for these
_REMEDY = "Ask an administrator of the organization for a role that has it."
_WIDER = "Use a token with a wider scope, or sign in."


def _foreign() -> NotAllowed:
    return NotAllowed(
        "This belongs to an organization that you do not belong to.", "Ask one of its administrators to add you."
    )


def _id(text: str) -> str | None:
    """Return the text when it can be an id; nothing else gets to the database."""
    text = canonical_id(text)
    return text if is_id(text) else None


def _grants_of(rows: list[HeldRole]) -> Grants:
    if not rows[0].is_member:
        return NO_GRANTS
    held = tuple(
        RoleGrants(row.name, _entries(row.name, row.kind or "", row.permissions or ""))
        for row in rows
        if row.name is not None
    )
    return Grants(held)


def _known(rows: list[Role]) -> tuple[KnownRole, ...]:
    return tuple(
        KnownRole(row.id, row.name, Grants((RoleGrants(row.name, _entries(row.name, row.kind, row.permissions)),)))
        for row in rows
    )


def _entries(name: str, kind: str, text: str) -> tuple[RoleEntry, ...]:
    if kind == RoleKind.ADMINISTRATOR:
        return ALL_GRANTS
    try:
        return _read(text)
    except BadRequest as error:
        # Stored texts were checked when they came. Should one not be readable any more, it allows nothing.
        _log.error("role.unreadable", role=name, problem=str(error))
        return ()


# Many users hold the same few roles.
_read = lru_cache(maxsize=256)(read_role_text)
