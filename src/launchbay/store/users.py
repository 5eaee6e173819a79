"""User accounts and their memberships."""

from datetime import datetime
from typing import NamedTuple

from launchbay.model.user import User
from launchbay.store.statements import load


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
