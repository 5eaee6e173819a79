"""Promotions that an order makes by itself when its gates are open.

They are made and applied as who set the order, so they need that person's rights, and rules are asked as of anything
that acts later. Who loses the rights stops them, until somebody saves the order again. All other refusals are tried
again at least once a minute, since a freeze or rule may go before its time, and another version may come. A version
whose change set failed, succeeded before somebody went back, or was rejected, isn't tried again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated
from launchbay.features.change_sets.usecases import apply_or_withdraw
from launchbay.features.generations.usecases import FailurePolicy
from launchbay.features.promotion import rows as store
from launchbay.features.promotion.rows import AttemptRow, OrderRow
from launchbay.features.promotion.rules import closed, opens_at, stage_before
from launchbay.features.promotion.usecases import (
    GATE_CODE,
    OPEN,
    Neighbours,
    PromotionRequest,
    brings,
    candidate_of,
    neighbours,
    order_in_force,
    placed_in,
    promote,
)
from launchbay.limits import CHANGE_SET_EXPIRY_MS
from launchbay.model.promotion import Stage, read_stages
from launchbay.planning.decisions import Refused
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, actor_of

log = structlog.get_logger(__name__)
_ROUND = 50
_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_MESSAGE_CHARS = 500
_ON_FAILURE: FailurePolicy = "keep"


class Place(NamedTuple):
    """An environment that versions come to by themselves, locked."""

    attempt: AttemptRow
    order: OrderRow | None
    stage: Stage | None
    former: Stage | None
    now: datetime


class Move(NamedTuple):
    """The version to promote next, and its newest change set."""

    version: int
    change_set_id: str | None


class Author(NamedTuple):
    """Who set an order, on whose behalf it promotes."""

    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None


class PromotionWork(LaterWork[Place, Move]):
    """Makes and applies automatic promotions."""

    task = "promotions"
    noun = "automatic promotion"
    every_s = 1.0
    due = (store.list_due,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due(connection, now=self.app.clock.now(), but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> Place | None:
        application_id, _, environment_id = row_id.partition(" ")
        now = self.app.clock.now()
        place = {"application_id": application_id, "environment_id": environment_id}
        await store.begin_attempts(connection, **place, now=now)
        attempt = await store.take(connection, **place, now=now)
        if attempt is None:
            return None
        order = await order_in_force(connection, attempt.organization_id, application_id)
        stages = () if order is None else read_stages(order.stages)
        return Place(attempt, order, *stage_before(stages, environment_id), now)

    async def next(self, connection: Connection, row: Place) -> Move | bool:
        """Return what is next, or note why nothing is."""
        if row.stage is None or row.former is None or not row.stage.automatic:
            await self._wait(connection, row, None)
            return False
        attempt = row.attempt
        around = await neighbours(connection, attempt.organization_id, attempt.application_id, row.stage, row.former)
        here = await placed_in(connection, attempt.application_id, (row.stage,))
        version = candidate_of(around.before, here)
        if version is None:
            await self._wait(connection, row, None)
            return False
        place = {"application_id": attempt.application_id, "environment_id": attempt.environment_id}
        known = await store.get_newest(connection, **place, version=version)
        if known is not None and known.status not in {*OPEN, "Expired"}:
            ended = f"The change set of version {version} is {known.status}. Promote it by hand, or fix it first."
            await self._wait(connection, row, ended, pause_s=_LONGEST_PAUSE_S, version=version)
            return False
        if known is not None and known.status in {"Pending", "Applying"} and brings(known, row.stage):
            remedy = " Somebody has to approve it." if known.status == "Pending" else ""
            said = f"The change set of version {version} is {known.status}.{remedy}"
            await self._wait(connection, row, said, version=version)
            return False
        return await self._unless_closed(connection, row, around, Move(version, known and known.change_set_id))

    async def _unless_closed(self, connection: Connection, row: Place, around: Neighbours, move: Move) -> Move | bool:
        gates = around.gates(move.version, row.now)
        if found := closed(gates):
            at, message = opens_at(gates), " ".join(each.sentence for each in found)
            pause_s = _PAUSE_S if at is None else max(_PAUSE_S, (at - row.now).total_seconds())
            await self._wait(connection, row, message, pause_s=pause_s, version=move.version)
            return False
        # Promoting locks the organization, for which nothing waits that has locked an attempt.
        locked = await store.try_lock_organization(connection, organization_id=row.attempt.organization_id)
        return move if locked is not None else False

    async def act(self, row: Place, item: Move) -> None:
        """Make a change set or apply the open one, as who set the order."""
        order, attempt = row.order, row.attempt
        assert order is not None, "there is a stage of it"
        assert row.former is not None, "what is first is promoted from nowhere"
        if order.author_email is None:
            raise NotAllowed("The account of who set the order was deleted.")
        author = Author(order.author_id, order.author_email, order.author_name or "", "", order.method, order.token_id)
        seed = ("promotion", attempt.application_id, attempt.environment_id, item.version, item.change_set_id or "")
        ctx = Context(self.app, await actor_of(self.app, author), item=seed)
        request = PromotionRequest(
            from_id=row.former.environment_id,
            to_id=attempt.environment_id,
            version=item.version,
            expires_in_ms=CHANGE_SET_EXPIRY_MS,
            on_failure=_ON_FAILURE,
            is_automatic=True,
        )
        made = await promote(ctx, attempt.application_id, request)
        if not made.is_new and made.change_set.change_set.status == "Ready":
            await apply_or_withdraw(ctx, made.change_set.change_set.id)

    async def note(self, connection: Connection, row: Place, item: Move, done: None) -> None:
        # One that took the place of another one is applied later: it may be stale at once, too.
        await self._wait(connection, row, None, pause_s=0 if item.change_set_id is None else _PAUSE_S)

    async def put_off(self, connection: Connection, row: Place, item: Move, refusal: LaunchbayError) -> None:
        """Wait for what passes. Who may not promote anymore stops it."""
        is_stopped = isinstance(refusal, NotAllowed | NotAuthenticated) and not isinstance(refusal, Refused)
        pause_s = _LONGEST_PAUSE_S
        if refusal.code in {*PASSING, GATE_CODE}:
            pause_s = pause_of(refusal, row.now, _PAUSE_S)
        message = str(refusal)
        if is_stopped:
            message = f"Automatic promotion has stopped: {message} It continues once somebody saves the order again."
            log.warning("promotion.stopped", application=row.attempt.application_id, reason=str(refusal))
        await self._wait(connection, row, message, pause_s=pause_s, version=item.version, is_stopped=is_stopped)

    @staticmethod
    async def _wait(
        connection: Connection,
        row: Place,
        message: str | None,
        *,
        pause_s: float = _PAUSE_S,
        version: int | None = None,
        is_stopped: bool = False,
    ) -> None:
        await store.note_attempt(
            connection,
            application_id=row.attempt.application_id,
            environment_id=row.attempt.environment_id,
            message=None if message is None else message[:_MESSAGE_CHARS],
            version=version,
            looks_at=row.now + timedelta(seconds=min(pause_s, _LONGEST_PAUSE_S)),
            is_stopped=is_stopped,
        )
