-- name: take_turn
-- One process at a time; the lock goes with the transaction.
SELECT pg_try_advisory_xact_lock(5064719320041);

-- name: drop_log_lines
-- The oldest lines of all. Numbers rise with time, so the first that is young enough ends the search.
WITH oldest AS (SELECT id, at FROM log_lines ORDER BY id LIMIT %(count)s)
DELETE FROM log_lines USING oldest
WHERE log_lines.id = oldest.id AND oldest.at < now() - %(days)s * interval '1 day';

-- name: drop_audit_entries
WITH oldest AS (SELECT id, at FROM audit_entries ORDER BY id LIMIT %(count)s)
DELETE FROM audit_entries USING oldest
WHERE audit_entries.id = oldest.id AND oldest.at < now() - %(days)s * interval '1 day';

-- name: look_at_jobs
-- The next ended jobs after a place in their order, and whether each may go: every instance keeps its last ones, and a job keeps
-- those that it ran in its own course.
SELECT id, finished_at, (
           SELECT count(*) FROM (
               SELECT FROM jobs newer
               WHERE newer.instance_id = jobs.instance_id AND newer.created_at > jobs.created_at LIMIT %(kept)s
           ) AS newest
       ) >= %(kept)s AS may_go
FROM jobs
WHERE finished_at IS NOT NULL AND (finished_at, id) > (%(after_at)s, %(after_id)s)
  AND finished_at < now() - %(days)s * interval '1 day'
ORDER BY finished_at, id LIMIT %(count)s;

-- name: drop_jobs
DELETE FROM jobs WHERE id = ANY (%(ids)s) AND finished_at IS NOT NULL;

-- name: drop_lines_of_destroyed
-- The logs of destroyed instances whose time is over, before the instances: one could have more lines than a transaction should.
DELETE FROM log_lines WHERE id IN (
    SELECT log_lines.id
    FROM (
        SELECT id FROM instances WHERE destroyed_at < now() - %(days)s * interval '1 day'
        ORDER BY destroyed_at LIMIT %(instances)s
    ) AS over JOIN log_lines ON log_lines.instance_id = over.id
    LIMIT %(count)s
);

-- name: drop_jobs_of_destroyed
DELETE FROM jobs WHERE id IN (
    SELECT jobs.id
    FROM (
        SELECT id FROM instances WHERE destroyed_at < now() - %(days)s * interval '1 day'
        ORDER BY destroyed_at LIMIT %(instances)s
    ) AS over JOIN jobs ON jobs.instance_id = over.id
    WHERE jobs.finished_at IS NOT NULL
    LIMIT %(count)s
);

-- name: drop_destroyed
-- The instances themselves, with what little is left of them. One that still has something alive inside stays.
DELETE FROM instances WHERE id IN (
    SELECT id FROM instances
    WHERE destroyed_at < now() - %(days)s * interval '1 day' AND status = 'Destroyed' AND job_id IS NULL
      AND NOT EXISTS (SELECT FROM instances child WHERE child.parent_id = instances.id AND child.status <> 'Destroyed')
    ORDER BY destroyed_at LIMIT %(instances)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id, organization_id, application_id, name, status;
