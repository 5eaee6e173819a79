"""Sessions at providers, renewed while their attempt runs and then revoked (decision 0183).

A provider may take connections and never answer. So each has a few workers of its own, which take its sessions in turn,
and each organization has a few more than that. Sessions of others continue meanwhile.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog

from launchbay.clock import Backoff
from launchbay.concurrency import cancel_all
from launchbay.errors import ActionFailed, LaunchbayError, Unavailable, internal_error
from launchbay.features.secret_providers import rows as store
from launchbay.features.secret_providers.rows import SessionRow, session_purpose
from launchbay.limits import (
    SECRET_LEASE_S,
    SECRET_SESSION_S,
    SECRET_SESSIONS_AT_ONCE,
    SECRET_SESSIONS_OF_ORGANIZATION,
    SECRET_SESSIONS_OF_PROVIDER,
)
from launchbay.service_types.contract import LeasingProvider
from launchbay.usecases.context import AppContext

log = structlog.get_logger(__name__)
POLL_S = 0.5
_CLAIMED = timedelta(seconds=SECRET_SESSION_S + 3)  # then it was lost with its process
_NEVER = timedelta(seconds=SECRET_LEASE_S)
_SHORTEST = timedelta(seconds=1)  # between two renewals of a session
_BACKOFF = Backoff(1.0, 60.0)
_CLOSE_S = 2.0


def lasting(lease_s: int) -> timedelta:
    """Return how long a lease lasts; 0 is one that doesn't end."""
    return timedelta(seconds=lease_s) if lease_s else _NEVER


class _Place(NamedTuple):
    """Whose sessions a worker takes."""

    organization_id: str
    provider: str


class SessionKeeper:
    """Renews sessions that are needed, and revokes others.

    `advance` starts workers for what is due.
    """

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._workers: dict[asyncio.Task[None], _Place] = {}
        self._is_closing = False

    async def advance(self) -> None:
        """Start workers for providers with due sessions."""
        room = SECRET_SESSIONS_AT_ONCE - len(self._workers)
        if room <= 0 or self._is_closing:
            return
        places = Counter(self._workers.values())
        organizations = Counter(place.organization_id for place in self._workers.values())
        full = [" ".join(place) for place, count in places.items() if count >= SECRET_SESSIONS_OF_PROVIDER]
        full += [each for each, count in organizations.items() if count >= SECRET_SESSIONS_OF_ORGANIZATION]
        async with self._app.database.connection() as connection:
            due = await store.list_due(connection, now=self._app.clock.now(), but=full, count=SECRET_SESSIONS_AT_ONCE)
        for row in due:
            place = _Place(row.organization_id, row.provider)
            most = min(
                room,
                row.sessions,
                SECRET_SESSIONS_OF_PROVIDER - places[place],
                SECRET_SESSIONS_OF_ORGANIZATION - organizations[place.organization_id],
            )
            for _ in range(most):
                task = asyncio.create_task(self._work(place), name="secret session")
                self._workers[task] = place
                task.add_done_callback(self._end)
                organizations[place.organization_id] += 1
                room -= 1

    async def close(self) -> None:
        """Let workers end their session for a moment, then cancel them."""
        self._is_closing = True
        if self._workers:
            await asyncio.wait(set(self._workers), timeout=_CLOSE_S)
            await cancel_all(self._workers)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._workers[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The next worker goes on, with this session when its claim has ended.
            if isinstance(error, Unavailable):
                log.warning("secret_session.postponed", error=str(error), repeats=True)
            else:
                log.error("secret_session.crashed", error=repr(error))

    async def _work(self, place: _Place) -> None:
        while not self._is_closing and await self._take(place):
            pass

    async def _take(self, place: _Place) -> bool:
        """Take the next due session. Return False if nothing is due."""
        now = self._app.clock.now()
        async with self._app.database.transaction() as connection:
            row = await store.claim(connection, **place._asdict(), now=now, until=now + _CLAIMED)
        if row is None:
            return False
        try:
            async with asyncio.timeout(SECRET_SESSION_S):
                write = await self._kept(row)
        except TimeoutError:
            write = self._after_failure(
                row, f"The secret provider {row.provider!r} took longer than {SECRET_SESSION_S:g} s."
            )
        except LaunchbayError as error:
            write = self._after_failure(row, str(error))
        except Exception:  # types are foreign code, and other sessions go on
            log.exception("secret_session.crashed", session=row.id)
            write = self._after_failure(row, internal_error(f"secret session {row.id}"))
        async with self._app.database.transaction() as connection:
            await write(connection)
        return True

    async def _kept(self, row: SessionRow) -> Any:
        """Renew or revoke the session; return what notes it. Raises LaunchbayError."""
        provider = self._app.service_types.find(row.type_id)
        if not isinstance(provider, LeasingProvider):
            raise ActionFailed(f"The type {row.type_id} isn't installed.")
        session = self._app.secret_key.open(bytes(row.sealed), session_purpose(row.id)).decode()
        egress = self._app.egress.for_environment(row.organization_id, row.environment_id)
        if not row.is_needed:
            await provider.revoke(egress, session)
            return partial(store.remove, id=row.id)
        renewed = await provider.renew(egress, session, msgspec.json.decode(row.leases))
        now = self._app.clock.now()
        pause = min(lasting(renewed.session_s or 0), lasting(renewed.lease_s)) / 2
        failures, message = 0, None
        for reason in (*renewed.lost.values(), *renewed.failed.values()):
            _warn(row, reason)
            message = reason[:500]
        if renewed.failed:
            failures = row.failures + 1
            pause = min(pause, timedelta(seconds=_BACKOFF.delay_s(failures)))
        return partial(
            store.renewed,
            id=row.id,
            renew_at=now + max(pause, _SHORTEST),
            expires_at=row.expires_at if renewed.session_s is None else now + lasting(renewed.session_s),
            leases=row.leases,
            lost=list(renewed.lost),
            failures=failures,
            message=message,
            now=now,
        )

    def _after_failure(self, row: SessionRow, message: str) -> Any:
        now = self._app.clock.now()
        _warn(row, message)
        # The provider has ended it by itself. A renewal may have reached it without its answer's reaching us.
        if row.expires_at + timedelta(seconds=row.lease_s) <= now:
            return partial(store.remove, id=row.id)
        next_at = now + timedelta(seconds=_BACKOFF.delay_s(row.failures + 1))
        return partial(store.failed, id=row.id, next_at=next_at, message=message[:500])


def _warn(row: SessionRow, reason: str) -> None:
    log.warning("secret_session.failed", provider=row.provider, job=row.job_id, reason=reason)
