-- name: register
INSERT INTO workers (name) VALUES (%(name)s) RETURNING id;

-- name: beat
-- No row: the others have declared this worker dead. The loss of a beat in a power cut is harmless, and without the setting an idle
-- worker would flush the disk for each.
UPDATE workers SET beat_at = clock_timestamp(), session_pid = pg_backend_pid()
WHERE id = %(worker_id)s AND set_config('synchronous_commit', 'off', true) IS NOT NULL RETURNING id;

-- name: list_workers
-- `has_session`: whether the session of the heartbeats exists; null if it isn't known.
SELECT id, beat_at,
       CASE WHEN session_pid IS NOT NULL THEN session_pid IN (SELECT pid FROM pg_stat_activity) END AS has_session
FROM workers;

-- name: claim
SELECT job_id, organization_id, fence
FROM launchbay_claim(%(worker_id)s, %(last)s, %(full)s::text[], %(places)s::integer, %(each)s::integer);

-- name: list_held
-- The jobs under way that a worker holds.
SELECT jobs.id AS job_id, instances.organization_id, jobs.fence
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.worker_id = %(worker_id)s AND jobs.status = 'Executing';

-- name: release
-- Jobs that a worker doesn't hold any more; those that are still under way wait for another one, or are parked for the delay. The
-- fence keeps a repeated or late release from freeing a newer claim of the same worker. `supersede` raises it by one.
WITH freed AS (
    UPDATE jobs SET worker_id = NULL FROM unnest(%(job_ids)s::text[], %(fences)s::integer[]) AS claimed (job_id, fence)
    WHERE jobs.id = claimed.job_id AND worker_id = %(worker_id)s
      AND (jobs.fence = claimed.fence OR status <> 'Executing' AND jobs.fence = claimed.fence + 1)
    RETURNING id, instance_id, status
), under_way AS (
    SELECT instances.organization_id, freed.id FROM freed JOIN instances ON instances.id = freed.instance_id
    WHERE freed.status = 'Executing'
), delayed AS (
    INSERT INTO parked (job_id, organization_id, due_at)
    SELECT id, organization_id, now() + %(delay_s)s::float8 * interval '1 second' FROM under_way
    WHERE %(delay_s)s::float8 IS NOT NULL
    ON CONFLICT DO NOTHING
)
INSERT INTO ready (organization_id, job_id)
SELECT organization_id, id FROM under_way WHERE %(delay_s)s::float8 IS NULL ORDER BY id;

-- name: unregister
DELETE FROM workers WHERE id = %(worker_id)s;

-- name: park
SELECT launchbay_park(%(job_id)s, %(organization_id)s, %(worker_id)s, %(fence)s, %(due_s)s, %(approval_ids)s::text[],
                      %(step_jobs)s::text[], %(step_paths)s::text[], %(steps_end_s)s::float8[]);

-- name: wake
SELECT launchbay_wake(%(job_ids)s::text[]);

-- name: wake_due
-- Parked jobs whose time has come are ready; how many, and in how many seconds the next one is due. Others skip what this locks.
-- With `clock_timestamp()`, which is volatile, each call would read the whole index.
WITH due AS (
    SELECT job_id FROM parked WHERE due_at <= now() ORDER BY due_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
), woken AS (
    DELETE FROM parked USING due WHERE parked.job_id = due.job_id RETURNING parked.organization_id, parked.job_id
), waiting AS (
    INSERT INTO ready (organization_id, job_id) SELECT organization_id, job_id FROM woken RETURNING job_id
)
SELECT (SELECT count(*) FROM waiting) AS jobs,
       (SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM parked WHERE due_at > now()) AS next_s
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- name: list_unheld
-- Jobs of workers that were removed.
SELECT id FROM jobs WHERE worker_id IS NOT NULL AND NOT EXISTS (SELECT FROM workers WHERE workers.id = jobs.worker_id);

-- name: rescue
-- Removes workers whose heartbeat is still the one that was seen, and lets their jobs wait for others; also jobs of workers that
-- were removed before. Returns how many jobs.
WITH dead AS (
    DELETE FROM workers USING unnest(%(worker_ids)s::bigint[], %(beats)s::timestamptz[]) AS seen (id, beat_at)
    WHERE workers.id = seen.id AND workers.beat_at = seen.beat_at RETURNING workers.id
), freed AS (
    UPDATE jobs SET worker_id = NULL
    WHERE worker_id IS NOT NULL
      AND (worker_id IN (SELECT id FROM dead) OR NOT EXISTS (SELECT FROM workers WHERE workers.id = jobs.worker_id))
    RETURNING id, instance_id, status
), waiting AS (
    INSERT INTO ready (organization_id, job_id)
    SELECT instances.organization_id, freed.id FROM freed JOIN instances ON instances.id = freed.instance_id
    WHERE freed.status = 'Executing' ORDER BY freed.id
    RETURNING job_id
)
SELECT count(*) FROM waiting;

-- name: announce
-- Says that jobs are ready, or which job its worker must release.
SELECT pg_notify('launchbay_dispatch', %(payload)s) WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- name: is_free
-- Whether no worker can still run an effect of a job.
SELECT worker_id IS NULL FROM jobs WHERE id = %(job_id)s;
