"""Refresh tokens: their hashes, and who generated how many."""

from datetime import datetime
from typing import NamedTuple

from launchbay.model.user import User
from launchbay.store.statements import load


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


_sql = load("refresh_tokens")

lock_user = _sql.value("lock_user", str)
generation_state = _sql.row("generation_state", GenerationState)
block = _sql.change("block")
insert = _sql.row("insert", RefreshTokenRow)
of_user = _sql.rows("of_user", RefreshTokenRow)
revoke = _sql.change("revoke")
redeem = _sql.row("redeem", User)
forget_expired = _sql.change("forget_expired")
