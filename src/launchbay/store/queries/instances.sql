-- name: of_application
SELECT id, name, environment_id AS environment, application_id AS application, revision_id AS revision, status FROM instances
WHERE application_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: of_environment
SELECT id, name, environment_id AS environment, application_id AS application, revision_id AS revision, status FROM instances
WHERE environment_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: of_revision
SELECT id, name, environment_id AS environment, application_id AS application, revision_id AS revision, status FROM instances
WHERE revision_id = %(of_id)s AND id > %(after)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY id LIMIT %(limit)s;

-- name: set_user_data
UPDATE instances SET user_data = %(user_data)s WHERE id = %(instance_id)s;

-- name: lock
-- What decides whether an instance can be deleted; the lock orders it against the acceptance and the end of jobs. A step with an
-- effect that succeeded or was left in the middle may have made something, and so may an instance inside of this one.
SELECT status, job_id, (SELECT plan FROM jobs WHERE jobs.id = instances.job_id) AS plan,
       EXISTS (SELECT FROM jobs JOIN steps ON steps.job_id = jobs.id AND steps.is_record AND steps.status <> 'Failed'
               WHERE jobs.instance_id = instances.id)
       OR EXISTS (SELECT FROM instances AS inner_ones WHERE inner_ones.parent_id = instances.id) AS may_hold_something
FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE OF instances;

-- name: delete
DELETE FROM instances WHERE id = %(instance_id)s;

-- name: insert_children
-- The instances of submodules, parents before their children; the job of its parent launches each.
INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status,
                       parameters, components, environment_view, parent_id)
SELECT child.id, %(organization_id)s, child.application_id, %(environment_id)s, child.revision_id, child.version, child.name,
       %(owner_id)s, %(status)s, child.parameters, child.components, %(environment_view)s, child.parent_id
FROM unnest(%(instance_ids)s::text[], %(application_ids)s::text[], %(revision_ids)s::text[], %(versions)s::integer[],
            %(names)s::text[], %(parameters)s::text[], %(components)s::text[], %(parent_ids)s::text[])
     WITH ORDINALITY AS child (id, application_id, revision_id, version, name, parameters, components, parent_id, place)
ORDER BY child.place;

-- name: state
SELECT state FROM instances WHERE id = %(instance_id)s;

-- name: insert_links
INSERT INTO instance_links (instance_id, component, target_id, kind, binding)
SELECT link.*
FROM unnest(%(instance_ids)s::text[], %(components)s::text[], %(targets)s::text[], %(kinds)s::text[], %(bindings)s::text[]) AS link;

-- name: shared_catalogs
-- The parameters of the shared-instances catalogs of an environment.
SELECT services.parameters
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s AND services.type_id = 'builtin:shared_instances_catalog'
ORDER BY services.id;

-- name: linked
-- The instances behind an instance's components.
SELECT instance_links.component, instance_links.target_id, instance_links.kind, instances.application_id, instances.version,
       instances.revision_id, instances.parameters, instances.name, instances.status, instance_links.binding
FROM instance_links LEFT JOIN instances ON instances.id = instance_links.target_id
WHERE instance_links.instance_id = %(instance_id)s;

-- name: standing
-- How far an instance is: its components, and what it comes from when a reconfiguration has not got its turn yet.
SELECT state, before, status, application_id, version, parameters FROM instances WHERE id = %(instance_id)s;

-- name: change_configuration
-- The new configuration of an instance; a job brings it there from `before`.
WITH removed_links AS (
    DELETE FROM instance_links WHERE instance_id = %(instance_id)s
)
UPDATE instances
SET version = %(version)s, revision_id = %(revision_id)s, parameters = %(parameters)s, components = %(components)s,
    environment_view = %(environment_view)s, name = %(name)s, 
    -- A submodule whose turn never came in a reconfiguration that failed is still what it was before that.
    before = coalesce(before, %(before)s)
WHERE id = %(instance_id)s;
