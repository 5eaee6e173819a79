"""What a process counts and times, for Prometheus. `docs/reference/metrics.md` lists it; a test compares the two.

The counters are of this process, whatever is started in it; what only the database knows is sampled when it is asked
for (`exposition`). Labels have few values: never an id, a secret, or a name that the settings don't list.

Server processes of one supervisor keep their values in files that all of them read, one for each process number: a
process that is started again continues the counters of its predecessor. Any of them answers for all.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, values
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from launchbay.errors import Unavailable
from launchbay.limits import METRIC_NAMES
from launchbay.store import fleet as store_fleet
from launchbay.store import jobs as store_jobs
from launchbay.store.database import Database, DatabaseError

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # the library's own
PROCESS_VARIABLE = "LAUNCHBAY_SERVER_PROCESS"
_NUMBER = os.environ.get(PROCESS_VARIABLE, "")
_DIRECTORY = os.environ.get(DIRECTORY_VARIABLE, "") if _NUMBER else ""
if _DIRECTORY:  # before the first metric is made
    values.ValueClass = values.MultiProcessValue(lambda: _NUMBER)  # type: ignore[no-untyped-call]  # it has no types
    Path(_DIRECTORY, f"{_NUMBER}.pid").write_text(str(os.getpid()), "ascii")

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
_ANSWER_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_WORK_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14_400)
_LATE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600)
requests = Histogram(
    "launchbay_http_request_seconds",
    "Time from the head of a request to the end of its answer, without event streams.",
    ("operation", "status"),
    buckets=_ANSWER_S,
    registry=REGISTRY,
)
requests_of = cache(requests.labels)  # there are as many as operations and statuses; the library's lookup is slow
refusals = Counter(
    "launchbay_http_refusals", "Requests answered with an error, by error code.", ("code",), registry=REGISTRY
)
quota_refusals = Counter(
    "launchbay_quota_refusals",
    "Requests refused because their organization has used up a quota, by quota.",
    ("quota",),
    registry=REGISTRY,
)
connections_closed = Counter(
    "launchbay_http_connections_closed",
    "Connections closed because there were too many: to make room, or refused at once.",
    ("reason",),
    registry=REGISTRY,
)
rule_failures = Counter(
    "launchbay_change_rule_failures",
    "Rules about changes whose condition failed, so that they refused a change or warned.",
    registry=REGISTRY,
)
event_streams = Gauge(
    "launchbay_event_streams_open",
    "Event streams that clients listen to.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
queue_wait = Histogram(
    "launchbay_job_wait_seconds",
    "Time from the acceptance of a job to its first start.",
    buckets=_LATE_S,
    registry=REGISTRY,
)
jobs = Histogram(
    "launchbay_job_seconds",
    "Time from the start of a job in this process to its end, by kind and final status.",
    ("kind", "status"),
    buckets=_WORK_S,
    registry=REGISTRY,
)
jobs_of = cache(jobs.labels)
jobs_of_users = Histogram(
    "launchbay_ended_job_seconds",
    "Time from the first start of a job to its end, by application, environment and outcome.",
    ("application", "environment", "outcome"),
    buckets=(1, 10, 60, 300, 1800, 7200),
    registry=REGISTRY,
)
labeled_jobs = Histogram(
    "launchbay_labeled_job_seconds",
    "Time from the first start of a job to its end, by each listed label of its instance, and outcome.",
    ("label", "value", "outcome"),
    buckets=(1, 10, 60, 300, 1800, 7200),
    registry=REGISTRY,
)
dispatch_connected = Gauge(
    "launchbay_dispatch_connected",
    "1 if this process can send and get wake-ups, else 0. Only with `dispatch_url`.",
    ("way",),
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
announcements = Counter(
    "launchbay_dispatch_announcements",
    "Announcements of jobs that are ready, by their way.",
    ("way",),
    registry=REGISTRY,
)
wake_ups = Counter(
    "launchbay_dispatch_wake_ups",
    "Wake-ups that this process was given: taken, or passed on because it had no free slot.",
    ("outcome",),
    registry=REGISTRY,
)
recoveries = Counter("launchbay_job_recoveries", "Jobs taken over from a lost worker.", registry=REGISTRY)
steps = Histogram(
    "launchbay_step_seconds",
    "Time of a step with all its attempts, by final status, without steps that have no effect of their own.",
    ("status",),
    buckets=_WORK_S,
    registry=REGISTRY,
)
steps_with = cache(steps.labels)
lateness = Histogram(
    "launchbay_schedule_lateness_seconds",
    "How late a due schedule, expiry or trigger became a job, by its kind.",
    ("kind",),
    buckets=_LATE_S,
    registry=REGISTRY,
)
jobs_running = Gauge(
    "launchbay_jobs_running", "Jobs that this process runs now.", registry=REGISTRY, multiprocess_mode="livesum"
)


def _of_database(name: str, documentation: str) -> Gauge:
    """Return a gauge of all processes: the newest sample counts."""
    return Gauge(name, documentation, registry=REGISTRY, multiprocess_mode="mostrecent")


queue_depth = _of_database("launchbay_queue_depth", "Jobs of all processes that are ready to start.")
jobs_parked = _of_database(
    "launchbay_jobs_parked", "Jobs of all processes that wait without a worker for a time or an event."
)
jobs_under_way = _of_database("launchbay_jobs_under_way", "Jobs of all processes that haven't ended.")
overdue = _of_database("launchbay_schedules_overdue", "Schedules that are due and free to start.")
oldest_overdue = _of_database("launchbay_schedules_oldest_overdue_seconds", "Time since the oldest of them became due.")
drifted_instances = _of_database("launchbay_drifted_instances", "Instances that a check found changed.")
instances_with_changed_secrets = _of_database(
    "launchbay_instances_with_changed_secrets", "Instances whose steps read a secret that has changed since."
)
workers = _of_database("launchbay_workers", "Workers with a recent heartbeat.")
last_backup = _of_database(
    "launchbay_last_backup_timestamp_seconds",
    "When the last backup that `launchbay backup` has completed began. 0 without one.",
)
clock_ahead = _of_database(
    "launchbay_clock_ahead_seconds",
    "How far the clock of this machine is ahead of the database's. Below 0: behind.",
)
certificate_end = Gauge(
    "launchbay_tls_certificate_expiry_timestamp_seconds",
    "When the certificate of this server expires. 0 without `tls_certificate`.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
pool_connections = Gauge(
    "launchbay_database_pool_connections",
    "Database connections of this process, by state.",
    ("state",),
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
pool_waiting = Gauge(
    "launchbay_database_pool_waiting",
    "Tasks of this process that wait for a database connection.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
tasks = Gauge(
    "launchbay_asyncio_tasks",
    "Tasks of the event loop of this process.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
database_up = _of_database("launchbay_database_up", "1 if the database answers, else 0.")


def job_claimed(fence: int, waited_s: float) -> None:
    """Time the wait that a job's first claim ends."""
    if fence == 1:
        queue_wait.observe(waited_s)


