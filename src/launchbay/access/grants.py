"""What a user may do in one organization: the entries of all roles held there, parsed."""

from dataclasses import dataclass
from functools import cached_property

from launchbay.access.patterns import Pattern
from launchbay.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a role: a permission, and the patterns of what it holds for."""

    permission: Permission
    patterns: tuple[Pattern, ...]

    def __str__(self) -> str:
        return f"{self.permission}: [{', '.join(pattern.text for pattern in self.patterns)}]"


@dataclass(frozen=True, slots=True)
class RoleGrants:
    """The entries of one role, under the role's name."""

    role: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Grants:
    """The union over all roles; without roles, nothing is allowed."""

    roles: tuple[RoleGrants, ...]
    member: bool = True  # of the organization; without membership there are no roles either

    def entries_for(self, permission: Permission) -> tuple[tuple[str, Entry], ...]:
        """Return the entries that name the permission, each with its role's name, in the order of the roles."""
        return self._by_permission.get(permission, ())

    @cached_property
    def _by_permission(self) -> dict[Permission, tuple[tuple[str, Entry], ...]]:
        found: dict[Permission, list[tuple[str, Entry]]] = {}
        for role in self.roles:
            for entry in role.entries:
                found.setdefault(entry.permission, []).append((role.role, entry))
        return {permission: tuple(entries) for permission, entries in found.items()}


NOTHING = Grants((), member=False)

_EVERYWHERE = (Pattern("/*"),)

# Of the role of kind 'administrator': by the code, not by a stored text, so that a permission added later is included.
EVERYTHING = tuple(Entry(permission, _EVERYWHERE) for permission in Permission)

# The texts that the two built-in roles are created with and show.
ADMINISTRATOR_TEXT = "".join(f"- {permission}: [/*]\n" for permission in Permission)
GUEST_TEXT = "- Read: [/*]\n"
