"""Accounts at an OpenID Connect provider (`queries/identities.sql`)."""

from typing import NamedTuple

from launchbay.model.user import User
from launchbay.store.statements import load


class RoleIdRow(NamedTuple):
    """A role."""

    id: str


_sql = load("identities")
find = _sql.row("find", User)
link = _sql.value("link", str)
organization_named = _sql.value("organization_named", str)
roles_named = _sql.rows("roles_named", RoleIdRow)
