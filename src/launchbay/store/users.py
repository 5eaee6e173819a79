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


class OrganizationUserRow(NamedTuple):
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
get_credentials = _sql.row("credentials", CredentialsRow)
get = _sql.row("by_id", User)
insert = _sql.change("insert")
set_password = _sql.change("set_password")
renew_hash = _sql.change("renew_hash")
set_enabled = _sql.change("set_enabled")
join_organization = _sql.change("join_organization")
leave_organization = _sql.change("leave_organization")
list_by_organization = _sql.rows("of_organization", OrganizationUserRow)
get_in_organization = _sql.row("member", AccountRow)
get_by_email = _sql.row("by_email", User)
list_organization_ids = _sql.value("organizations", list)
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
insert_session = _console_sessions_sql.change("insert")
get_by_session = _console_sessions_sql.row("user_of", User)
list_sessions_by_user = _console_sessions_sql.rows("of_user", ConsoleSessionRow)
delete_session_by_token = _console_sessions_sql.change("end_by_token")
delete_session = _console_sessions_sql.change("end_by_id")
delete_sessions_by_user = _console_sessions_sql.change("end_all")
delete_expired_sessions = _console_sessions_sql.change("forget_ended")


class RoleIdRow(NamedTuple):
    """A role."""

    id: str


_identities_sql = load("identities")
get_by_identity = _identities_sql.row("find", User)
insert_identity = _identities_sql.value("link", str)
get_organization_by_name = _identities_sql.value("organization_named", str)
list_roles_by_name = _identities_sql.rows("roles_named", RoleIdRow)

_invitations_sql = load("invitations")
insert_invitation = _invitations_sql.value("insert", datetime)
get_invitation = _invitations_sql.row("find", User)
redeem_invitation = _invitations_sql.row("use", User)


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
get_generation_state = _refresh_tokens_sql.row("generation_state", GenerationState)
block_generation = _refresh_tokens_sql.change("block")
insert_refresh_token = _refresh_tokens_sql.row("insert", RefreshTokenRow)
list_refresh_tokens_by_user = _refresh_tokens_sql.rows("of_user", RefreshTokenRow)
revoke_refresh_token = _refresh_tokens_sql.change("revoke")
redeem_refresh_token = _refresh_tokens_sql.row("redeem", User)
delete_expired_refresh_tokens = _refresh_tokens_sql.change("forget_expired")


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
list_held_roles = _roles_sql.rows("held", HeldRole)
lock_organization = _roles_sql.value("lock_organization", str)
list_administrators = _roles_sql.rows("administrators", Administrator)
list_roles_by_organization = _roles_sql.rows("of_organization", Role)
insert_role = _roles_sql.change("insert")
update_role = _roles_sql.change("update")
set_role_kind = _roles_sql.change("set_kind")
delete_role = _roles_sql.change("delete")
assign_role = _roles_sql.change("assign")
revoke_role = _roles_sql.change("revoke")
