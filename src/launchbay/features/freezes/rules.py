"""A freeze of an environment, and what it stops. Pure."""

import msgspec

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.model.changes import Refusal


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing changes, the ID of who said so, and since when in ms."""

    reason: str
    by_id: str
    at_ms: int


def check_reason(reason: str) -> str:
    """Return the reason without surrounding whitespace. Raises BadRequest."""
    reason = reason.strip()
    if not reason or len(reason) > limits.CHANGE_SET_COMMENT_CHARS:
        raise BadRequest(
            f"reason: give 1 to {limits.CHANGE_SET_COMMENT_CHARS} characters, which everybody who is refused reads.",
            code="InvalidFreeze",
        )
    return reason


def refusal_of(freeze: Freeze, by: str | None, environment: str) -> Refusal:
    """Return what a frozen environment says to a change.

    Idle ends wait too: their rule may have been written during the freeze, for a whole application.
    """
    return Refusal(
        "deny",
        "EnvironmentFrozen",
        f"{by or 'Somebody'} froze the environment {environment!r}: {freeze.reason}",
        "Wait until the freeze is lifted. Whoever may edit the environment can do that.",
    )
