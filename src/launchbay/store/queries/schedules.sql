-- name: take_due
-- Locks what is due and free to start, oldest first; others skip it.
SELECT schedules.id, schedules.instance_id, schedules.kind, schedules.workflow, schedules.parameters, schedules.owner_id,
       schedules.due_at
FROM schedules
WHERE due_at <= now() AND NOT blocked
ORDER BY due_at, id
LIMIT %(count)s
FOR UPDATE SKIP LOCKED;

-- name: lock_target
-- The instance that a due schedule is for. The lock orders this against the end of its job. What was due before comes
-- first, even if another process holds it or it still waits for the end of a job.
SELECT status, job_id, application_id, version, NOT EXISTS (
           SELECT FROM schedules
           WHERE schedules.instance_id = instances.id AND schedules.due_at <= now()
             AND (schedules.due_at, schedules.id) < (%(due_at)s, %(schedule_id)s)
       ) AS is_turn
FROM instances WHERE id = %(instance_id)s FOR UPDATE;

-- name: block
-- The instance is busy, or something else is due on it before: wait for the end of that job.
WITH waiting AS (
    UPDATE instances SET work_waiting = true WHERE id = %(instance_id)s
)
UPDATE schedules SET blocked = true WHERE id = %(schedule_id)s;

-- name: unblock
-- A job has ended: what waited for it is free to start.
WITH idle AS (
    UPDATE instances SET work_waiting = false WHERE id = %(instance_id)s AND job_id IS NULL RETURNING id
)
UPDATE schedules SET blocked = false FROM idle WHERE schedules.instance_id = idle.id AND schedules.blocked;

-- name: unblock_forgotten
-- After a crash between a job's end and its `unblock`.
WITH idle AS (
    UPDATE instances SET work_waiting = false WHERE work_waiting AND job_id IS NULL RETURNING id
)
UPDATE schedules SET blocked = false FROM idle WHERE schedules.instance_id = idle.id AND schedules.blocked;

-- name: remove
DELETE FROM schedules WHERE id = %(schedule_id)s;

-- name: insert
INSERT INTO schedules (id, instance_id, kind, workflow, parameters, owner_id, due_at)
VALUES (%(schedule_id)s, %(instance_id)s, 'workflow', %(workflow)s, %(parameters)s, %(owner_id)s,
        now() + %(interval_ms)s * interval '1 millisecond');

-- name: of_instance
SELECT id, workflow, due_at FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'workflow' ORDER BY due_at, id;

-- name: reschedule
UPDATE schedules
SET due_at = now() + %(interval_ms)s * interval '1 millisecond', parameters = coalesce(%(parameters)s, parameters),
    blocked = false
WHERE id = %(schedule_id)s AND kind = 'workflow'
RETURNING id;

-- name: cancel
DELETE FROM schedules WHERE id = %(schedule_id)s AND kind = 'workflow' RETURNING id;
