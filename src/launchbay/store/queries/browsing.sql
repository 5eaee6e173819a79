-- name: page
-- Instances of an organization, the newest first: ids have the order of time.
SELECT instances.id, instances.name, instances.status, instances.application_id, applications.name AS application, instances.environment_id,
       environments.name AS environment, instances.version, instances.created_at, instances.destroy_at, instances.parent_id
FROM instances
JOIN applications ON applications.id = instances.application_id
JOIN environments ON environments.id = instances.environment_id
WHERE instances.organization_id = %(organization_id)s AND instances.id < %(before)s
  AND (%(application_id)s::text IS NULL OR instances.application_id = %(application_id)s)
  AND (%(environment_id)s::text IS NULL OR instances.environment_id = %(environment_id)s)
  AND (%(status)s::text IS NULL OR instances.status = %(status)s)
  AND (%(name)s::text IS NULL OR position(lower(%(name)s) IN lower(instances.name)) > 0)
ORDER BY instances.id DESC LIMIT %(count)s;

-- name: family
-- An instance and those of its submodules, from the outside in.
WITH RECURSIVE family AS (
    SELECT id, parent_id, name, status, application_id, environment_id, 0 AS level
    FROM instances WHERE id = %(instance_id)s
    UNION ALL
    SELECT child.id, child.parent_id, child.name, child.status, child.application_id, child.environment_id, family.level + 1
    FROM instances AS child JOIN family ON child.parent_id = family.id
    WHERE family.level < %(levels)s
)
SELECT family.id, family.parent_id, family.name, family.status, family.application_id, applications.name AS application,
       family.environment_id
FROM family JOIN applications ON applications.id = family.application_id
ORDER BY family.level, family.id LIMIT %(count)s;

-- name: log_tail
-- The newest lines of an instance's log, or of one job's, the newest first.
SELECT id, at, level, job_id, step, text FROM log_lines
WHERE instance_id = %(instance_id)s AND (%(job_id)s::text IS NULL OR job_id = %(job_id)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: audit_page
-- Entries of the audit log of an organization, the newest first: by an actor, about a path and what is below it, or about an id.
SELECT id, at, actor_id, actor_email, method, address, operation, object, before, after
FROM audit_entries
WHERE organization_id = %(organization_id)s AND id < %(before)s
  AND (%(actor)s::text IS NULL OR actor_id = %(actor)s OR lower(actor_email) = lower(%(actor)s))
  AND (%(object)s::text IS NULL OR object_id = %(object)s OR object = %(object)s OR starts_with(object, %(object)s || '/'))
ORDER BY id DESC LIMIT %(count)s;
