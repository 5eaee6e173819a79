-- name: get_next_s
-- In how many seconds the next one of those that `take_due` takes is due.
SELECT extract(epoch FROM due_at - now())::float8
FROM schedules
WHERE NOT blocked
  AND (kind <> 'signals' OR (SELECT state_version FROM instances WHERE id = schedules.instance_id) <= %(state_version)s)
ORDER BY due_at
LIMIT 1;

-- name: take_due
-- Locks what is due and free to start, oldest first; others skip it. A look changes the state of an instance: one that a newer
-- program has stored is for a newer program's look. What time it is, is told by the clock that decides.
-- The API schedules nothing for the moment in which it is asked: that is the start of what a destroy taken back had stopped.
SELECT schedules.id, schedules.instance_id, schedules.kind, schedules.workflow, schedules.parameters, schedules.owner_id,
       schedules.due_at, schedules.component, now() AS taken_at,
       CASE WHEN due_at = created_at THEN 'undo'
            WHEN undo_workflow IS NOT NULL AND launchbay_is_idle_destroy(schedules.instance_id, schedules.created_at) THEN 'rule'
            ELSE 'person' END AS asked_by
FROM schedules
WHERE due_at <= now() AND NOT blocked
  AND (kind <> 'signals' OR (SELECT state_version FROM instances WHERE id = schedules.instance_id) <= %(state_version)s)
ORDER BY due_at, id
LIMIT %(count)s
FOR UPDATE SKIP LOCKED;

-- name: lock_target
-- The instance that a due schedule is for. The lock orders this against the end of its job. What was due before comes
-- first, even if another process holds it or it still waits for the end of a job.
-- It never waits: who fires holds up to twenty schedules and instances, which the ends of jobs wait for in their turn
-- (they delete the schedules of what they destroyed, and tell the consumers of a signal). FOR UPDATE makes those wait
-- who refer to the instance: a signal that is told while an older one is being fired would be taken for the same, and
-- be lost with it. And a signal that is being told right now is told before it is fired.
SELECT status, job_id, organization_id, application_id, environment_id, version, NOT EXISTS (
           SELECT FROM schedules
           WHERE schedules.instance_id = instances.id AND schedules.due_at <= now()
             AND (schedules.due_at, schedules.id) < (%(due_at)s, %(schedule_id)s)
       ) AS is_turn, (SELECT access_stamp FROM organizations WHERE organizations.id = instances.organization_id) AS organization_stamp
FROM instances WHERE id = %(instance_id)s FOR UPDATE SKIP LOCKED;

-- name: target_exists
-- Whether the instance exists that another transaction may be changing.
SELECT EXISTS (SELECT FROM instances WHERE id = %(instance_id)s);

-- name: block
-- The instance is busy: wait for the end of its job. Whoever calls this holds the instance, so that the end comes after it.
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

-- name: delete
DELETE FROM schedules WHERE id = ANY (%(schedule_ids)s::text[]);

-- name: insert
INSERT INTO schedules (id, instance_id, organization_id, kind, workflow, parameters, owner_id, due_at)
VALUES (%(schedule_id)s, %(instance_id)s, %(organization_id)s, 'workflow', %(workflow)s, %(parameters)s, %(owner_id)s,
        now() + %(interval_ms)s * interval '1 millisecond');

-- name: insert_waiting_destroy
-- A destroy that people can take back until it is due: at the end of the instance's life at the latest.
INSERT INTO schedules (id, instance_id, organization_id, kind, workflow, owner_id, due_at, undo_workflow)
VALUES (%(schedule_id)s, %(instance_id)s, %(organization_id)s, 'workflow', 'destroy', %(owner_id)s,
        least(now() + %(grace_ms)s::bigint * interval '1 millisecond', %(destroy_at)s::timestamptz), %(undo_workflow)s)
RETURNING due_at;

-- name: get_end
-- When an instance ends, as far as that is known.
SELECT launchbay_ends_at(%(instance_id)s);

-- name: get_ends
-- What ends an instance, as far as that is known, with who asked for a destroy that can be taken back. A submodule goes with another one.
SELECT ends.lifetime, ends.scheduled, ends.undoable, ends.is_idle, launchbay_outermost(%(instance_id)s) <> %(instance_id)s AS is_submodule,
       waiting.created_at, waiting.owner_id, waiting.undo_workflow
FROM launchbay_ends(%(instance_id)s) AS ends
LEFT JOIN LATERAL (
    SELECT created_at, owner_id, undo_workflow FROM schedules
    WHERE instance_id = launchbay_outermost(%(instance_id)s) AND undo_workflow IS NOT NULL ORDER BY due_at LIMIT 1
) AS waiting ON true;

-- name: get_waiting_destroy
SELECT due_at, created_at, owner_id, undo_workflow, launchbay_is_idle_destroy(schedules.instance_id, schedules.created_at) AS is_idle
FROM schedules
WHERE instance_id = %(instance_id)s AND undo_workflow IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: take_back_destroy
-- Deletes it unless it fires right now; who fires it holds the row. The instance is locked first, as by who fires: the deletion changes
-- the end that `fleet` has.
WITH held AS (SELECT id FROM instances WHERE id = %(instance_id)s FOR KEY SHARE)
DELETE FROM schedules USING held WHERE schedules.instance_id = held.id AND undo_workflow IS NOT NULL RETURNING undo_workflow;

-- name: list_by_instance
SELECT id, workflow, coalesce(was_due_at, due_at) AS due_at, CASE WHEN kind = 'cron' THEN component ELSE '' END AS component,
       cancelled_at, cancelled_by, launchbay_ends_at(instance_id) AS ends_at
