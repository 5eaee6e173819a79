"""Stop the line: nothing changes in an environment until somebody lifts that (decision 0201).

A change holds the freeze of its environment until its commit, and a freeze waits for those that hold it. Launches look
first and hold nothing (`launch_target`), so a freeze also waits for the launches that were on their way. So nothing
that was accepted after its answer has missed it.
"""

import asyncio

import msgspec

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff, to_ms
from launchbay.errors import BadRequest
from launchbay.features.freezes import rows as store
from launchbay.model.changes import Refusal
from launchbay.planning.decisions import Change, RuleBusy
from launchbay.store import instances
from launchbay.store.database import Connection
from launchbay.usecases.context import Context

_LOOKS = Backoff(0.005, 0.1)  # at launches on their way


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
            f"reason: give 1 to {limits.CHANGE_SET_COMMENT_CHARS} characters. Everyone who is refused sees them.",
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


_read = msgspec.json.Decoder(Freeze).decode


async def refuse_frozen(connection: Connection, change: Change) -> Refusal | None:
    """Refuse changes of a frozen environment and of what is in it.

    Raises RuleBusy.
    """
    if change.environment_id is None:
        return None
    hold = store.try_hold_freeze if change.never_waits else store.hold_freeze
    held = await hold(connection, environment_id=change.environment_id)
    if held is None and change.never_waits:
        raise RuleBusy
    if held is None or held.frozen is None:
        return None
    # In a statement of its own: one that waited for the freeze has read the accounts before.
    found = await store.get_freeze(connection, environment_id=change.environment_id)
    by = None if found is None else found.by_email
    return refusal_of(_read(held.frozen), by, held.name)


async def read_freeze(ctx: Context, environment_id: str) -> tuple[Freeze, str | None] | None:
    """Return the freeze of an environment, with the address of who froze it."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        found = await store.get_freeze(work.connection, environment_id=environment.id)
    if found is None or found.frozen is None:
        return None
    return _read(found.frozen), found.by_email


async def set_freeze(ctx: Context, environment_id: str, reason: str | None) -> None:
    """Freeze an environment, or lift that without a reason.

    It returns once nothing is on its way that hasn't seen it. Raises BadRequest for an empty or long reason.
    """
    freeze = None
    if reason is not None:
        now_ms = to_ms(ctx.app.clock.now())
        freeze = Freeze(reason=check_reason(reason), by_id=ctx.actor.user_id, at_ms=now_ms)
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        before = await store.get_freeze(work.connection, environment_id=environment.id)
        text = None if freeze is None else msgspec.json.encode(freeze).decode()
        await store.set_freeze(work.connection, environment_id=environment.id, freeze=text)
        old = {} if before is None or before.frozen is None else {"reason": _read(before.frozen).reason}
        new = {} if freeze is None else {"reason": freeze.reason}
        await work.audit("lift_freeze" if freeze is None else "set_freeze", environment, old, new)
    if freeze is not None:
        await _pass_launches(ctx)


async def _pass_launches(ctx: Context) -> None:
    """Wait for the end of launches that may not have seen a freeze."""
    assert ctx.app.database.enclosing() is None, "launches see a freeze once it is committed"
    async with ctx.read() as work:
        launching = await store.list_launching(work.connection)
    delays_s = _LOOKS.delays()
    while launching:
        await asyncio.sleep(next(delays_s))
        async with ctx.read() as work:
            rows = await instances.list_making(work.connection, making=launching)
        launching = [row.id for row in rows]
