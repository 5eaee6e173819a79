"""Why something is allowed or not (conformance.md, "Beyond the reference", `permissions/explain`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from launchbay.auth import gate, permissions
from launchbay.auth.holders import find_holders
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Permission, Resource, parse_resource, permission_named
from launchbay.errors import BadRequest, NotFound
from launchbay.ids import is_id
from launchbay.store import lookups as store
from launchbay.store import organizations
from launchbay.store.users import Role
from launchbay.usecases.context import Context, Work


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision with the role, entry and pattern that allowed it.

    `rules` are those that are asked about a change there, whoever makes it. `held_by` are who may do it.
    """

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None
    rules: tuple[str, ...] = ()
    held_by: str | None = None


async def explain(
    ctx: Context,
    *,
    user_id: str | None,
    permission_name: str,
    path: str,
    touching: str | None,
    organization_id: str | None,
) -> Explanation:
    """Decide as the gate does, and say why.

    Without a user it is about the caller, whom everybody may ask about.

    To ask about somebody else takes the permission to manage their roles. An operation on an instance touches its
    environment as well; what else it touches, such as the environment of a launch, is `touching`. Users belong to
    several organizations, so a path of a user may need `organization_id`.
    Raises BadRequest, NotFound for objects and users that are not there, NotAllowed.
    """
    permission = permission_named(permission_name)
    if permission is None:
        known = ", ".join(Permission)
        raise BadRequest(f"permission: {permission_name[:80]!r} is not a permission. Permissions: {known}.")
    touched = (parse_resource(path), *(() if touching is None else (parse_resource(touching),)))
    async with ctx.read() as work:
        caller = await work.lookup.caller(by_token=True)
        user_id = user_id or caller.id
        where = await _organization(work, touched[0], user_id, caller.id, organization_id)
        await work.lookup.organization(where)
        user = caller if user_id == caller.id else await work.lookup.member(where, user_id, Permission.MANAGE_ROLES)
        for resource in touched[1:]:
            if resource.kind != "users" and await _organization_of(work, resource) != where:
                raise BadRequest("touching: the two objects belong to different organizations.")
        touched += await _environment_of(work, touched[0])
        # The caller's own are limited by the scope of the access token.
        is_caller = user.id == caller.id
        grants = work.lookup.grants(where) if is_caller else await work.lookup.grants_of(where, user.id)
        rules = await _rules(work, where, permission, touched)
        holders = await find_holders(work.connection, work.lookup, where, permission, (touched,))
    if not user.enabled:
        return Explanation(allowed=False, reason="The account is disabled.", role=None, entry=None, pattern=None)
    decision, reason = gate.explain(grants, permission, touched)
    return Explanation(
        allowed=decision.allowed,
        reason=reason,
        role=decision.role,
        entry=None if decision.entry is None else str(decision.entry),
        pattern=None if decision.pattern is None else decision.pattern.text,
        rules=rules,
        held_by=str(holders),
    )


# What no rule about changes is asked about.
_UNRULED = frozenset(
    {Permission.READ, Permission.VIEW_AUDIT, Permission.REVEAL_SECRETS, Permission.EDIT_RULES}
    | {Permission.MANAGE_ROLES, Permission.MANAGE_USERS, Permission.PROVISION_USERS}
)


async def _rules(
    work: Work, organization_id: str, permission: Permission, touched: Sequence[Resource]
) -> tuple[str, ...]:
    """Return the rules that are asked about what the permission allows on these resources."""
    ids = {each.kind: each.segments[1] for each in touched}
    application_id, environment_id = ids.get("applications"), ids.get("environments")
    if permission in _UNRULED or (application_id is None and environment_id is None):
        return ()
    return tuple(await work.app.ports.rules_at(work, organization_id, application_id, environment_id))


async def _organization(work: Work, resource: Resource, user_id: str, caller_id: str, given: str | None) -> str:
    """Return the organization in which the decision is made: that of the object."""
    if resource.kind != "users":
        found = await _organization_of(work, resource)
        if given is not None and given != found:
            raise BadRequest(f"organization: {resource} belongs to another one; leave it out.")
        return found
    if given is not None:
        return given
    people = sorted({resource.segments[1], user_id, caller_id})
    shared = await store.shared_organizations(work.connection, user_ids=people) or []
    if not shared:
        raise NotFound(f"User {resource.segments[1][:80]!r} not found in your organizations.")
    if len(shared) > 1:
        raise BadRequest(f"organization: users belong to several; give one of {', '.join(shared)}.")
    return str(shared[0])


async def _organization_of(work: Work, resource: Resource) -> str:
    object_id = resource.segments[1]
    found = await store.organization_of[resource.kind](work.connection, id=object_id) if is_id(object_id) else None
    if found is None:
        raise NotFound(f"There is nothing at {str(resource)[:200]!r}.", "List the objects to find the ID.")
    return found