FROM schedules WHERE instance_id = %(instance_id)s AND kind IN ('workflow', 'cron') ORDER BY schedules.due_at, id;

-- name: list_by_organization
-- What is scheduled in a time, the next one first. A cancelled one of the manifest has the time at which it would have run.
SELECT id, workflow, due_at, component, cancelled_at, cancelled_by, launchbay_ends_at(instance_id) AS ends_at, owner_id, instance_id,
       instance, application_id, environment_id, version
FROM (
    SELECT schedules.id, schedules.workflow, coalesce(was_due_at, due_at) AS due_at,
           CASE WHEN kind = 'cron' THEN component ELSE '' END AS component, cancelled_at, cancelled_by, schedules.owner_id,
           instances.id AS instance_id, instances.name AS instance, instances.application_id, instances.environment_id, instances.version
    FROM instances JOIN schedules ON schedules.instance_id = instances.id
    WHERE instances.organization_id = %(organization_id)s AND schedules.kind IN ('workflow', 'cron')
) AS scheduled
WHERE (due_at, id) > (%(since)s, %(after_id)s) AND due_at < %(until)s AND (cancelled_at IS NULL OR due_at >= %(cancelled_since)s)
      AND {visible(application_id, instance_id, environment_id)}
ORDER BY due_at, id LIMIT %(count)s;

-- name: reschedule
-- Who moves what a person scheduled answers for it from now on.
UPDATE schedules
SET due_at = now() + %(interval_ms)s * interval '1 millisecond', parameters = coalesce(%(parameters)s, parameters),
    owner_id = CASE WHEN kind = 'workflow' THEN %(user_id)s ELSE owner_id END,
    blocked = false, was_due_at = NULL, cancelled_at = NULL, cancelled_by = NULL
WHERE id = %(schedule_id)s AND kind IN ('workflow', 'cron')
RETURNING due_at;

-- name: cancel
-- The instance is locked first, as in `take_back_destroy`.
WITH held AS (SELECT id FROM instances WHERE id = %(instance_id)s FOR KEY SHARE)
DELETE FROM schedules USING held
WHERE schedules.id = %(schedule_id)s AND schedules.instance_id = held.id AND kind = 'workflow' RETURNING schedules.id, undo_workflow;

-- name: cancel_recurring
-- One of the manifest's own schedules. It stays, with a time that never comes, so that no launch of a member of a Scaler and no
-- end of a job starts it again; a launch or a reconfiguration of the instance does.
UPDATE schedules
SET due_at = '9999-12-31T00:00:00Z', was_due_at = due_at, cancelled_at = now(), cancelled_by = %(user_id)s, blocked = false
WHERE id = %(schedule_id)s AND kind = 'cron' AND cancelled_at IS NULL
RETURNING id;

-- name: resume_cancelled
-- A repeated launch starts them again: the statement that ends it writes them.
DELETE FROM schedules USING jobs
WHERE jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing'
  AND schedules.instance_id = jobs.instance_id AND schedules.kind = 'cron' AND schedules.cancelled_at IS NOT NULL;

-- name: schedule_next
-- The next time of one of the manifest's own schedules, which keeps its id.
INSERT INTO schedules (id, instance_id, kind, workflow, component, owner_id, due_at)
VALUES (%(schedule_id)s, %(instance_id)s, 'cron', %(workflow)s, %(component)s, %(owner_id)s, %(due_at)s)
ON CONFLICT DO NOTHING;

-- name: delete_own
-- Ends the manifest's own schedules for the worker that holds the job: all of them, or those of some components, with what
-- waits to be triggered there.
DELETE FROM schedules USING jobs
WHERE jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing'
  AND schedules.instance_id = jobs.instance_id
  AND CASE WHEN %(components)s::text[] IS NULL THEN schedules.kind = 'cron'
           ELSE schedules.kind IN ('cron', 'trigger') AND schedules.component = ANY (%(components)s::text[]) END;

-- name: get_consumer
-- What an instance needs for a look at the signals of those that it depends on.
SELECT organization_id, state, return_values, fed_signals,
       (SELECT json_object_agg(component, json_build_array(target_id, kind, binding))
        FROM instance_links WHERE instance_links.instance_id = instances.id)::text AS links
FROM instances WHERE id = %(instance_id)s;

-- name: list_linked_values
SELECT id, return_values FROM instances WHERE id = ANY (%(instance_ids)s::text[]);

-- name: save_refreshed_signals
-- What a look has brought: new signals, and what follows from them.
WITH seen AS (
    UPDATE instances SET state = %(state)s, state_version = %(state_version)s, return_values = %(return_values)s WHERE id = %(instance_id)s
    RETURNING id, owner_id
)
SELECT launchbay_follow_up(id, owner_id, NULL, %(signals_changed)s, %(next_kinds)s, %(next_components)s,
                           %(next_workflows)s, %(next_times)s, %(fed_ids)s, %(fed_signals)s)
FROM seen;

-- name: postpone_triggers
-- A person whom a triggered workflow has kept out goes before the next one.
WITH postponed AS (
    UPDATE schedules SET due_at = instances.person_first_until
    FROM instances
    WHERE instances.id = %(instance_id)s AND schedules.instance_id = instances.id AND schedules.kind = 'trigger'
      AND instances.person_first_until > now() AND schedules.due_at < instances.person_first_until
    RETURNING schedules.id
)
SELECT EXISTS (SELECT FROM postponed);

-- name: get_next_turn
-- What is due first on an instance, by the due times.
SELECT id, instance_id, kind, workflow, parameters, owner_id, due_at, component, now() AS taken_at, 'person' AS asked_by
FROM schedules
WHERE instance_id = %(instance_id)s AND due_at <= now()
ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED;
