"""The metrics of a process as text: counters as they are, and the load of the database as it is at that moment."""

import asyncio

from prometheus_client.exposition import generate_latest

from launchbay.errors import Unavailable
from launchbay.observe import metrics
from launchbay.store import load
from launchbay.store.pool import Database

SAMPLE_S = 2.0  # a scrape must not wait for a database that is away: then its figures are missing, and it says so
FRESH_S = 10.0  # a heartbeat of this age is of a worker that may live


async def exposition(database: Database) -> bytes:
    """Return everything in Prometheus' text format. A database that is away leaves out what only it knows."""
    metrics.tasks.set(len(asyncio.all_tasks()))
    _sample_pool(database)
    try:
        async with asyncio.timeout(SAMPLE_S), database.connection() as connection:
            sample = await load.sample(connection, fresh_s=FRESH_S)
    except (TimeoutError, Unavailable):
        sample = None
    metrics.database_up.set(sample is not None)
    if sample is None:
        nothing = float("nan")
        sample = load.LoadRow(*[nothing] * len(load.LoadRow._fields))  # type: ignore[arg-type]  # not a number: unknown
    metrics.queue_depth.set(sample.queue_depth)
    metrics.jobs_under_way.set(sample.jobs_under_way)
    metrics.overdue.set(sample.overdue)
    metrics.oldest_overdue.set(sample.oldest_overdue_s)
    metrics.workers.set(sample.workers)
    return generate_latest(metrics.REGISTRY)


def _sample_pool(database: Database) -> None:
    stats = database.pool.get_stats()
    size, available = stats.get("pool_size", 0), stats.get("pool_available", 0)
    metrics.pool_connections.labels("idle").set(available)
    metrics.pool_connections.labels("used").set(size - available)
    metrics.pool_waiting.set(stats.get("requests_waiting", 0))