async def _environment_of(work: Work, resource: Resource) -> tuple[Resource, ...]:
    if len(resource.segments) < 4:
        return ()
    application_id, instance_id = resource.segments[1], resource.segments[3]
    found = None
    if is_id(instance_id):
        found = await store.instance_environment(work.connection, id=instance_id, application_id=application_id)
    if found is None:
        raise NotFound(f"There is no instance {instance_id[:80]!r} of the application.")
    return (permissions.environment(found),)


@dataclass(frozen=True, slots=True)
class Permitted:
    """The gate's answers for one caller, with the grants at creation."""

    lookup: Lookup
    organization_id: str

    def allows(self, permission: Permission, *touched: Resource) -> bool:
        """Decide as an operation on these resources does; the first one is its object."""
        return self.lookup.allows(self.organization_id, permission, *touched)

    def holds_role(self, name: str) -> bool:
        return any(held.role == name for held in self.lookup.grants(self.organization_id).roles)

    def has_all_of(self, role: Role) -> bool:
        """Tell whether the caller may do all that a role allows."""
        grants = self.lookup.grants(self.organization_id)
        if gate.holds_everything(grants):  # reading the texts of all roles takes long
            return True
        return not gate.beyond(grants, gate.entries_of_role(role.kind, role.permissions))

    def holds(self, permission: Permission) -> bool:
        """Tell whether the permission is held for anything at all."""
        return self.lookup.holds(self.organization_id, permission)


# What people do with instances, and of which permission they need.
IN_ENVIRONMENTS = {
    "See": Permission.READ,
    "Launch": Permission.CREATE_INSTANCE,
    "Run workflows": Permission.RUN_INSTANCE_WORKFLOW,
    "Schedule workflows": Permission.SCHEDULE_INSTANCE_WORKFLOW,
    "Approve": Permission.APPROVE_INSTANCE_WORKFLOW,
    "Change and destroy": Permission.EDIT_INSTANCE,
    "Delete": Permission.DELETE_INSTANCE,
    "Reveal secrets": Permission.REVEAL_SECRETS,
}


async def permitted_in_environments(
    ctx: Context, organization_id: str, user_id: str, environment_ids: Sequence[str]
) -> dict[str, list[str]]:
    """Return by act whether a user may do it with instances of each environment.

    The answers are `all`, `some` and `none`, in the order of the environments.

    To ask about somebody else takes the permission to manage their roles. Raises NotAllowed.
    """
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
        if user_id != ctx.actor.user_id:
            await work.lookup.member(organization_id, user_id, Permission.MANAGE_ROLES)
        grants = await work.lookup.grants_of(organization_id, user_id)
    anything = permissions.instance(permissions.EVERY, permissions.EVERY)

    def extent(permission: Permission, environment_id: str) -> str:
        environment = permissions.environment(environment_id)
        target = permissions.application(permissions.EVERY) if permission is Permission.CREATE_INSTANCE else anything
        if gate.decide(grants, permission, (target, environment)).allowed:
            return "all"
        narrow = any(
            entry.patterns
            and (
                not any(pattern.concerns("environments") for pattern in entry.patterns)
                or any(pattern.covers(environment) for pattern in entry.patterns)
            )
            and any(pattern.concerns("applications") for pattern in entry.patterns)
            for _, entry in grants.entries_for(permission)
        )
        return "some" if narrow else "none"

    return {act: [extent(each, place) for place in environment_ids] for act, each in IN_ENVIRONMENTS.items()}


async def permitted(ctx: Context, organization_id: str) -> Permitted:
    """Return what the caller may do in an organization.

    Raises NotAllowed for one that they do not belong to.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
    return Permitted(work.lookup, organization_id)


async def permitted_anywhere(work: Work) -> list[Permitted]:
    """Return what the caller may do in each of their organizations."""
    caller = await work.lookup.caller()
    rows = await organizations.list_by_user(work.connection, user_id=caller.id)
    for row in rows:
        await work.lookup.organization(row.id)
    return [Permitted(work.lookup, row.id) for row in rows]


def reads_every_instance(found: Permitted) -> bool:
    """Tell whether the caller may read whatever is launched, which webhooks report on."""
    return found.allows(
        Permission.READ,
        permissions.instance(permissions.EVERY, permissions.EVERY),
        permissions.environment(permissions.EVERY),
    )


def manages_every_user(found: Permitted) -> bool:
    """Tell whether the caller may manage all users: what takes this is about a whole organization."""
    return found.allows(Permission.MANAGE_USERS, permissions.user(permissions.EVERY))
