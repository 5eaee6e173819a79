"""Freezes of environments, which are a column of theirs."""

from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.freezes")


class FreezeRow(NamedTuple):
    """The freeze of an environment, as JSON, with the address of who froze it.

    Both are None without one. The address is also None if the account was deleted.
    """

    frozen: str | None
    by_email: str | None


class HeldRow(NamedTuple):
    """A freeze that can't begin or end meanwhile.

    `frozen` is JSON, and `name` that of the environment.
    """

    name: str
    frozen: str | None


get_freeze = _sql.row("get_freeze", FreezeRow)

# It waits for a freeze that is being set, and reads what it left.
hold_freeze = _sql.row("hold_freeze", HeldRow)

# None if another transaction is changing the environment.
try_hold_freeze = _sql.row("try_hold_freeze", HeldRow)

# It waits for the transactions that hold one.
set_freeze = _sql.change("set_freeze")

# The transactions that may bring new instances, in all organizations.
list_launching = _sql.column("list_launching", str)