class NamedJobs:
    """Counts jobs by the applications, environments and labels that the settings list.

    All others are `other`, and so is what comes after the first METRIC_NAMES of each. An organization brings no more
    than four times as many as are free. Without patterns, nothing is counted. `labels` lists names, or `name=pattern`
    for some values.
    """

    def __init__(self, database: Database, applications: str, environments: str, labels: str) -> None:
        self._database = database
        self._applications = _Names(_listed(applications))
        self._environments = _Names(_listed(environments))
        patterns: dict[str, list[str]] = {}
        for each in _listed(labels):
            name, _, pattern = each.partition("=")
            patterns.setdefault(name.strip(), []).append(pattern.strip() or "*")
        self._labels = {name: _Names(listed) for name, listed in patterns.items()}
        self._known: dict[tuple[str, str], tuple[float, store_jobs.NamesRow]] = {}

    async def labels_of(self, instance_id: str) -> Mapping[str, str]:
        """Return the listed labels of an instance.

        None if the database is away, or after a job has deleted the instance.
        """
        if not self._labels:
            return {}
        try:
            async with asyncio.timeout(SAMPLE_S), self._database.connection() as connection:
                text = await store_fleet.get_labels["instance"](connection, id=instance_id)
        except (TimeoutError, Unavailable):
            return {}
        return {name: value for name, value in msgspec.json.decode(text or "{}").items() if name in self._labels}

    async def ended(
        self,
        organization_id: str,
        application_id: str,
        environment_id: str,
        labels: Mapping[str, str],
        outcome: str,
        duration_s: float,
    ) -> None:
        """Count a job. If the database is away, it counts as one of another application and environment."""
        for name, value in labels.items():
            labeled_jobs.labels(name, self._labels[name].label(value, organization_id), outcome).observe(duration_s)
        if not (self._applications.patterns or self._environments.patterns):
            return
        names = await self._names(organization_id, application_id, environment_id)
        jobs_of_users.labels(
            self._applications.label(names.application, organization_id),
            self._environments.label(names.environment, organization_id),
            outcome,
        ).observe(duration_s)

    async def _names(self, organization_id: str, application_id: str, environment_id: str) -> store_jobs.NamesRow:
        key = (application_id, environment_id)
        now_s = time.monotonic()
        until_s, names = self._known.get(key, (0.0, store_jobs.NamesRow(None, None)))
        if now_s < until_s:
            return names
        try:
            async with asyncio.timeout(SAMPLE_S), self._database.connection() as connection:
                found = await store_jobs.get_names(
                    connection,
                    organization_id=organization_id,
                    application_id=application_id,
                    environment_id=environment_id,
                )
        except (TimeoutError, Unavailable):
            return names
        if len(self._known) >= _PAIRS_KNOWN:
            self._known.clear()
        names = found or names
        self._known[key] = (now_s + _NAMES_S, names)
        return names


