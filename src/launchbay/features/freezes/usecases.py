"""Stop the line, now or in windows (decisions 0201, 0204).

A change holds the freezes of its environment and application until its commit, and a freeze waits for those that hold
it. Launches look first and hold nothing (`launch_target`), so a freeze also waits for the launches that were on their
way. So nothing that was accepted after its answer has missed it. A window asks the clock when a change asks: one that
asked before it begins may be committed in it.
"""

import asyncio
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from launchbay.auth.lookup import RuleOwner
from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff, from_ms, iso_time, to_ms
from launchbay.features.freezes import rows as store
from launchbay.features.freezes.rows import FreezeRow, OverrideRow
from launchbay.model.changes import Refusal
from launchbay.model.freezes import (
    CODES,
    SOON,
    Freeze,
    Freezes,
    FreezeState,
    FreezeWindow,
    check_reason,
    check_windows,
    read_freeze,
    read_windows,
    words,
)
from launchbay.planning.decisions import Change, RuleBusy
from launchbay.store import instances
from launchbay.store.database import Connection
from launchbay.usecases.context import Context, Work
from launchbay.usecases.later import PutOff

_LOOKS = Backoff(0.005, 0.1)  # at launches on their way


class ShownFreeze(NamedTuple):
    """The freeze that is and who set it, and the next one."""

    now: FreezeState | None
    by_email: str | None
    next: FreezeState | None
    soon: FreezeState | None  # the next one, if it begins within 24 hours


async def refuse_frozen(connection: Connection, change: Change) -> Refusal | None:
    """Refuse changes in a frozen environment, and of a frozen application.

    Idle ends wait too: their rule may have been written during the freeze, for a whole application. Raises RuleBusy.
    """
    wanted = [each for each in (change.application_id, change.environment_id) if each is not None]
    if not wanted:
        return None
    hold = store.try_hold if change.never_waits else store.hold
    held = await hold(connection, application_id=change.application_id, environment_id=change.environment_id)
    if change.never_waits and len(held) < len(wanted):
        raise RuleBusy
    now = change.clock.now()  # after it has waited
    found = [(row, state) for row in held if (state := freezes_of(row).now(now)) is not None]
    # In a statement of its own: one that waited for the freeze has read the accounts before.
    refusals = [refusal_of(row, state, await _address(connection, state)) for row, state in found]
    if len(refusals) < 2:
        return refusals[0] if refusals else None
    first, second = refusals  # who overrides one of them must be allowed to override the other one too
    until = None if first.until is None or second.until is None else max(first.until, second.until)
    sentence, kinds = f"{first.sentence} {second.sentence}", first.overridable + second.overridable
    return first._replace(sentence=sentence, until=until, overridable=kinds)


def refusal_of(row: FreezeRow, state: FreezeState, by: str) -> Refusal:
    """Return what a frozen environment or application says to a change."""
    if state.by_id is not None:
        since = "" if state.since_ms is None else f" at {iso_time(from_ms(state.since_ms))}"
        sentence = f"{by} froze the {row.kind} {row.name!r}{since}: {state.reason}"
        lifts = f"launchbay {row.kind} lift-freeze {shlex.quote(row.name)}"
        remedy = f"Wait until the freeze is lifted. Whoever may edit the {row.kind} can do that: {lifts}."
    else:
        sentence = f"The {row.kind} {row.name!r} is {words(state)}"
        remedy = f"Wait until then. Whoever may edit the {row.kind} can change its windows."
    if not sentence.endswith((".", "!", "?", "…")):
        sentence += "."
    return Refusal(
        "deny",
        CODES[row.kind],
        sentence,
        remedy,
        state.until,
        (row.kind,),
        settled_with=Permission.EDIT_ENVIRONMENT if row.kind == "environment" else Permission.EDIT_APPLICATION,
        settled_at=(f"/{row.kind}s/{row.id}",),
    )


async def _address(connection: Connection, state: FreezeState) -> str:
    """Return who froze something by the switch."""
    found = None if state.by_id is None else await store.get_address(connection, user_id=state.by_id)
    return found or "Somebody"


def freezes_of(row: FreezeRow) -> Freezes:
    """Return the freezes of one object."""
    freeze = None if row.frozen is None else read_freeze(row.frozen)
    windows = None if row.freeze_windows is None else read_windows(row.freeze_windows)
    if row.kind == "environment":
        return Freezes(environment=freeze, environment_windows=windows)
    return Freezes(application=freeze, application_windows=windows)


async def list_frozen(work: Work, organization_id: str, kind: RuleOwner, ids: Sequence[str]) -> list[str]:
    """Return what freezes of these objects say, without waiting."""
    now = work.app.clock.now()
    if not ids:
        return []
    rows = await store.list_freezes(work.connection, organization_id=organization_id, kind=kind, ids=list(ids))
    found = [(row, state) for row in rows if (state := freezes_of(row).now(now)) is not None]
    return [refusal_of(row, state, await _address(work.connection, state)).sentence for row, state in found]


