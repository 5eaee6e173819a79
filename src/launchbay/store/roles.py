"""Roles, and who holds them."""

from typing import NamedTuple

from launchbay.model.role import Role
from launchbay.store.statements import load


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


_sql = load("roles")

held = _sql.rows("held", HeldRole)
lock_organization = _sql.value("lock_organization", str)
administrators = _sql.rows("administrators", Administrator)
of_organization = _sql.rows("of_organization", Role)
insert = _sql.change("insert")
update = _sql.change("update")
set_kind = _sql.change("set_kind")
delete = _sql.change("delete")
assign = _sql.change("assign")
revoke = _sql.change("revoke")
