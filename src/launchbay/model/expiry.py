"""Ends of instances: how long, in words, and second launches of a name."""

from datetime import datetime
from typing import Literal, Protocol

from launchbay.limits import DESTROY_INTERVAL_DEFAULT_MS

NEVER = -1
IfExists = Literal["allow", "fail", "return"]
_UNITS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"))


def duration(ms: int) -> str:
    """Return a length of time for people, such as "36 hours"."""
    unit_ms, name = next(((unit_ms, name) for unit_ms, name in _UNITS if ms % unit_ms == 0), (1_000, "seconds"))
    count = ms // unit_ms
    return f"{count:,} {name[:-1] if count == 1 else name}"


class ExpiryRules(Protocol):
    """What rules for lifetimes say about launches, ends and destroys of instances."""

    @property
    def grace_ms(self) -> int | None:
        """How long a destroy can be taken back."""

    @property
    def if_exists(self) -> IfExists | None:
        """What a launch does that doesn't say it, if a living instance has its name."""

    def at_launch(self, wanted_ms: int | None) -> int | None:
        """Return how long a new instance lives, in ms; None: without an end.

        `wanted_ms` is None if the launch doesn't say. Raises BadRequest for what the rules forbid.
        """

    def require(self, created_at: datetime, destroy_at: datetime | None) -> None:
        """Raise BadRequest for an end that the rules forbid."""


class NoExpiryRules:
    """Where nobody made rules, each end is allowed, and a destroy begins at once."""

    grace_ms: int | None = None
    if_exists: IfExists | None = None

    def at_launch(self, wanted_ms: int | None) -> int | None:
        if wanted_ms is None:
            return DESTROY_INTERVAL_DEFAULT_MS
        return None if wanted_ms == NEVER else wanted_ms

    def require(self, created_at: datetime, destroy_at: datetime | None) -> None:
        pass
