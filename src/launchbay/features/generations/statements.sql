-- name: list_by_instance
-- Generations of an instance, the newest first, those before the number `before`.
SELECT number, version, revision_id, parameters, submodules, environment_view, job_id, owner_id, cause_kind, cause_id, created_at
FROM generations
WHERE instance_id = %(instance_id)s AND (%(before)s::integer IS NULL OR number < %(before)s)
ORDER BY number DESC LIMIT %(count)s;

-- name: get
SELECT number, version, revision_id, parameters, submodules, environment_view, job_id, owner_id, cause_kind, cause_id, created_at
FROM generations WHERE instance_id = %(instance_id)s AND number = %(number)s;

-- name: list_newest
-- The two newest generations of an instance, and whether the instance has the configuration of each.
SELECT number, generations.version, generations.revision_id, generations.parameters, generations.submodules, generations.environment_view,
       generations.job_id, generations.owner_id, cause_kind, cause_id, generations.created_at,
       (generations.version, generations.revision_id, generations.parameters, generations.submodules) IS NOT DISTINCT FROM
       (instances.version, instances.revision_id, instances.parameters, launchbay_submodules(instances.id)) AS is_present
FROM instances JOIN generations ON generations.instance_id = instances.id
WHERE instances.id = %(instance_id)s ORDER BY number DESC LIMIT 2;

-- name: get_failure_policy
SELECT on_failure FROM applications WHERE id = %(application_id)s;

-- name: set_failure_policy
UPDATE applications SET on_failure = %(on_failure)s WHERE id = %(application_id)s;

-- name: list_due
-- Jobs that failed and whose instances are to go back.
SELECT job_id FROM rollbacks_due WHERE not_before <= now() AND job_id <> ALL (%(but)s::text[]) ORDER BY not_before, job_id LIMIT %(count)s;

-- name: take_due
-- Locked for one transaction. No row: another process has it. An account that was deleted has no email and name.
SELECT rollbacks_due.job_id, rollbacks_due.instance_id, rollbacks_due.owner_id, users.email, users.name,
       CASE WHEN jobs.plan::json #>> '{origin,kind}' = 'token' THEN jobs.plan::json #>> '{origin,id}' END AS token_id,
       CASE WHEN jobs.plan::json #>> '{origin,cause,kind}' = 'change-set' THEN jobs.plan::json #>> '{origin,cause,id}' END AS change_set_id,
       coalesce((jobs.plan::json ->> 'held')::boolean, false) AS is_held
FROM rollbacks_due LEFT JOIN users ON users.id = rollbacks_due.owner_id
     LEFT JOIN jobs ON jobs.id = rollbacks_due.job_id
WHERE rollbacks_due.job_id = %(job_id)s FOR UPDATE OF rollbacks_due SKIP LOCKED;

-- name: delete_due
DELETE FROM rollbacks_due WHERE job_id = %(job_id)s;

-- name: postpone_due
UPDATE rollbacks_due SET not_before = now() + %(pause_s)s * interval '1 second' WHERE job_id = %(job_id)s;

-- name: note_refusal
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT instance_id, id, NULL, 'error', %(text)s, now() FROM jobs WHERE id = %(job_id)s AND instance_id = %(instance_id)s;

-- name: wake
-- A freeze has ended: what was put off is due.
UPDATE rollbacks_due SET not_before = now()
FROM instances
WHERE instances.id = rollbacks_due.instance_id AND instances.organization_id = %(organization_id)s AND rollbacks_due.not_before > now();
