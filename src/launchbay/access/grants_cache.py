"""Keeps parsed grants by user and organization, valid exactly as long as the organization's stamp is the same."""

from collections import OrderedDict
from functools import lru_cache
from typing import NamedTuple

import structlog

from launchbay.access.grants import EVERYTHING, NOTHING, Entry, Grants, RoleGrants
from launchbay.access.role_text import read_role_text
from launchbay.errors import BadRequest
from launchbay.limits import GRANTS_KEPT
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.store.users import HeldRole, RoleKind

_log = structlog.get_logger("launchbay.access")


class _Kept(NamedTuple):
    stamp: int
    grants: Grants


class GrantsCache:
    """Answers what a user may do in an organization, with a query only when something changed."""

    def __init__(self, capacity: int = GRANTS_KEPT) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def get(self, connection: Connection, user_id: str, organization_id: str, stamp: int) -> Grants:
        """Return the grants that hold under the stamp, or under a newer one when it has been raised meanwhile."""
        key = (user_id, organization_id)
        kept = self._kept.get(key)
        if kept is None or kept.stamp != stamp:
            rows = await users.held(connection, user_id=user_id, organization_id=organization_id)
            if not rows:
                return NOTHING  # the organization is being deleted
            # Grants and stamp of one snapshot belong together; the stamp given may be older already.
            kept = self._kept[key] = _Kept(rows[0].access_stamp, _grants_of(rows))
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept.grants


def _grants_of(rows: list[HeldRole]) -> Grants:
    if not rows[0].is_member:
        return NOTHING
    held = tuple(
        RoleGrants(row.name, _entries(row.name, row.kind or "", row.permissions or ""))
        for row in rows
        if row.name is not None
    )
    return Grants(held)


def _entries(name: str, kind: str, text: str) -> tuple[Entry, ...]:
    if kind == RoleKind.ADMINISTRATOR:
        return EVERYTHING
    try:
        return _read(text)
    except BadRequest as error:
        # Stored texts were checked when they came. Should one not be readable any more, it allows nothing.
        _log.error("a stored role cannot be read and grants nothing", role=name, problem=str(error))
        return ()


# Many users hold the same few roles.
_read = lru_cache(maxsize=256)(read_role_text)