async def show_freeze(ctx: Context, kind: RuleOwner, owner_id: str) -> ShownFreeze:
    """Return whether an environment or application is frozen, and when it will be."""
    now = ctx.app.clock.now()
    async with ctx.read() as work:
        owner = await work.lookup.rule_owner(kind, owner_id)
        freezes = freezes_of(await _row(work, kind, owner.id))
        state = freezes.now(now)
        by_email = None
        if state is not None and state.by_id is not None:
            by_email = await store.get_address(work.connection, user_id=state.by_id)
    following = freezes.next(now)
    is_soon = following is not None and following.begins_at is not None and following.begins_at <= now + SOON
    return ShownFreeze(state, by_email, following, following if is_soon else None)


async def read_own_windows(ctx: Context, kind: RuleOwner, owner_id: str) -> tuple[FreezeWindow, ...]:
    """Return the windows of an environment or application."""
    async with ctx.read() as work:
        owner = await work.lookup.rule_owner(kind, owner_id)
        row = await _row(work, kind, owner.id)
    return () if row.freeze_windows is None else read_windows(row.freeze_windows)


async def read_last_override(ctx: Context, instance_id: str) -> OverrideRow | None:
    """Return who changed an instance during a freeze within the last week."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.get_last_override(
            work.connection, organization_id=record.organization_id, object_id=record.id
        )


async def set_freeze(ctx: Context, kind: RuleOwner, owner_id: str, reason: str | None) -> None:
    """Freeze an environment or application, or lift that without a reason. Its windows stay.

    It returns once nothing is on its way that hasn't seen it. Raises BadRequest for an empty or long reason.
    """
    freeze = None
    if reason is not None:
        now_ms = to_ms(ctx.app.clock.now())
        freeze = Freeze(reason=check_reason(reason), by_id=ctx.actor.user_id, at_ms=now_ms)
    async with ctx.begin() as work:
        owner = await work.lookup.rule_owner(kind, owner_id, edits=True)
        row = await _row(work, kind, owner.id)
        text = None if freeze is None else msgspec.json.encode(freeze).decode()
        if freeze is None:
            await _wake(work, owner.organization_id)
        if kind == "environment":
            await store.freeze_environment(work.connection, environment_id=owner.id, text=text)
        else:
            await store.freeze_application(work.connection, application_id=owner.id, text=text)
        old = {} if row.frozen is None else {"reason": read_freeze(row.frozen).reason}
        new = {} if freeze is None else {"reason": freeze.reason}
        if kind == "environment":
            await work.audit("lift_freeze" if freeze is None else "set_freeze", owner, old, new)
        else:
            await work.audit("lift_application_freeze" if freeze is None else "set_application_freeze", owner, old, new)
    if freeze is not None:
        await pass_launches(ctx)


async def replace_windows(ctx: Context, kind: RuleOwner, owner_id: str, windows: Sequence[FreezeWindow]) -> None:
    """Replace the windows of an environment or application.

    Raises BadRequest for one that can't be. In a larger transaction, such as that of a directory, launches on their way
    may not see them (`pass_launches`).
    """
    windows = [msgspec.structs.replace(window, reason=window.reason.strip()) for window in windows]
    check_windows(windows, ctx.app.clock.now())
    async with ctx.begin() as work:
        owner = await work.lookup.rule_owner(kind, owner_id, edits=True)
        row = await _row(work, kind, owner.id)
        before = [] if row.freeze_windows is None else list(read_windows(row.freeze_windows))
        if before == windows:
            return
        text = msgspec.json.encode(windows).decode() if windows else None
        await _wake(work, owner.organization_id)
        if kind == "environment":
            await store.set_environment_windows(work.connection, environment_id=owner.id, text=text)
        else:
            await store.set_application_windows(work.connection, application_id=owner.id, text=text)
        old, new = ({"windows": msgspec.to_builtins(each)} for each in (before, windows))
        is_environment = kind == "environment"
        await work.audit(
            "replace_freeze_windows" if is_environment else "replace_application_freeze_windows", owner, old, new
        )
    if windows and ctx.app.database.enclosing() is None:
        await pass_launches(ctx)


async def pass_launches(ctx: Context) -> None:
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


async def _wake(work: Work, organization_id: str) -> None:
    """Make due what waits for the end of a freeze.

    What must wait longer is put off again.
    """
    for each in work.app.offered(PutOff):
        await each.wake(work.connection, organization_id=organization_id, now=work.app.clock.now())


async def _row(work: Work, kind: RuleOwner, owner_id: str) -> FreezeRow:
    if kind == "environment":
        row = await store.get_environment(work.connection, environment_id=owner_id)
    else:
        row = await store.get_application(work.connection, application_id=owner_id)
    assert row is not None, "it was looked up"
    return row