def _listed(text: str) -> list[str]:
    return [each for part in text.split(",") if (each := part.strip())]


class _Names:
    """Which values a label of a metric may have."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self._seen: dict[str, str] = {}  # by name, whose it is

    def label(self, name: str | None, organization_id: str) -> str:
        if name is None or not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return OTHER
        if name not in self._seen:
            own = sum(each == organization_id for each in self._seen.values())
            if own >= 4 * (METRIC_NAMES - len(self._seen)):  # nobody's names keep those of others out
                return OTHER
            self._seen[name] = organization_id
        return name


OTHER = "other"
_NAMES_S = 60.0  # a renamed application keeps its label that long
_PAIRS_KNOWN = 10_000
SAMPLE_S = 2.0  # a scrape must not wait for a database that is away: then its figures are missing, and it says so
SAMPLE_INTERVAL_S = 5.0  # of processes that don't know when another one is asked for their metrics
FRESH_S = 10.0  # a heartbeat of this age is of a worker that may live


async def exposition(database: Database) -> bytes:
    """Return everything of all processes in Prometheus' text format."""
    await sample(database)
    return generate_latest(_all_processes() if _DIRECTORY else REGISTRY)


async def sample(database: Database) -> None:
    """Sample what isn't counted. A database that is away leaves out what only it knows."""
    sample_process(database)
    try:
        async with asyncio.timeout(SAMPLE_S), database.connection() as connection:
            asked_at_s = time.time()
            load = await store_jobs.sample_load(connection, fresh_s=FRESH_S)
            clock_ahead.set((asked_at_s + time.time()) / 2 - load.clock_s if load else float("nan"))
    except (TimeoutError, Unavailable):
        load = None
        clock_ahead.set(float("nan"))
    database_up.set(load is not None)
    await _count_changed_secrets(database, is_up=load is not None)
    if load is None:
        nothing = float("nan")
        load = store_jobs.LoadRow(*[nothing] * len(store_jobs.LoadRow._fields))  # type: ignore[arg-type]  # not a number: unknown
    queue_depth.set(load.queue_depth)
    jobs_parked.set(load.jobs_parked)
    jobs_under_way.set(load.jobs_under_way)
    overdue.set(load.overdue)
    oldest_overdue.set(load.oldest_overdue_s)
    drifted_instances.set(load.drifted_instances)
    workers.set(load.workers)
    last_backup.set(load.backed_up_at_s or 0.0)


_COUNT_S = 60.0  # between counts of what takes long to count
_counts_at_s: WeakKeyDictionary[Database, float] = WeakKeyDictionary()  # when each is counted next


async def _count_changed_secrets(database: Database, *, is_up: bool) -> None:
    """Count instances with changed secrets if the last count is old.

    A count that fails leaves out only this figure.
    """
    now_s = time.monotonic()
    if is_up and now_s < _counts_at_s.get(database, 0.0):
        return
    found: int | None = None
    if is_up:
        _counts_at_s[database] = now_s + _COUNT_S
        with suppress(TimeoutError, Unavailable, DatabaseError):
            async with asyncio.timeout(SAMPLE_S), database.connection() as connection:
                found = await store_jobs.count_with_changed_secrets(connection)
    else:
        _counts_at_s.pop(database, None)
    instances_with_changed_secrets.set(float("nan") if found is None else found)


class _Processes(Collector):
    """CPU time, memory and files of each server process of the supervisor."""

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for file in sorted(Path(_DIRECTORY).glob("*.pid")):
            pid = file.read_text("ascii")
            for found in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]  # pid is a text
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                for sample in found.samples:
                    family.add_sample(sample.name, {"process": file.stem}, sample.value)
        return families.values()


def _all_processes() -> CollectorRegistry:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, _DIRECTORY)  # type: ignore[no-untyped-call]  # it has no types
    registry.register(_Processes())
    PlatformCollector(registry=registry)
    return registry


def sample_process(database: Database) -> None:
    """Sample the tasks and database connections of this process."""
    tasks.set(len(asyncio.all_tasks()))
    pool_connections.labels("idle").set(database.pool.idle)
    pool_connections.labels("used").set(database.pool.used)
    pool_waiting.set(database.pool.waiting)
