"""User accounts with their sessions, tokens, identities and invitations, and the roles of an organization."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.statements import Change, Column, Statements, Value, load

_sql = load("users")


class RoleKind(StrEnum):
    """Where a role comes from."""

    ADMINISTRATOR = "administrator"  # created with the organization; grants everything, immutable
    GUEST = "guest"  # created with the organization; grants reading
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Role:
    """One role. `permissions` is the text as its author wrote it."""

    id: str
    organization_id: str
    name: str
    permissions: str
    kind: RoleKind
    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", RoleKind(self.kind))  # rows have the plain string

    @property
    def can_edit(self) -> bool:
        """Whether users who can manage roles can modify this one, or delete it."""
        return self.kind is not RoleKind.ADMINISTRATOR

    can_delete = can_edit


def leaves_no_administrator(administrators: Collection[str], user_id: str) -> bool:
    """Return whether the user is the only one of these administrators (IDs of enabled users).

    The last administrator can't lose the role, leave the organization or be disabled. Read the collection and write the
    change in one transaction with the organization's row locked. Otherwise two administrators could remove each other.
    """
    return user_id in administrators and len(set(administrators)) == 1


@dataclass(frozen=True, slots=True)
class User:
    """A user account."""

    id: str
    email: str
    name: str
    enabled: bool
    created_at: datetime


class CredentialsRow(NamedTuple):
    """What Launchbay verifies a sign-in against."""

    id: str
    email: str
    name: str
    password_hash: str | None
    enabled: bool
    access_stamp: int
    is_expired: bool
    second_factor: str


class OrganizationUserRow(NamedTuple):
    """A member of an organization in a list, with the names of their roles."""

    id: str
    name: str
    email: str
    roles: list[str]


class AccountRow(NamedTuple):
    """A member in full.

    `is_invited`: the account has no password yet. `roles` are those held here.
    """

    id: str
    name: str
    email: str
    enabled: bool
    is_invited: bool
    created_at: datetime
    roles: list[str]


class SignInState(NamedTuple):
    """How a member signs in, and when any credential was last used."""

    id: str
    enabled: bool
    has_password: bool
    has_identity: bool
    factors: list[str]
    last_seen_at: datetime | None
    tokens: int


class WeakMembers(NamedTuple):
    """How many members sign in with a password alone.

    Without an ID, it is about all of them.
    """

    id: str | None
    people: int


list_page = _sql.rows("list_page", OrganizationUserRow)
count_weak_members = _sql.rows("count_weak_members", WeakMembers)
list_user_names = _sql.rows("list_user_names", NamedRow)
list_users_by_id = _sql.rows("list_users_by_id", NamedRow)
list_member_names = _sql.rows("list_member_names", NamedRow)
list_people_of_instance = _sql.rows("list_people_of_instance", NamedRow)
list_sign_in_states = _sql.rows("list_sign_in_states", SignInState)
get_credentials = _sql.row("get_credentials", CredentialsRow)
get = _sql.row("get", User)
get_mailbox = _sql.value("get_mailbox", str)
insert = _sql.change("insert")
set_password = _sql.change("set_password")
mark_password_given = _sql.change("mark_password_given")
is_password_given = _sql.value("is_password_given", bool)
end_inherited_password = _sql.change("end_inherited_password")
renew_hash = _sql.change("renew_hash")
set_enabled = _sql.change("set_enabled")
join_organization = _sql.change("join_organization")
leave_organization = _sql.change("leave_organization")
list_by_organization = _sql.rows("list_by_organization", OrganizationUserRow)
get_in_organization = _sql.row("get_in_organization", AccountRow)
get_by_email = _sql.row("get_by_email", User)
list_organization_ids = _sql.value("list_organization_ids", list)
get_home = _sql.value("get_home", str)
lock = _sql.value("lock", str)
delete = _sql.change("delete")


class PendingMemberRow(NamedTuple):
    """Somebody who is invited, with the organization's name for them and the roles offered."""

    id: str
    name: str
    email: str
    roles: list[str]
    created_at: datetime
    expires_at: datetime


class PendingMembershipRow(NamedTuple):
    """An organization that invites, and the roles that it offers."""

    id: str
    organization_id: str
    organization: str
    roles: list[str]
    created_at: datetime
    expires_at: datetime


put_pending_membership = _sql.value("put_pending_membership", datetime)
list_pending_members = _sql.rows("list_pending_members", PendingMemberRow)
get_pending_member = _sql.row("get_pending_member", PendingMemberRow)
list_pending_memberships = _sql.rows("list_pending_memberships", PendingMembershipRow)
get_pending_membership = _sql.row("get_pending_membership", PendingMembershipRow)
accept_pending_membership = _sql.change("accept_pending_membership")
offer_roles = _sql.change("offer_roles")
withdraw_roles = _sql.change("withdraw_roles")
withdraw_pending_membership = _sql.change("withdraw_pending_membership")
decline_pending_membership = _sql.value("decline_pending_membership", str)


class ConsoleSessionRow(NamedTuple):
    """A console session. `is_this` marks the session of the request."""

    id: str
    address: str
    created_at: datetime
    expires_at: datetime
    is_this: bool


