"""Access tokens, and the service accounts that own some of them."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("access_tokens")


class InsertedRow(NamedTuple):
    """When a new token begins and ends."""

    created_at: datetime
    expires_at: datetime


class TokenRow(NamedTuple):
    """A token that somebody sent, and its owner."""

    id: str
    organization_id: str
    name: str
    scope: str | None
    user_id: str
    email: str
    user_name: str
    is_use_due: bool


class ActingTokenRow(NamedTuple):
    """A token with which somebody began what acts later."""

    id: str
    name: str
    organization_id: str
    scope: str | None


class ListedTokenRow(NamedTuple):
    """A token without its secret."""

    id: str
    name: str
    scope: str | None
    user_id: str
    user_name: str
    email: str
    is_service: bool
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class OwnTokenRow(NamedTuple):
    """A token of a person without its secret, and its organization."""

    organization_id: str
    organization: str
    id: str
    name: str
    scope: str | None
    user_id: str
    user_name: str
    email: str
    is_service: bool
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class ServiceAccountRow(NamedTuple):
    """A service account. `email` is the name that audit entries show."""

    id: str
    name: str
    email: str
    description: str
    enabled: bool
    created_at: datetime
    roles: list[str]


insert = _sql.row("insert", InsertedRow)
count_by_owner = _sql.value("count_by_owner", int)
get_by_hash = _sql.row("get_by_hash", TokenRow)
get_acting = _sql.row("get_acting", ActingTokenRow)
set_last_used = _sql.change("set_last_used")
list_by_organization = _sql.rows("list_by_organization", ListedTokenRow)
list_by_owner = _sql.rows("list_by_owner", OwnTokenRow)
delete = _sql.change("delete")
delete_by_user = _sql.change("delete_by_user")
delete_expired = _sql.change("delete_expired")
insert_service_account = _sql.change("insert_service_account")
list_service_accounts = _sql.rows("list_service_accounts", ServiceAccountRow)
update_service_account = _sql.change("update_service_account")
