"""Whether rules allow a change, whichever way it comes in (decision 0200).

The permission gate says who may do what. Rules say when a change that somebody may make has to wait, or go another way.
They are asked in the transaction that makes the change. Features register them; this module knows none.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from launchbay.auth.permissions import Actor
from launchbay.clock import Clock, SystemClock
from launchbay.errors import NotAllowed
from launchbay.model.changes import NOTHING_PROPOSED, Allowed, ChangeKind, Proposal, Refusal
from launchbay.model.job import Cause
from launchbay.store.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The facts of a change.

    `change_set` is the change set that it belongs to, and `cause` what began it. `is_later` says that it was asked for
    earlier, as by a schedule that is due. With `never_waits`, a rule raises RuleBusy rather than wait for a lock.
    A rule asks the `clock` after it has waited, unless the change was made `at` an earlier time. `stamp` is the
    organization's, as the lookup of the object found it: roles and rules that were read under it are still those of the
    organization. None if nothing was looked up.
    """

    operation: str
    kind: ChangeKind
    organization_id: str
    actor: Actor
    application_id: str | None = None
    environment_id: str | None = None
    instance_id: str | None = None
    change_set: str | None = None
    cause: Cause | None = None
    is_later: bool = False
    never_waits: bool = False
    clock: Clock = field(default_factory=SystemClock)
    at: datetime | None = None
    proposed: Proposal = NOTHING_PROPOSED
    stamp: int | None = None


class RuleBusy(Exception):
    """A rule can't be asked now without waiting for another transaction."""


class Refused(NotAllowed):
    """A rule doesn't allow a change, at least until `until` if that is known."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(*refusal.sentences, code=refusal.code)
        self.refusal = refusal
        self.until = refusal.until


# A rule reads what it needs through the connection of the change. None: it allows the change.
ChangeRule = Callable[[Connection, Change], Awaitable[Refusal | Allowed | None]]


async def answer_of(connection: Connection, rules: Sequence[ChangeRule], change: Change) -> Refusal | Allowed:
    """Return a refusal of a change, else the warnings of all rules.

    It is the first that no way leads around, such as a freeze, else the first one. Raises RuleBusy.
    """
    found: Refusal | None = None
    warnings: list[str] = []
    for rule in rules:
        answer = await rule(connection, change)
        if isinstance(answer, Refusal):
            if answer.outcome == "deny":
                return answer
            found = found or answer
        elif answer is not None:
            warnings += answer.warnings
    return found or Allowed(tuple(warnings))


async def refusal_of(connection: Connection, rules: Sequence[ChangeRule], change: Change) -> Refusal | None:
    """Return why a change isn't allowed, as `answer_of` does. Raises RuleBusy."""
    answer = await answer_of(connection, rules, change)
    return answer if isinstance(answer, Refusal) else None


class Decided(NamedTuple):
    """What the caller overrides, and the warnings of the rules that allow a change."""

    overridden: list[Refusal]
    warnings: list[str]


async def decide(
    connection: Connection, rules: Sequence[ChangeRule], change: Change, overrides: Callable[[Refusal], bool]
) -> Decided:
    """Return what the caller `overrides`.

    Raises Refused unless all other rules allow a change, with the refusal that `answer_of` would choose.
    """
    decided = Decided([], [])
    found: Refusal | None = None
    for rule in rules:
        answer = await rule(connection, change)
        if isinstance(answer, Refusal):
            if overrides(answer):
                decided.overridden.append(answer)
            elif answer.outcome == "deny":
                raise Refused(answer)
            else:
                found = found or answer
        elif answer is not None:
            decided.warnings.extend(answer.warnings)
    if found is not None:
        raise Refused(found)
    return decided
