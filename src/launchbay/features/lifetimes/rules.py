"""How long instances live: rules of applications and environments. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from launchbay.errors import BadRequest
from launchbay.limits import DESTROY_INTERVAL_DEFAULT_MS, INTERVAL_LONGEST_MS
from launchbay.model.expiry import NEVER, IfExists, duration

_STRICTEST: tuple[IfExists, ...] = ("fail", "return", "allow")
IDLE_SHORTEST_MS = 3_600_000  # a rule has an hour to be taken back
WARNINGS_S = (24 * 3_600, 3_600)  # before the end


class LifetimeRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules for the instances of an application or environment.

    `default_ms` is for launches that don't say how long; NEVER means without an end. `greatest_ms` counts from the
    launch. One extension adds `extend_ms` at most, and there are `extensions` of them. A destroy can be taken back for
    `grace_ms`. An instance on which nothing runs for `idle_ms` is destroyed. With `mail`, owners get warnings by email.
    `if_exists` is for launches that don't say what they do if a living instance has their name.
    """

    default_ms: int | None = None
    greatest_ms: int | None = None
    may_never: bool = True
    extend_ms: int | None = None
    extensions: int | None = None
    grace_ms: int | None = None
    idle_ms: int | None = None
    mail: bool = False
    if_exists: IfExists | None = None

    def check(self) -> None:
        """Raise BadRequest for rules that no instance can fulfill."""
        for name, value in (("defaultMs", self.default_ms), ("greatestMs", self.greatest_ms)):
            is_never = name == "defaultMs" and value == NEVER
            if value is not None and not is_never and not 0 < value <= INTERVAL_LONGEST_MS:
                raise _wrong(f"{name} is {value}; give milliseconds above 0.")
        if self.extend_ms is not None and not 0 < self.extend_ms <= INTERVAL_LONGEST_MS:
            raise _wrong(f"extendMs is {self.extend_ms}; give milliseconds above 0.")
        if self.grace_ms is not None and not 0 < self.grace_ms <= INTERVAL_LONGEST_MS:
            raise _wrong(f"graceMs is {self.grace_ms}; give milliseconds above 0.")
        if self.idle_ms is not None and not IDLE_SHORTEST_MS <= self.idle_ms <= INTERVAL_LONGEST_MS:
            raise _wrong(f"idleMs is {self.idle_ms}; give an hour or more, in milliseconds.")
        if self.extensions is not None and self.extensions < 0:
            raise _wrong(f"extensions is {self.extensions}; give 0 or more.")
        if self.default_ms == NEVER and not self.allows_never:
            raise _wrong("defaultMs is never, which the other rules forbid.")
        if None not in (self.default_ms, self.greatest_ms) and (self.default_ms or 0) > (self.greatest_ms or 0):
            raise _wrong("defaultMs is more than greatestMs.")

    @property
    def allows_never(self) -> bool:
        return self.may_never and self.greatest_ms is None

    def at_launch(self, wanted_ms: int | None) -> int | None:
        """Return how long a new instance lives, in ms; None: without an end.

        `wanted_ms` is None if the launch doesn't say. Raises BadRequest for what the rules forbid.
        """
        if wanted_ms is None:
            wanted_ms = DESTROY_INTERVAL_DEFAULT_MS if self.default_ms is None else self.default_ms
            if self.greatest_ms is not None:
                wanted_ms = self.greatest_ms if wanted_ms == NEVER else min(wanted_ms, self.greatest_ms)
            elif wanted_ms == NEVER and not self.may_never:
                wanted_ms = DESTROY_INTERVAL_DEFAULT_MS
        if wanted_ms == NEVER:
            self._require_never()
            return None
        if self.greatest_ms is not None and wanted_ms > self.greatest_ms:
            raise self._too_long(wanted_ms)
        return wanted_ms

    def require(self, created_at: datetime, destroy_at: datetime | None) -> None:
        """Raise BadRequest for an end that the rules forbid."""
        if destroy_at is None:
            self._require_never()
        elif (latest := self.latest(created_at)) is not None and destroy_at > latest:
            raise self._too_long(round((destroy_at - created_at).total_seconds() * 1000))

    def latest(self, created_at: datetime) -> datetime | None:
        """Return the latest end of an instance; None without one."""
        return None if self.greatest_ms is None else created_at + timedelta(milliseconds=self.greatest_ms)

    def _require_never(self) -> None:
        if not self.allows_never:
            raise BadRequest(
                "The instance must have an end: the rules for lifetimes demand it.",
                code="LifetimeRule",
                field="destroyInterval",
            )

    def _too_long(self, wanted_ms: int) -> BadRequest:
        return BadRequest(
            f"The instance may live for {duration(self.greatest_ms or 0)} at most, and not {duration(wanted_ms)}: "
            "the rules for lifetimes of its application or environment say so.",
            code="LifetimeRule",
            field="destroyInterval",
        )


def merged(rules: Iterable[LifetimeRules]) -> LifetimeRules:
    """Return rules that fulfill all of these.

    The first default, the longest grace time and the strictest `if_exists` count.
    """
    found = LifetimeRules()
    for each in rules:
        found = LifetimeRules(
            default_ms=each.default_ms if found.default_ms is None else found.default_ms,
            greatest_ms=_least(found.greatest_ms, each.greatest_ms),
            may_never=found.may_never and each.may_never,
            extend_ms=_least(found.extend_ms, each.extend_ms),
            extensions=_least(found.extensions, each.extensions),
            grace_ms=max(found.grace_ms or 0, each.grace_ms or 0) or None,
            idle_ms=_least(found.idle_ms, each.idle_ms),
            mail=found.mail or each.mail,
            if_exists=next((wanted for wanted in _STRICTEST if wanted in {found.if_exists, each.if_exists}), None),
        )
    return found


def _least(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)


def _wrong(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidLifetime")
