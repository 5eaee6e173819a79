"""What an organization may use: the quotas, and their check.

The check is inside the transaction that adds:

    await quotas.admit(connection, organization_id, {Quota.INSTANCES: 3, Quota.JOBS: 1})

A process counts each quota of an organization at most once a second, and adds what it admits itself. Far from the limit
that is all, and no transaction waits for another one. In the last tenth before the limit, transactions that add take
turns and count, so none exceeds it. Jobs begin and end all the time: they are counted without taking turns
(decision 0098).
"""

import asyncio
import math
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import structlog

from launchbay import limits
from launchbay.clock import Clock
from launchbay.errors import BadRequest, TooManyRequests, Unavailable
from launchbay.ids import is_id
from launchbay.settings import Settings
from launchbay.shared_counts import SharedCounts
from launchbay.store import quotas as store
from launchbay.store.database import Connection, Database, DatabaseError
from launchbay.store.events import StreamBounds
from launchbay.store.organizations import list_tenants
from launchbay.telemetry import metrics
from launchbay.tenants import Tenants, TurnQueue, group_of

log = structlog.get_logger(__name__)
SAMPLE_S = 1.0
READ_S = 5.0
_COUNTED_WHOLE = 1_000  # transactions of so small a quota always take turns
_MARGIN_MOST = 2_000  # more than servers admit in SAMPLE_S, without knowing of each other
_COUNTED_EACH_TIME = 10_000  # a full organization with more is counted at most once a second
_QUEUE_RETRY_S = 5


class Quota(StrEnum):
    """A bound of each organization, by its name in the API."""

    APPLICATIONS = "applications"
    INSTANCES = "instances"
    JOBS = "jobs"
    QUEUED_JOBS = "queuedJobs"
    WAITING_JOBS = "waitingJobs"
    SCHEDULES = "schedules"
    WEBHOOKS = "webhooks"
    ACCESS_TOKENS = "accessTokens"
    MANIFEST_BYTES = "manifestBytes"
    LOG_BYTES = "logBytes"
    JOURNAL_BYTES = "journalBytes"
    EVENT_STREAMS = "eventStreams"
    REQUESTS = "requestsPerSecond"

    @property
    def label(self) -> str:
        """What it bounds, in words."""
        return _MEANING[self][0].capitalize()


STORED = tuple(quota for quota in Quota if quota not in {Quota.EVENT_STREAMS, Quota.REQUESTS})
_MEANING: Mapping[Quota, tuple[str, str]] = {
    Quota.APPLICATIONS: ("applications", "Delete some"),
    Quota.INSTANCES: ("instances that aren't destroyed", "Destroy some"),
    Quota.JOBS: ("jobs that haven't ended", "Wait until some end, or cancel some"),
    Quota.QUEUED_JOBS: ("jobs that wait for a worker", "Wait until some start"),
    Quota.WAITING_JOBS: ("jobs that only wait", "Wait until some end, or cancel some"),
    Quota.SCHEDULES: ("scheduled workflows", "Cancel some"),
    Quota.WEBHOOKS: ("webhooks", "Delete some"),
    Quota.ACCESS_TOKENS: ("access tokens", "Revoke some"),
    Quota.MANIFEST_BYTES: ("bytes of manifests", "Delete applications that you don't need"),
    Quota.LOG_BYTES: ("bytes of logs", "Delete instances that you don't need"),
    Quota.JOURNAL_BYTES: ("bytes of recorded steps", "Delete instances that you don't need"),
    Quota.EVENT_STREAMS: ("open event streams", "Close some"),
    Quota.REQUESTS: ("requests per second", "Send fewer"),
}


