"""A role of an organization (reference §2; api-decisions, "Organizations, roles, permissions")."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RoleKind(StrEnum):
    """Where a role comes from."""

    ADMINISTRATOR = "administrator"  # with the organization; allows everything, and stays as it is
    GUEST = "guest"  # with the organization; reads
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Role:
    """One role; `permissions` is the text as its author wrote it."""

    id: str
    organization_id: str
    name: str
    permissions: str
    kind: RoleKind
    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", RoleKind(self.kind))  # rows bring the plain text

    @property
    def can_edit(self) -> bool:
        """Whether the role may be modified by those who may manage roles."""
        return self.kind is not RoleKind.ADMINISTRATOR

    @property
    def can_delete(self) -> bool:
        """Whether the role may be deleted by those who may manage roles."""
        return self.kind is not RoleKind.ADMINISTRATOR


def leaves_no_administrator(administrators: Collection[str], user_id: str) -> bool:
    """Tell whether an organization with these administrators (ids of enabled users) would have none without the user.

    The last administrator can neither lose the role, nor leave the organization, nor be disabled. Read the collection
    and write the change in one transaction that holds the organization's row locked: two administrators who remove
    each other at the same moment would both be right otherwise.
    """
    return user_id in administrators and len(set(administrators)) == 1
