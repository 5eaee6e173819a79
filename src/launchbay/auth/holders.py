"""The roles that allow something, and the people who hold them."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from launchbay.auth import gate, permissions
from launchbay.auth.lookup import KnownRole, Lookup
from launchbay.auth.permissions import Permission, Resource
from launchbay.store import users
from launchbay.store.database import Connection

Touched = tuple[Resource, ...]
_NAMED = 5  # people; of more, their roles are named
_ROLES_NAMED = 10


class Holders(NamedTuple):
    """The names of the roles that allow something, and of those who hold them.

    `people` is empty if there are many, or some whom the caller may not read. `roles` are those that the caller may
    read; `has_more` says that there are others. `has_people` and `has_services` say whether people and service
    accounts that may sign in hold one of them.
    """

    people: tuple[str, ...]
    roles: tuple[str, ...]
    has_more: bool = False
    has_people: bool = False
    has_services: bool = False

    def __str__(self) -> str:
        if self.people:
            return ", ".join(self.people)
        noun = "the role" if len(self.roles) == 1 and not self.has_more else "the roles"
        roles = f"{noun} {', '.join(self.roles)}{' and others' if self.has_more else ''}" if self.roles else ""
        if self.has_people:
            return f"people with {roles}" if roles else "people whose roles you may not see"
        if self.has_services:
            return f"service accounts only, with {roles}" if roles else "service accounts only"
        if roles or self.has_more:
            return f"nobody: no enabled account has {roles or 'a role that allows it'}"
        return "nobody: no role allows it"

    def sentence(self, permission: str) -> str:
        """Return who holds the permission there, for a refusal."""
        return f"{permission} is held there by {self}."


async def find_holders(
    connection: Connection, lookup: Lookup, organization_id: str, permission: Permission, wanted: Sequence[Touched]
) -> Holders:
    """Return who holds a permission for all that is wanted, by one role.

    Nobody and nothing is named that the caller may not read. Each item is what one operation touches; without items,
    it is held for anything. The organization was looked up before.
    """
    roles = await lookup.roles(connection, organization_id)
    found = await asyncio.to_thread(_allowing, roles, permission, wanted)
    if not found:
        return Holders((), ())
    holders = await users.list_able_holders(
        connection, organization_id=organization_id, role_ids=[role.id for role in found], count=_NAMED + 1
    )
    people = [each for each in holders if not each.is_service]
    is_shown = len(people) <= _NAMED and all(
        lookup.allows(organization_id, Permission.READ, permissions.user(each.id)) for each in people
    )
    names = [role.name for role in found if lookup.allows(organization_id, Permission.READ, permissions.role(role.id))][
        :_ROLES_NAMED
    ]
    return Holders(
        tuple(each.name for each in people) if is_shown else (),
        tuple(names),
        has_more=len(names) < len(found),
        has_people=bool(people),
        has_services=len(holders) > len(people),
    )


def _allowing(roles: Sequence[KnownRole], permission: Permission, wanted: Sequence[Touched]) -> list[KnownRole]:
    """Return the roles that allow it by themselves."""
    if not wanted:
        return [role for role in roles if gate.holds(role.grants, permission)]
    return [role for role in roles if all(gate.decide(role.grants, permission, each).allowed for each in wanted)]
