"""The roles that allow something, and the people who hold them."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from launchbay.auth import gate, permissions
from launchbay.auth.gate import Grants, RoleGrants
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Permission, Resource
from launchbay.errors import BadRequest
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.store.users import Role

Touched = tuple[Resource, ...]
_NAMED = 5  # people; of more, their roles are named
_ROLES_NAMED = 10


class Holders(NamedTuple):
    """The names of the roles that allow something, and of those who hold them.

    `people` is empty if there are many, or some whom the caller may not read. `has_more` says that not all roles are
    named.
    """

    people: tuple[str, ...]
    roles: tuple[str, ...]
    has_more: bool = False

    def __str__(self) -> str:
        if self.people:
            return ", ".join(self.people)
        if not self.roles:
            return "nobody"
        noun = "the role" if len(self.roles) == 1 else "the roles"
        return f"people with {noun} {', '.join(self.roles)}{' and others' if self.has_more else ''}"


async def find_holders(
    connection: Connection, lookup: Lookup, organization_id: str, permission: Permission, wanted: Sequence[Touched]
) -> Holders:
    """Return who holds a permission for all that is wanted, by one role.

    Each item is what one operation touches; without items, it is held for anything. The organization was looked up
    before.
    """
    rows = await users.list_roles_by_organization(connection, organization_id=organization_id)
    found = await asyncio.to_thread(_allowing, rows, permission, wanted)
    holders = await users.list_able_holders(
        connection, organization_id=organization_id, role_ids=[role.id for role in found], count=_NAMED + 1
    )
    is_shown = len(holders) <= _NAMED and all(
        lookup.allows(organization_id, Permission.READ, permissions.user(each.id)) for each in holders
    )
    names = tuple(role.name for role in found)
    people = tuple(each.name for each in holders) if is_shown else ()
    return Holders(people, names[:_ROLES_NAMED], len(names) > _ROLES_NAMED)


def _allowing(rows: Sequence[Role], permission: Permission, wanted: Sequence[Touched]) -> list[Role]:
    """Return the roles that allow it by themselves."""
    found = []
    for role in rows:
        try:
            grants = Grants((RoleGrants(role.name, gate.entries_of_role(role.kind, role.permissions)),))
        except BadRequest:  # a text of an older version that allows nothing anymore
            continue
        is_for_all = all(gate.decide(grants, permission, each).allowed for each in wanted)
        if is_for_all if wanted else gate.holds(grants, permission):
            found.append(role)
    return found
