"""A history of a million ended jobs, with their steps, logs and events, as the product writes them, made by SQL.

It is copied from one job that really ran. Most of it lies on living instances, the rest on destroyed ones; all of it
is older than what retention is told to keep.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

AGE_DAYS = 40
JOBS_OF_DESTROYED = 20  # on each destroyed instance
JOBS_OF_LIVING = 800  # on each living one
DESTROYED_SHARE = 0.2  # of the jobs
LINES = 3  # of log, in each job
EVENTS = 4  # begun, signal, ended, status
PIECE = 50_000  # jobs in one transaction

_INSTANCES = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values, created_at, destroyed_at)
SELECT launchbay_new_id(), organization_id, application_id, environment_id, version, %(name)s || number, owner_id,
       %(status)s, parameters, components, environment_view, state, return_values, now() - %(days)s * interval '1 day',
       CASE WHEN %(status)s = 'Destroyed' THEN now() - %(days)s * interval '1 day' END
FROM instances, generate_series(1, %(count)s::integer) AS number WHERE id = %(id)s
"""
_JOBS = """
CREATE TEMP TABLE filled ON COMMIT DROP AS
SELECT launchbay_new_id() AS id, of.id AS instance_id,
       now() - %(days)s * interval '1 day' + (%(done)s + row_number() OVER ()) * interval '1 millisecond' AS at,
       NULL::bigint AS lines_after
FROM (SELECT id FROM instances WHERE name LIKE %(name)s || '%%' ORDER BY id OFFSET %(skip)s LIMIT %(take)s) AS of,
     generate_series(1, %(each)s::integer)
"""
ANALYZE = "ANALYZE filled"  # or else joins are planned for a few rows
# With their numbers: the trigger that numbers jobs changes the instance for each of them, which is quadratic.
COPY_JOBS = """
WITH numbered AS (
    SELECT filled.*,
           instances.jobs_begun + row_number() OVER (PARTITION BY filled.instance_id ORDER BY at, filled.id) AS place
    FROM filled JOIN instances ON instances.id = filled.instance_id
), begun AS (
    UPDATE instances SET jobs_begun = jobs_begun + added.jobs
    FROM (SELECT instance_id, count(*) AS jobs FROM filled GROUP BY instance_id) AS added
    WHERE instances.id = added.instance_id
)
INSERT INTO jobs (id, instance_id, number, name, owner_id, status, plan, steps, fence, lines_after, created_at,
                  started_at, finished_at)
SELECT numbered.id, numbered.instance_id, place, name, owner_id, 'Succeeded', plan, steps, fence, numbered.lines_after,
       at, at, at
FROM numbered, jobs WHERE jobs.id = %(job)s
"""
COPY_STEPS = """
INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, started_at, finished_at)
SELECT filled.id, path, name, status, percent, is_record, attempt, outputs, at, at
FROM filled, steps WHERE steps.job_id = %(job)s
"""
# Written before the jobs, as if each job had been accepted just before its first line.
LINES_OF_JOBS = """
WITH written AS (
    INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
    SELECT instance_id, id, 'worker/launch/first', 'info', 'Waits for 0 s, as the manifest says, number ' || number, at
    FROM filled, generate_series(1, %(lines)s::integer) AS number
    ORDER BY at, id, number
    RETURNING job_id, id
)
UPDATE filled SET lines_after = first - 1
FROM (SELECT job_id, min(id) AS first FROM written GROUP BY job_id) AS begun WHERE filled.id = job_id
"""
EVENTS_OF_JOBS = """
INSERT INTO instance_events (instance_id, kind, subject, at)
SELECT instance_id, kind, id, at FROM filled, unnest(ARRAY['begun', 'signal', 'ended', 'status']) AS kind
"""
# Let what was filled in be in partitions of its own, as old as its rows.
_END_BLOCKS = """
WITH begun AS MATERIALIZED (
    SELECT launchbay_begin_block('instance_changes', 0, '{log_lines,instance_events}', '{1,1}')
), aged AS (
    UPDATE number_blocks SET began_at = began_at - %(days)s * interval '1 day' WHERE (SELECT count(*) FROM begun) > 0
)
SELECT
"""


@dataclass(frozen=True)
class Filled:
    """How many rows there are now."""

    jobs: int
    steps: int
    lines: int


def fill(connection: psycopg.Connection[Any], instance: str, jobs: int, name: str) -> Filled:
    """Copy the newest job of an instance, so many times, onto new instances with this name."""
    [(job,)] = connection.execute(
        "SELECT id FROM jobs WHERE instance_id = %s ORDER BY created_at DESC LIMIT 1", [instance]
    ).fetchall()
    destroyed = int(jobs * DESTROYED_SHARE)
    _fill_kind(connection, instance, job, f"{name}-destroyed-", "Destroyed", destroyed, JOBS_OF_DESTROYED)
    _fill_kind(connection, instance, job, f"{name}-living-", "Running", jobs - destroyed, JOBS_OF_LIVING)
    connection.execute(_END_BLOCKS, {"days": AGE_DAYS})
    [counts] = connection.execute(
        "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM steps), (SELECT count(*) FROM log_lines)"
    ).fetchall()
    return Filled(*counts)


def _fill_kind(
    connection: psycopg.Connection[Any], instance: str, job: str, name: str, status: str, jobs: int, each: int
) -> None:
    count = max(1, jobs // each)
    about = {"id": instance, "job": job, "name": name, "status": status, "days": AGE_DAYS, "lines": LINES, "each": each}
    connection.execute(_INSTANCES, about | {"count": count})
    take = max(1, PIECE // each)
    for skip in range(0, count, take):
        with connection.transaction():
            for statement in (_JOBS, ANALYZE, LINES_OF_JOBS, COPY_JOBS, COPY_STEPS, EVENTS_OF_JOBS):
                connection.execute(statement, about | {"skip": skip, "take": take, "done": skip * each})
