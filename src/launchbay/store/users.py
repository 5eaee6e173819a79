"""User accounts and their memberships."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from launchbay.store.statements import load


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


@dataclass(frozen=True, slots=True)
class User:
    """One user account."""

    id: str
    email: str
    name: str
    enabled: bool
    created_at: datetime


class CredentialsRow(NamedTuple):
    """What a sign-in is verified against."""

    id: str
    email: str
    name: str
    password_hash: str | None
    enabled: bool
    access_stamp: int


class MemberRow(NamedTuple):
    """A member of an organization, with the names of the roles held there."""

    id: str
    name: str
    email: str
    roles: list[str]


class AccountRow(NamedTuple):
    """A member in full: the account, whether it still waits for its first password, and the roles held here."""

    id: str
    name: str
    email: str
    enabled: bool
    is_invited: bool
    created_at: datetime
    roles: list[str]


_sql = load("users")
credentials = _sql.row("credentials", CredentialsRow)
by_id = _sql.row("by_id", User)
insert = _sql.change("insert")
set_password = _sql.change("set_password")
renew_hash = _sql.change("renew_hash")
set_enabled = _sql.change("set_enabled")
join_organization = _sql.change("join_organization")
leave_organization = _sql.change("leave_organization")
of_organization = _sql.rows("of_organization", MemberRow)
member = _sql.row("member", AccountRow)
by_email = _sql.row("by_email", User)
organizations = _sql.value("organizations", list)
lock = _sql.value("lock", str)
delete = _sql.change("delete")


class ConsoleSessionRow(NamedTuple):
    """What can be shown of a session; `is_this` marks the one that asks."""

    id: str
    address: str
    created_at: datetime
    expires_at: datetime
    is_this: bool


_console_sessions_sql = load("console_sessions")
console_sessions_insert = _console_sessions_sql.change("insert")
user_of = _console_sessions_sql.row("user_of", User)
of_user = _console_sessions_sql.rows("of_user", ConsoleSessionRow)
end_by_token = _console_sessions_sql.change("end_by_token")
end_by_id = _console_sessions_sql.change("end_by_id")
end_all = _console_sessions_sql.change("end_all")
forget_ended = _console_sessions_sql.change("forget_ended")


class RoleIdRow(NamedTuple):
    """A role."""

    id: str


_identities_sql = load("identities")
find = _identities_sql.row("find", User)
link = _identities_sql.value("link", str)
organization_named = _identities_sql.value("organization_named", str)
roles_named = _identities_sql.rows("roles_named", RoleIdRow)

_invitations_sql = load("invitations")
invitations_insert = _invitations_sql.value("insert", datetime)
invitations_find = _invitations_sql.row("find", User)
use = _invitations_sql.row("use", User)


class GenerationState(NamedTuple):
    """How many tokens were generated of late, and for how many more seconds no other may be."""

    recent: int
    blocked_s: int


class RefreshTokenRow(NamedTuple):
    """What can be shown of a token."""

    id: str
    label: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


_refresh_tokens_sql = load("refresh_tokens")
lock_user = _refresh_tokens_sql.value("lock_user", str)
generation_state = _refresh_tokens_sql.row("generation_state", GenerationState)
block = _refresh_tokens_sql.change("block")
refresh_tokens_insert = _refresh_tokens_sql.row("insert", RefreshTokenRow)
refresh_tokens_of_user = _refresh_tokens_sql.rows("of_user", RefreshTokenRow)
revoke = _refresh_tokens_sql.change("revoke")
redeem = _refresh_tokens_sql.row("redeem", User)
forget_expired = _refresh_tokens_sql.change("forget_expired")


class HeldRole(NamedTuple):
    """A role that is assigned to a user in an organization; without any there is one row with no name."""

    access_stamp: int
    is_member: bool
    name: str | None
    kind: str | None
    permissions: str | None


class Administrator(NamedTuple):
    """Who holds the role that allows everything."""

    user_id: str


_roles_sql = load("roles")
held = _roles_sql.rows("held", HeldRole)
lock_organization = _roles_sql.value("lock_organization", str)
administrators = _roles_sql.rows("administrators", Administrator)
roles_of_organization = _roles_sql.rows("of_organization", Role)
roles_insert = _roles_sql.change("insert")
update = _roles_sql.change("update")
set_kind = _roles_sql.change("set_kind")
roles_delete = _roles_sql.change("delete")
assign = _roles_sql.change("assign")
roles_revoke = _roles_sql.change("revoke")