def default_quotas(settings: Settings) -> dict[Quota, int]:
    """Return what every organization may use. 0 allows any amount."""
    return {
        Quota.APPLICATIONS: settings.quota_applications,
        Quota.INSTANCES: settings.quota_instances,
        Quota.JOBS: settings.quota_jobs,
        Quota.QUEUED_JOBS: settings.queue_limit,
        Quota.WAITING_JOBS: settings.quota_waiting_jobs,
        Quota.SCHEDULES: settings.quota_schedules,
        Quota.WEBHOOKS: settings.quota_webhooks,
        Quota.ACCESS_TOKENS: settings.quota_access_tokens,
        Quota.MANIFEST_BYTES: settings.quota_manifests_mib * limits.MIB,
        Quota.LOG_BYTES: settings.quota_logs_mib * limits.MIB,
        Quota.JOURNAL_BYTES: settings.quota_journals_mib * limits.MIB,
        Quota.EVENT_STREAMS: settings.quota_event_streams,
        Quota.REQUESTS: settings.quota_requests_per_s,
    }


@dataclass(slots=True)
class _Sample:
    at_s: float
    used: int
    admitted: int = 0  # by this process since then


def _margin(quota: Quota, allowed: int) -> int:
    """Return how far from the limit transactions begin to take turns."""
    if allowed <= _COUNTED_WHOLE:
        return allowed
    return allowed // 10 if quota is Quota.MANIFEST_BYTES else min(allowed // 10, _MARGIN_MOST)


