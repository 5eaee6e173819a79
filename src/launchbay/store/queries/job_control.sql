-- name: look
-- A job with what decides whether it can be cancelled or resumed.
SELECT id, name, status, plan, cancel_requested, parent_job_id IS NOT NULL AS is_inner, NOT EXISTS (
           SELECT FROM jobs AS newer
           WHERE newer.instance_id = jobs.instance_id AND (newer.created_at, newer.id) > (jobs.created_at, jobs.id)
       ) AS is_newest
FROM jobs WHERE id = %(job_id)s AND instance_id = %(instance_id)s;

-- name: lock_instance
-- While it is held no job of the instance begins or ends.
SELECT status, job_id, parameters, version FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: cancel
-- Asks for the end of the job under way, with the reason as its error. Its worker is interrupted, and the next claim ends it; the
-- fence above 0 makes even a first claim look back.
WITH asked AS (
    UPDATE jobs SET cancel_requested = true, error_message = %(reason)s, fence = greatest(fence, 1)
    WHERE id = %(job_id)s AND status = 'Executing' AND NOT cancel_requested
    RETURNING instance_id
)
SELECT launchbay_interrupt(instance_id) FROM asked;

-- name: cancel_inner
-- The same for a job that another job runs in its own course: that one ends it.
UPDATE jobs SET cancel_requested = true, error_message = %(reason)s, fence = greatest(fence, 1)
WHERE id = %(job_id)s AND status = 'Executing' AND NOT cancel_requested;

-- name: plan
SELECT plan FROM jobs WHERE id = %(job_id)s;

-- name: below
-- The submodules of an instance at every level that are not destroyed.
WITH RECURSIVE below AS (
    SELECT id, name, state, status FROM instances WHERE parent_id = %(instance_id)s
    UNION ALL
    SELECT child.id, child.name, child.state, child.status FROM below JOIN instances child ON child.parent_id = below.id
)
SELECT id, name, state FROM below WHERE status <> 'Destroyed';

-- name: cancellation
-- Why the job is to end, if it is.
SELECT error_message FROM jobs WHERE id = %(job_id)s AND cancel_requested;

-- name: take_over
-- Gives a new job the recorded successes of an earlier one. A call that failed in a later attempt is taken over as under way, so that
-- what this attempt has done inside counts. The fence above 0 makes the first claim read all that.
WITH taken AS (
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, started_at, finished_at)
    SELECT %(job_id)s, path, name, status, percent, is_record, attempt, outputs, started_at, finished_at
    FROM steps WHERE job_id = %(earlier_id)s AND is_record AND status = 'Succeeded'
    UNION ALL
    SELECT %(job_id)s, path, name, 'Executing', percent, is_record, attempt, NULL, started_at, NULL
    FROM steps AS outer_step
    WHERE job_id = %(earlier_id)s AND is_record AND status = 'Failed' AND attempt > 1 AND EXISTS (
        SELECT FROM steps
        WHERE job_id = %(earlier_id)s AND is_record AND status = 'Succeeded'
          AND (starts_with(path, outer_step.path || '~' || outer_step.attempt || '/')
               OR starts_with(path, outer_step.path || '~' || outer_step.attempt || '>'))
    )
    RETURNING status
), ready AS (
    UPDATE jobs SET fence = greatest(fence, 1) WHERE id = %(job_id)s
)
SELECT count(*) FROM taken WHERE status = 'Succeeded';

-- name: note
-- A line in the instance's log that no step has written.
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
VALUES (%(instance_id)s, %(job_id)s, NULL, 'info', %(text)s, now());

-- name: set_parameters
UPDATE instances SET parameters = %(parameters)s WHERE id = %(instance_id)s;
