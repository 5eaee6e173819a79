-- name: begin
-- A job that another job runs in its own course; it is not queued. No row: the instance is busy or has changed.
WITH claimed AS (
    UPDATE instances SET job_id = %(job_id)s, status = %(status)s
    WHERE id = %(instance_id)s AND job_id IS NULL AND status = %(prior_status)s
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
-- An instance that another one calls, with the job that keeps it busy, if that job's caller has ended without it.
SELECT i.status, i.job_id, i.application_id, i.version, i.return_values, i.name,
       i.before IS NOT NULL AS is_to_reconfigure,
       j.id IS NOT NULL AND outer_job.status IS DISTINCT FROM 'Executing' AS is_orphaned
FROM instances i
LEFT JOIN (jobs j LEFT JOIN jobs outer_job ON outer_job.id = j.parent_job_id)
    ON j.id = i.job_id AND j.parent_job_id IS NOT NULL
WHERE i.id = %(instance_id)s;

-- name: orphans
-- Jobs whose caller has ended without them, in any instance.
SELECT j.id FROM jobs j JOIN jobs outer_job ON outer_job.id = j.parent_job_id
WHERE j.status = 'Executing' AND outer_job.status <> 'Executing';

-- name: feed
UPDATE instances SET fed_signals = %(signals)s WHERE id = %(instance_id)s AND fed_signals <> %(signals)s;
