-- name: begin
-- A job that another job runs in its own course; it is not queued. No row: the instance is busy or has changed, or the outer job
-- is another worker's.
WITH outer_job AS (
    SELECT id FROM jobs WHERE id = %(parent_job_id)s AND fence = %(parent_fence)s AND status = 'Executing' FOR SHARE
), claimed AS (
    UPDATE instances SET job_id = %(job_id)s, status = %(status)s
    WHERE id = %(instance_id)s AND job_id IS NULL AND status = %(prior_status)s AND EXISTS (SELECT FROM outer_job)
    RETURNING id, owner_id
)
INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps, parent_job_id)
SELECT %(job_id)s, id, %(name)s, owner_id, %(job_status)s, %(plan)s, %(steps)s, %(parent_job_id)s FROM claimed
RETURNING id;

-- name: outcome
SELECT id, status, error_message, results FROM jobs WHERE id = %(job_id)s;

-- name: outcomes
SELECT id, status, error_message, results FROM jobs WHERE id = ANY(%(job_ids)s) ORDER BY created_at;

-- name: target
-- An instance that another one calls.
SELECT status, job_id, application_id, version, return_values, name, before IS NOT NULL AS is_to_reconfigure
FROM instances WHERE id = %(instance_id)s;

-- name: is_held
SELECT true FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing';

-- name: unclaimed
-- The queued job that keeps an instance busy, if it waits for a worker for longer than that.
SELECT jobs.id FROM jobs JOIN instances ON instances.job_id = jobs.id
WHERE instances.id = %(instance_id)s AND jobs.fence = 0 AND jobs.parent_job_id IS NULL
  AND jobs.created_at < now() - %(after_s)s * interval '1 second';

-- name: under_way
SELECT id FROM jobs WHERE parent_job_id = %(parent_job_id)s AND status = 'Executing';

-- name: left_behind
-- Submodules of an instance that none of its components leads to any more, but which could not be destroyed when they should.
SELECT id FROM instances WHERE parent_id = %(instance_id)s AND status <> 'Destroyed' AND id NOT IN (
    SELECT target_id FROM instance_links WHERE instance_id = %(instance_id)s) ORDER BY id;

-- name: orphans
-- Jobs whose caller has ended without them, or was deleted with its instance.
SELECT j.id FROM jobs j LEFT JOIN jobs outer_job ON outer_job.id = j.parent_job_id
WHERE j.parent_job_id IS NOT NULL AND j.status = 'Executing' AND outer_job.status IS DISTINCT FROM 'Executing';

-- name: feed
UPDATE instances SET fed_signals = %(signals)s WHERE id = %(instance_id)s AND fed_signals <> %(signals)s;
