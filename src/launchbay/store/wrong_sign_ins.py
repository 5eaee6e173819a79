"""Wrong attempts to sign in, in leaky buckets that all servers share."""

from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("wrong_sign_ins")


class AttemptRow(NamedTuple):
    """The levels of the buckets of an attempt. `pair` is account and address."""

    account: float
    pair: float
    address: float
    is_known: bool
    is_repeated: bool


class LevelRow(NamedTuple):
    """The level of a bucket after a wrong attempt."""

    key: str
    level: float
    is_newly_full: bool


class BlockedRow(NamedTuple):
    """A member whose sign-in is blocked for `blocked_s` more."""

    id: str
    name: str
    email: str
    blocked_s: int


read_attempt = _sql.row("read_attempt", AttemptRow)
add = _sql.rows("add", LevelRow)
list_blocked = _sql.rows("list_blocked", BlockedRow)
delete_by_user = _sql.change("delete_by_user")
delete_empty = _sql.change("delete_empty")
delete_old_passwords = _sql.change("delete_old_passwords")
