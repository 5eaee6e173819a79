"""Quotas of organizations, and their check.

The check is inside the transaction that adds:

    await quotas.admit(connection, organization_id, {Quota.INSTANCES: 3, Quota.JOBS: 1})

A process counts each quota of an organization at most once a second, and adds what it admits itself. Far from the limit
that is all, and no transaction waits for another one. In the last tenth before the limit, transactions that add take
turns and count, so none exceeds it. Jobs begin and end all the time: they are counted without taking turns
(decision 0098).
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import structlog

from launchbay import limits
from launchbay.clock import Clock
from launchbay.errors import BadRequest, TooManyRequests, Unavailable
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.settings import Settings
from launchbay.store import quotas as store
from launchbay.store.database import Connection, Database, DatabaseError
from launchbay.store.events import StreamBounds
from launchbay.store.organizations import list_tenants
from launchbay.telemetry import metrics
from launchbay.tenants import Tenants, group_of

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
    """What organizations may use, as this process knows it, and the check of it."""

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