class Quotas:
    """What organizations may use, as this process knows it, and the check of it. `turns` are those of all requests."""

    def __init__(
        self,
        defaults: Mapping[Quota, int],
        clock: Clock,
        counts: SharedCounts | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        """Count requests in `counts`, and keep `tenants` current."""
        self._defaults = dict(defaults)
        self._clock = clock
        self._counts = counts or SharedCounts()
        self.tenants = tenants or Tenants()
        self._own: dict[tuple[str, str], int] = {}
        self._read_at_s = -math.inf
        self._samples: OrderedDict[tuple[str, Quota], _Sample] = OrderedDict()
        self._first_counts: dict[tuple[str, Quota], asyncio.Future[None]] = {}  # under way
        self.turns = RequestTurns()

    def allowed(self, organization_id: str, quota: Quota) -> int:
        """Return what the organization may use; 0 is any amount."""
        return self._own.get((organization_id, quota), self._defaults[quota])

    def allowed_together(self, organization_id: str, quota: Quota) -> int:
        """Return what all organizations that count together may use.

        It is as much as the one that may use most.
        """
        allowed = [self.allowed(each, quota) for each in self.tenants.together(organization_id)]
        return max(allowed) if all(allowed) else 0

    def event_streams(self, organization_id: str) -> StreamBounds:
        """Return how many event streams an organization may have open."""
        quota = Quota.EVENT_STREAMS
        return StreamBounds(self.allowed(organization_id, quota), self.allowed_together(organization_id, quota))

    async def read_own(self, connection: Connection) -> None:
        """Read what the operator has set for single organizations, at most once a second."""
        now_s = self._clock.monotonic_s()
        if now_s - self._read_at_s >= SAMPLE_S:
            self._read_at_s = now_s
            rows = await store.list_allowed(connection)
            self._own = {(row.organization_id, row.quota): row.allowed for row in rows}

    async def keep_current(self, database: Database) -> None:
        """Read every READ_S what the operator has set, and who created what.

        Checks without a connection need it.
        """
        while True:
            try:
                async with database.connection() as connection:
                    await self.read_own(connection)
                    self.tenants.replace(await list_tenants(connection))
            except (Unavailable, DatabaseError) as error:
                log.info("quotas.not_read", error=str(error), repeats=True)
            await asyncio.sleep(READ_S)

    async def admit(self, connection: Connection, organization_id: str, adding: Mapping[Quota, int]) -> None:
        """Check quotas in the transaction that adds.

        Adding 0 asks whether the quota isn't used up. Raises BadRequest with the code QuotaExceeded; for a full queue,
        which empties by itself, Unavailable.
        Locks that the transaction takes on rows of others must come after this.
        """
        await self.read_own(connection)
        bounded = sorted(quota for quota in adding if self.allowed(organization_id, quota))
        while first := [each for quota in bounded if (each := self._first_counts.get((organization_id, quota)))]:
            await asyncio.wait(first)
        now_s = self._clock.monotonic_s()
        old = [quota for quota in bounded if now_s - self._sample(organization_id, quota).at_s >= SAMPLE_S]
        if old:
            for quota in old:  # whoever comes meanwhile doesn't count again
                self._sample(organization_id, quota).at_s = now_s
            with self._counting_first([(organization_id, quota) for quota in old]):
                await self._count(connection, organization_id, old)
        for quota in bounded:
            await self._admit_one(connection, organization_id, quota, adding[quota])

    async def used(self, connection: Connection, organization_id: str) -> dict[Quota, int]:
        """Count everything that is stored of an organization."""
        counted = await store.count(
            connection, organization_id=organization_id, quotas=list(STORED), most=[None] * len(STORED)
        )
        return dict(zip(STORED, counted, strict=True))

    async def _admit_one(self, connection: Connection, organization_id: str, quota: Quota, adding: int) -> None:
        allowed = self.allowed(organization_id, quota)
        sample = self._sample(organization_id, quota)
        if quota is Quota.QUEUED_JOBS:  # which of the new jobs will wait is not known yet
            if sample.used >= allowed:
                raise self._queue_full(allowed)
            return
        if not adding:
            if sample.used >= allowed:
                raise self._exceeded(organization_id, quota, sample.used)
            return
        if allowed - sample.used - sample.admitted - adding < _margin(quota, allowed):
            if sample.used < allowed or allowed <= _COUNTED_EACH_TIME:
                if quota is not Quota.JOBS:
                    await store.lock(connection, organization_id=organization_id, quota=quota)
                await self._count(connection, organization_id, [quota])
                sample = self._sample(organization_id, quota)
            if sample.used + adding > allowed:
                raise self._exceeded(organization_id, quota, sample.used)
        sample.admitted += adding

    @contextmanager
    def _counting_first(self, keys: Iterable[tuple[str, Quota]]) -> Iterator[None]:
        """Let others wait for counts of which there are no older ones."""
        counted = asyncio.get_running_loop().create_future()
        unknown = [key for key in keys if key not in self._samples]
        self._first_counts.update(dict.fromkeys(unknown, counted))
        try:
            yield
        finally:
            for key in unknown:
                del self._first_counts[key]
            counted.set_result(None)

    async def _count(self, connection: Connection, organization_id: str, quotas: list[Quota]) -> None:
        most = [self.allowed(organization_id, quota) for quota in quotas]
        counted = await store.count(connection, organization_id=organization_id, quotas=quotas, most=most)
        now_s = self._clock.monotonic_s()
        for quota, used in zip(quotas, counted, strict=True):
            self._samples[organization_id, quota] = _Sample(now_s, used)
            self._samples.move_to_end((organization_id, quota))
        while len(self._samples) > limits.QUOTAS_CACHED:
            self._samples.popitem(last=False)

    def _sample(self, organization_id: str, quota: Quota) -> _Sample:
        return self._samples.get((organization_id, quota)) or _Sample(-math.inf, 0)

    def count_request(self, organization_id: str) -> None:
        """Count a request of an organization. Raises TooManyRequests."""
        second = int(self._clock.monotonic_s())
        bounds = {organization_id: (self.allowed(organization_id, Quota.REQUESTS), "Your organization may send")}
        group = group_of(self.tenants.of(organization_id))
        if group != organization_id:
            together = self.allowed_together(organization_id, Quota.REQUESTS)
            bounds[group] = (together, "The organizations that one person created may together send")
        for key, (allowed, who) in bounds.items():
            if allowed and self._counts.in_second(key, second) >= allowed:
                metrics.quota_refusals.labels(Quota.REQUESTS.value).inc()
                what, remedy = _MEANING[Quota.REQUESTS]
                raise TooManyRequests(
                    f"{who} {allowed} {what}.",
                    f"{remedy}, or ask the operator of this server to raise the quota {Quota.REQUESTS}.",
                    retry_after_s=1,
                )
        for key in bounds:
            self._counts.count_in_second(key, second)

    def requests_per_s(self, organization_id: str) -> int:
        """Return how many requests the processes of this server took in the last second."""
        return self._counts.in_second(organization_id, int(self._clock.monotonic_s()) - 1)

    def _exceeded(self, organization_id: str, quota: Quota, used: int) -> BadRequest:
        metrics.quota_refusals.labels(quota.value).inc()
        what, remedy = _MEANING[quota]
        allowed = self.allowed(organization_id, quota)
        has = used if used < allowed else f"at least {used}"  # it counts up to the quota
        return BadRequest(
            f"Your organization may have {allowed} {what}, and has {has}.",
            f"{remedy}, or ask the operator of this server to raise the quota {quota}.",
            code="QuotaExceeded",
        )

    @staticmethod
    def _queue_full(allowed: int) -> Unavailable:
        metrics.quota_refusals.labels(Quota.QUEUED_JOBS.value).inc()
        return Unavailable(
            f"Your organization has {allowed} or more queued jobs, which is the limit.",
            f"Retry in {_QUEUE_RETRY_S} s. Administrators can raise LAUNCHBAY_QUEUE_LIMIT or add workers.",
            code="QueueFull",
            retry_after_s=_QUEUE_RETRY_S,
        )


# The sizes of logs and journals (decision 0098): workers add what they write, every SAVE_S. Deletions are found by
# a look at the rows, which corrects the sums.

SAVE_S = 2.0
MEASURE_S = 30.0  # between two looks for an organization whose rows should be measured
MEASURED_AGAIN_S = 600.0
MEASURED_AT_ONCE = 16  # instances in one statement: with long histories, more would take longer than a statement may
MEASURED_PIECE_S = 0.5  # after a statement that took longer, fewer


class StoredBytes:
    """What this process has written since the last `save`, and whose logs are full."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self._database = database
        self._quotas = quotas
        self._log_bytes: Counter[str] = Counter()
        self._journal_bytes: Counter[str] = Counter()
        self._full: set[str] = set()

    def add(self, organization_id: str, log_bytes: int, journal_bytes: int) -> None:
        """Count what a job of the organization has written."""
        self._log_bytes[organization_id] += log_bytes
        self._journal_bytes[organization_id] += journal_bytes

    def are_logs_full(self, organization_id: str) -> bool:
        """Return whether the quota of logs was used up at the last `save`."""
        return organization_id in self._full

    async def save(self) -> None:
        """Add what was written to the sums. Raises Unavailable."""
        asked = sorted({*self._log_bytes, *self._full})
        if not asked:
            return
        log_bytes, journal_bytes = self._log_bytes, self._journal_bytes
        self._log_bytes, self._journal_bytes = Counter(), Counter()
        try:
            async with self._database.connection() as connection:
                await self._quotas.read_own(connection)
                sums = await store.add_bytes(
                    connection,
                    organization_ids=asked,
                    log_bytes=[log_bytes[each] for each in asked],
                    journal_bytes=[journal_bytes[each] for each in asked],
                )
        except BaseException:
            self._log_bytes.update(log_bytes)
            self._journal_bytes.update(journal_bytes)
            raise
        allowed = {row.organization_id: self._quotas.allowed(row.organization_id, Quota.LOG_BYTES) for row in sums}
        self._full = {row.organization_id for row in sums if 0 < allowed[row.organization_id] <= row.log_bytes}

    async def measure(self) -> bool:
        """Measure one organization if that is due; return whether one was.

        Raises Unavailable, also for an instance that alone takes longer than a statement may: the sums stay.
        """
        async with self._database.connection() as connection:
            organization_id = await store.claim_measurement(connection, interval_s=MEASURED_AGAIN_S)
        if organization_id is None:
            return False
        started_s = time.monotonic()
        log_bytes = journal_bytes = 0
        last_id: str | None = ""
        instances = 1
        while last_id is not None:
            began_s = time.monotonic()
            async with self._database.connection() as connection:
                piece = await store.measure(
                    connection, organization_id=organization_id, after=last_id, instances=instances
                )
            assert piece is not None, "sums give a row"
            last_id = piece.last_id
            log_bytes += piece.log_bytes
            journal_bytes += piece.journal_bytes
            is_quick = time.monotonic() - began_s < MEASURED_PIECE_S
            instances = min(2 * instances, MEASURED_AT_ONCE) if is_quick else max(instances // 4, 1)
        async with self._database.connection() as connection:
            await store.set_measured(
                connection,
                organization_id=organization_id,
                log_bytes=log_bytes,
                journal_bytes=journal_bytes,
                took_s=time.monotonic() - started_s,
            )
        return True


# Turns: while several organizations send requests, each has the same small number of them under way (decision 0098).
# An event loop serves what is ready in order: whoever has most requests under way gets most of it.

TURN_S = 0.25  # a request that takes longer mostly waits, and lets the next one begin
CHUNK_TURN_S = 10.0  # a chunk of a list waits for nothing but the database
COMPUTE_TURN_S = 120.0  # a request that computes holds a connection and a thread until its end
ALONE = 16  # requests under way of an organization that is alone
ANSWERS_ALONE = 4  # answers of requests that have waited
CHUNKS_ALONE = 2  # chunks of lists: more don't get through one interpreter any faster
REST = 1.0  # of an organization that floods, as a multiple of what its request took
REST_AFTER_JOB = 6.0  # the same where the request started a job, which takes several times as long
TOGETHER = 4  # of all, while there are several organizations; at least one of each
ACTIVE_S = 0.1  # after its last request, an organization still counts


def _end_nothing() -> None:
    """End a turn that was never taken."""


@dataclass(slots=True, eq=False)
class _Caller:
    who: str
    seen_at_s: float = 0.0
    under_way: int = 0
    waiting: TurnQueue[asyncio.Future[None]] = field(default_factory=TurnQueue)


class RequestTurns:
    """Lets the requests of organizations begin in turn. The order within an organization stays.

    Organizations that count together have one share, in which they take turns.

    `alone` requests may be under way of an organization that is alone: in `among`, by default in these turns. With
    `rests_alone`, one that floods has one under way and rests even then. Those count too that send requests to other
    servers of this machine.
    """

    def __init__(self, alone: int = ALONE, among: "RequestTurns | None" = None, *, rests_alone: bool = False) -> None:
        self._alone = alone
        self._rests_alone = rests_alone
        self.elsewhere: Mapping[str, int] = {}  # organizations, and to how many other servers of this machine they send
        self._among = among or self
        self._callers: dict[str, _Caller] = {}
        self._pruned_at_s = 0.0

    async def begin(
        self, who: str, most_s: float = TURN_S, rest: float = REST, *, until_s: float | None = None
    ) -> Callable[[], None]:
        """Wait for a turn of a tenant; return what ends it.

        The turn ends by itself after `most_s`. Who has none at `until_s`, a time of the event loop, continues without.
        """
        loop = asyncio.get_running_loop()
        caller = self.notice(who)
        if self._among is not self:
            self._among.notice(who)
        if caller.waiting or (caller.under_way and caller.under_way >= self._most(caller)):
            if not await self._wait(caller, who, until_s):
                return _end_nothing
        else:
            caller.under_way += 1
        began_s = loop.time()
        timer = loop.call_later(most_s, self._end, caller)

        def end() -> None:
            if timer.cancelled() or timer.when() <= loop.time():
                return
            timer.cancel()
            if self._is_flooding(caller):
                loop.call_later(self._rest(caller, rest) * (loop.time() - began_s), self._end, caller)
            else:
                self._end(caller)

        return end

    async def _wait(self, caller: _Caller, tenant: str, until_s: float | None) -> bool:
        admitted = asyncio.get_running_loop().create_future()
        caller.waiting.put(tenant, admitted)
        try:
            async with asyncio.timeout_at(until_s):
                await admitted
        except TimeoutError:
            caller.waiting.discard(tenant, admitted)
            if not admitted.cancelled():  # admitted in the moment in which its time was over
                self._end(caller)
            return False
        except asyncio.CancelledError:
            if admitted.cancelled():
                caller.waiting.discard(tenant, admitted)
            else:
                self._end(caller)
            raise
        return True

    def _end(self, caller: _Caller) -> None:
        caller.under_way -= 1
        while caller.waiting and caller.under_way < self._most(caller):
            admitted = caller.waiting.take()
            if not admitted.done():
                caller.under_way += 1
                admitted.set_result(None)

    def _most(self, caller: _Caller) -> int:
        if self._is_flooding(caller):
            return 1
        others = self._others(caller)
        return max(1, min(self._alone, TOGETHER) // (1 + others)) if others else self._alone

    def _is_flooding(self, caller: _Caller) -> bool:
        """Return whether an organization keeps others waiting.

        It has one request under way then, and rests after each as long as it took.
        """
        return len(caller.waiting) > TOGETHER and (self._rests_alone or self._others(caller) > 0)

    def _rest(self, caller: _Caller, rest: float) -> float:
        """Return the rest for an organization that floods: so that all servers together work for it as one would."""
        servers = 1 + self._among.elsewhere.get(caller.who, 0)
        return servers * (1 + rest) - 1

    def _others(self, caller: _Caller) -> int:
        """Return how many other organizations send requests."""
        self.active()  # forgets others
        active: Collection[str] = self._among.active()
        if self._among.elsewhere:
            active = {*active, *self._among.elsewhere}
        return len(active) - (caller.who in active)

    def active(self) -> Collection[str]:
        """Return the organizations that send requests."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._pruned_at_s > ACTIVE_S / 4:
            self._pruned_at_s = now_s
            self._callers = {
                who: each
                for who, each in self._callers.items()
                if each.under_way or each.waiting or now_s - each.seen_at_s < ACTIVE_S
            }
        return self._callers.keys()

    def under_way(self, who: str) -> int:
        """Return how many turns a tenant and what counts with it have now."""
        group = group_of(who)
        return self._callers[group].under_way if group in self._callers else 0

    def notice(self, who: str) -> _Caller:
        """Count a tenant as one that sends requests."""
        group = group_of(who)
        caller = self._callers.get(group)
        if caller is None:
            caller = self._callers[group] = _Caller(group)
        caller.seen_at_s = asyncio.get_running_loop().time()
        return caller


# Servers of one machine compete for its processors: requests take turns on all of them (decision 0118).

TELL_S = 1.0
_HEARD_S = 2.5  # what was told counts for so long
_LOOKS = 5  # in TELL_S: an organization with a few requests per second is seen
_STILL = 5  # times TELL_S after the last request, a server still tells and hears
_MOST_TOLD = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a machine


def this_machine() -> str:
    """Return what tells this machine from others, or "" if nothing does."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""


class OtherServers:
    """Tells other servers of this machine and database who sends requests here.

    It hears the same of them. A server that is idle for some seconds neither tells nor asks.
    """

    def __init__(self, database: Database, turns: RequestTurns, machine: str) -> None:
        self._database = database
        self.turns = turns
        self._machine = machine
        self._server = secrets.token_hex(8)

    async def keep_current(self) -> None:
        """Exchange every TELL_S until cancelled, at once when requests begin to come."""
        idle = _STILL + 1
        while self._machine:
            seen = set[str]()
            for _ in range(_LOOKS):
                await asyncio.sleep(TELL_S / _LOOKS)
                seen |= {*self.turns.active()}
                if seen and idle > _STILL:
                    break
            idle = 0 if seen else idle + 1
            try:
                if idle <= _STILL:
                    await self.exchange(sorted(filter(is_id, seen))[:_MOST_TOLD])
            except (Unavailable, DatabaseError) as error:
                self.turns.elsewhere = {}
                log.info("other_servers.not_heard", error=str(error), repeats=True)

    async def exchange(self, here: list[str]) -> None:
        """Write down who sends requests here, and read who does elsewhere. Raises Unavailable."""
        async with self._database.connection() as connection:
            heard = await store.exchange_activity(
                connection, server=self._server, machine=self._machine, organizations=here, heard_s=_HEARD_S
            )
        self.turns.elsewhere = Counter(heard)