insert_session = _sql.change("insert_session")
get_by_session = _sql.row("get_by_session", User)
list_sessions_by_user = _sql.rows("list_sessions_by_user", ConsoleSessionRow)
delete_session_by_token = _sql.change("delete_session_by_token")
delete_session = _sql.change("delete_session")
end_provider_sessions = _sql.rows("end_provider_sessions", User)
end_credentials = _sql.change("end_credentials")
delete_expired_sessions = _sql.change("delete_expired_sessions")


get_by_identity = _sql.row("get_by_identity", User)
has_identity = _sql.value("has_identity", bool)
insert_identity = _sql.value("insert_identity", str)
list_role_ids_by_name = _sql.column("list_role_ids_by_name", str)

insert_invitation = _sql.value("insert_invitation", datetime)
get_invitation = _sql.row("get_invitation", User)
redeem_invitation = _sql.row("redeem_invitation", User)


class GenerationState(NamedTuple):
    """The user's refresh tokens.

    How many are valid, how many were generated recently, and for how many seconds generation is blocked.
    """

    valid: int
    recent: int
    blocked_s: int


class RefreshTokenRow(NamedTuple):
    """A refresh token without its secret."""

    id: str
    label: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class RedeemedTokenRow(NamedTuple):
    """The user of a refresh token, and what ends its session tokens."""

    id: str
    email: str
    name: str
    access_stamp: int
    refresh_token_id: str


lock_user = _sql.value("lock_user", str)
get_generation_state = _sql.row("get_generation_state", GenerationState)
block_generation = _sql.change("block_generation")
insert_refresh_token = _sql.row("insert_refresh_token", RefreshTokenRow)
list_refresh_tokens_by_user = _sql.rows("list_refresh_tokens_by_user", RefreshTokenRow)
revoke_refresh_token = _sql.change("revoke_refresh_token")
redeem_refresh_token = _sql.row("redeem_refresh_token", RedeemedTokenRow)
delete_expired_refresh_tokens = _sql.change("delete_expired_refresh_tokens")


class HeldRole(NamedTuple):
    """A role that a user holds in an organization.

    A user without roles has one row without a name.
    """

    access_stamp: int
    is_member: bool
    name: str | None
    kind: str | None
    permissions: str | None


class RoleHolder(NamedTuple):
    """A member who holds a role, and the IDs of the other roles held."""

    id: str
    name: str
    is_service_account: bool
    other_role_ids: list[str]


class FirstHolder(NamedTuple):
    """A member who holds a role, and how many hold it."""

    id: str
    name: str
    is_service_account: bool
    holders: int


class AbleHolder(NamedTuple):
    """A person or service account that holds a role and may sign in."""

    id: str
    name: str
    is_service: bool


class HolderCounts(NamedTuple):
    """How many hold a role."""

    id: str
    people: int
    service_accounts: int


list_role_holders = _sql.rows("list_role_holders", RoleHolder)
list_first_holders = _sql.rows("list_first_holders", FirstHolder)
list_able_holders = _sql.rows("list_able_holders", AbleHolder)
count_role_holders = _sql.rows("count_role_holders", HolderCounts)
list_held_roles = _sql.rows("list_held_roles", HeldRole)
list_administrators = _sql.column("list_administrators", str)
list_roles_by_organization = _sql.rows("list_roles_by_organization", Role)
insert_role = _sql.change("insert_role")
update_role = _sql.change("update_role")
sum_role_bytes = _sql.value("sum_role_bytes", int)
set_role_kind = _sql.change("set_role_kind")
delete_role = _sql.change("delete_role")
assign_role = _sql.change("assign_role")


class GroupRoles(NamedTuple):
    """A group of the identity provider, and the names of its roles."""

    group: str
    roles: list[str]


class RoleOfGroups(NamedTuple):
    """A role that a member has from groups, or is to have."""

    id: str
    organization_id: str
    name: str
    kind: str
    is_wanted: bool
    is_held: bool


list_group_roles = _sql.rows("list_group_roles", GroupRoles)
delete_group_roles = _sql.change("delete_group_roles")
insert_group_roles = _sql.change("insert_group_roles")
list_roles_of_groups = _sql.rows("list_roles_of_groups", RoleOfGroups)
assign_role_from_groups = _sql.change("assign_role_from_groups")
revoke_role = _sql.change("revoke_role")


@dataclass(frozen=True, slots=True)
class Traces:
    """Where the address of a removed person may still be, with the statements that count and erase it.

    `count` and `ids` read whole tables. `erase` changes at most `count` rows. `ids` gives the accounts that had the
    address.
    """

    kind: str
    count: Value[int]
    erase: Change
    ids: Column[str] | None = None


def traces_in(sql: Statements, kind: str, table: str, ids: Column[str] | None = None) -> Traces:
    """Return the traces in a table, with the statements of `sql` that are named after it."""
    return Traces(kind, sql.value(f"count_in_{table}", int), sql.change(f"erase_in_{table}"), ids)


allow_long_statements = _sql.value("allow_long_statements", str)
list_ids_of_address = _sql.column("list_ids_of_address", str)
count_in_entries = _sql.value("count_in_entries", int)
end_of_entries = _sql.value("end_of_entries", int)
erase_entries = _sql.column("erase_entries", str)
# Features add theirs. Instances come before their history, which keeps what a change replaces.
traces = (
    traces_in(_sql, "answers to approvals", "approval_answers"),
    traces_in(_sql, "jobs", "jobs"),
    traces_in(_sql, "steps", "steps"),
    traces_in(_sql, "instances", "instances"),
)
