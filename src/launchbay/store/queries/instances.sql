-- name: of_application
SELECT id, name, environment_id, application_id, revision_id, status FROM instances
WHERE application_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: of_environment
SELECT id, name, environment_id, application_id, revision_id, status FROM instances
WHERE environment_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: of_revision
SELECT id, name, environment_id, application_id, revision_id, status FROM instances
WHERE revision_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: history
-- The newest jobs of an instance, with the newer step rows of the one that runs.
SELECT id, name, status, owner_id, steps, error_message, created_at, started_at, finished_at,
       CASE WHEN status = 'Executing' THEN (
           SELECT coalesce(json_agg(json_build_array(path, status, percent)), '[]') FROM steps WHERE job_id = jobs.id
       )::text END AS live_steps
FROM jobs WHERE instance_id = %(instance_id)s ORDER BY id DESC LIMIT %(limit)s;

-- name: set_user_data
UPDATE instances SET user_data = %(user_data)s WHERE id = %(instance_id)s;

-- name: lock
-- What decides whether an instance can be deleted; the lock orders it against the acceptance and the end of jobs.
SELECT status, job_id FROM instances WHERE id = %(instance_id)s FOR UPDATE;

-- name: delete
DELETE FROM instances WHERE id = %(instance_id)s;
