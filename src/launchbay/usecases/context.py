"""The bound of what an organization may have waiting: beyond it, new work is refused until some of it has started."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from launchbay import limits
from launchbay.auth.audit import Audit
from launchbay.auth.authentication import BasicAuthentication, Passwords
from launchbay.auth.lookup import Lookup, Lookups
from launchbay.auth.permissions import Actor, Resource
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.tokens import RefreshTokens, SessionTokens
from launchbay.clock import Clock
from launchbay.egress.http import EgressClient
from launchbay.errors import BadRequest, NotFound, Unavailable
from launchbay.machines.registry import Providers
from launchbay.model.findings import Finding
from launchbay.planning import CompiledManifests
from launchbay.service_types.registry import ServiceTypes
from launchbay.store import jobs
from launchbay.store.database import Connection, Database
from launchbay.store.events import EventFeed

_SAMPLE_S = 1.0  # how old a count may be; meanwhile a process may accept what it can in that time
_RETRY_AFTER_S = 5


class QueueQuota:
    """Counts, for each organization at most once a second, the jobs that wait for a place to run."""

    def __init__(self, maximum: int, clock: Clock) -> None:
        self._most = maximum
        self._clock = clock
        self._sampled: dict[str, tuple[float, int]] = {}

    async def check_quota(self, connection: Connection, organization_id: str) -> None:
        """Raise Unavailable, which says when to come again, while the organization has too many jobs waiting.

        Each organization has a bound of its own, so that one that asks for too much keeps out nobody else.
        """
        now_s = self._clock.monotonic_s()
        at_s, waiting = self._sampled.get(organization_id, (float("-inf"), 0))
        if now_s - at_s >= _SAMPLE_S:
            waiting = await jobs.count_waiting(connection, organization_id=organization_id, most=self._most) or 0
            if len(self._sampled) >= limits.QUOTAS_CACHED:
                self._sampled.clear()
            self._sampled[organization_id] = (now_s, waiting)
        if waiting >= self._most:
            raise Unavailable(
                f"Your organization has {waiting} or more jobs that wait to be started, and more are not taken now.",
                f"Try again in {_RETRY_AFTER_S} s. The operator can raise LAUNCHBAY_QUEUE_LIMIT or add workers.",
                code="QueueFull",
                retry_after_s=_RETRY_AFTER_S,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """What a use case may reach.

    `check` returns the findings of a manifest text; `runnable_types` are the component types that live instances run.
    """

    database: Database
    lookups: Lookups
    queue_quota: QueueQuota
    manifests: CompiledManifests
    check: Callable[[bytes], list[Finding]]
    runnable_types: frozenset[str]
    clock: Clock
    feed: EventFeed
    service_types: ServiceTypes
    machines: Providers
    secret_key: SecretKey
    egress: EgressClient
    audit: Audit
    passwords: Passwords
    sign_in: BasicAuthentication
    refresh_tokens: RefreshTokens
    sessions: SessionTokens
    session_lifetime_s: int


class Work:
    """One unit of work of a use case: a connection, what the caller may see through it, and the audit log beside it."""

    __slots__ = ("connection", "ctx", "lookup")

    def __init__(self, ctx: "Context", connection: Connection) -> None:
        self.ctx = ctx
        self.connection = connection
        self.lookup: Lookup = ctx.app.lookups.bind(connection, ctx.actor)

    @property
    def app(self) -> "AppContext":
        """The application."""
        return self.ctx.app

    @property
    def actor(self) -> Actor:
        """The caller."""
        return self.ctx.actor

    async def audit(
        self,
        operation: str,
        changed: Resource | str,
        *,
        organization_id: str,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a change of an object of an organization, in the same transaction (promise 14)."""
        await self.ctx.app.audit.record(
            self.connection,
            self.ctx.actor,
            operation,
            str(changed),
            organization_id=organization_id,
            before=before,
            after=after,
        )

    async def audit_own(
        self,
        operation: str,
        changed: Resource | str,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Record what the caller changed about themselves; each of their organizations sees it."""
        await self.ctx.app.audit.record_own(
            self.connection, self.ctx.actor, operation, str(changed), before=before, after=after
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What one call of a use case rests on: the application, and who calls.

    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        await store.rename(work.connection, application_id=application.id, name=name)
        await work.audit("rename_application", permissions.application(application.id), …)
    """

    app: AppContext
    actor: Actor

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Work]:
        """Open a transaction: it is committed at the end of the block, and rolled back if the block raises."""
        async with self.app.database.transaction() as connection:
            yield Work(self, connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Work]:
        """Open a connection that commits each statement by itself, for reads."""
        async with self.app.database.connection() as connection:
            yield Work(self, connection)


def validate_name(name: str) -> str:
    """Return a name without the white space around it. Raises BadRequest when it is empty or too long."""
    name = name.strip()
    if not name or len(name) > limits.NAME_CHARS:
        raise BadRequest(
            f"A name has 1 to {limits.NAME_CHARS} characters; this one has {len(name)}.", code="InvalidName"
        )
    return name


@contextmanager
def as_invalid_id(field: str) -> Iterator[None]:
    """Raise BadRequest where a look-up finds nothing: 404 is for the object in the path alone ("Wire" 6)."""
    try:
        yield
    except NotFound as error:
        raise BadRequest(f"{field}: {error.messages[0]}", *error.messages[1:], code="UnknownId") from error
