-- Who names no revision at the launch gets the one without a name of the manifest's version.

-- name: list_by_application
SELECT instances.id, name, environment_id AS environment, instances.application_id AS application,
       coalesce(instances.revision_id, manifests.revision_id) AS revision, status
FROM instances JOIN manifests ON manifests.application_id = instances.application_id AND manifests.version = instances.version
WHERE instances.application_id = %(of_id)s AND instances.id > %(after)s AND instances.id <= %(until)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
  AND {visible(instances.application_id, instances.id, instances.environment_id)}
ORDER BY instances.id LIMIT %(limit)s;

-- name: list_by_environment
SELECT instances.id, name, environment_id AS environment, instances.application_id AS application,
       coalesce(instances.revision_id, manifests.revision_id) AS revision, status
FROM instances JOIN manifests ON manifests.application_id = instances.application_id AND manifests.version = instances.version
WHERE environment_id = %(of_id)s AND instances.id > %(after)s AND instances.id <= %(until)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
  AND {visible(instances.application_id, instances.id, instances.environment_id)}
ORDER BY instances.id LIMIT %(limit)s;

-- name: list_by_revision
-- In two parts, each of which has its index.
SELECT id, name, environment_id AS environment, application_id AS application, revision_id AS revision, status
FROM instances
WHERE revision_id = %(of_id)s AND id > %(after)s AND id <= %(until)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
  AND {visible(application_id, id, environment_id)}
UNION ALL
SELECT instances.id, name, environment_id, instances.application_id, manifests.revision_id, status
FROM manifests JOIN instances ON instances.application_id = manifests.application_id AND instances.version = manifests.version
WHERE manifests.revision_id = %(of_id)s AND instances.revision_id IS NULL AND instances.id > %(after)s AND instances.id <= %(until)s
  AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(name)s::text IS NULL OR name = %(name)s)
  AND {visible(instances.application_id, instances.id, instances.environment_id)}
ORDER BY id LIMIT %(limit)s;

-- name: announce_new
-- Whoever makes an instance holds this from before its id is made until the commit, so that lists know what is on its way.
SELECT pg_advisory_xact_lock_shared(4011229);

-- name: lock_name
-- Orders launches and renames whose name must be the only one in an application and environment.
SELECT pg_advisory_xact_lock(hashtextextended(
    concat_ws(' ', 'launchbay name', %(application_id)s::text, %(environment_id)s::text, %(name)s::text), 0
)) IS NULL;

-- name: find_by_name
SELECT id, status, coalesce(job_id, '') AS job_id FROM instances
WHERE application_id = %(application_id)s AND environment_id = %(environment_id)s AND name = %(name)s AND parent_id IS NULL
  AND destroyed_at IS NULL
ORDER BY status = 'Destroying', instances.id DESC LIMIT 1;

-- name: get_newest
-- The newest instance of an organization, and the transactions that may still bring older ones. Those that begin later can't: their
-- ids are newer. (PostgreSQL reads its locks after it has taken the snapshot.)
SELECT coalesce((SELECT id FROM instances WHERE organization_id = %(organization_id)s ORDER BY id DESC LIMIT 1), '') AS newest,
       ARRAY(SELECT virtualtransaction FROM pg_locks
             WHERE locktype = 'advisory' AND classid = 0 AND objid = 4011229 AND objsubid = 1
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS making;

-- name: list_making
-- Which of these transactions are still under way, and when they began.
SELECT pg_locks.virtualtransaction AS id, xact_start AS began_at
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND classid = 0 AND objid = 4011229 AND objsubid = 1 AND virtualtransaction = ANY (%(making)s::text[]);

-- name: set_user_data
UPDATE instances SET user_data = %(user_data)s WHERE id = %(instance_id)s;

-- name: lock_at_once
-- The same lock, or no row if another transaction has it.
SELECT id FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE SKIP LOCKED;

-- name: let_person_first
-- The next triggered workflow waits for a person whom the running one keeps out. No row if another kind of job runs.
UPDATE instances SET person_first_until = now() + %(wait_s)s * interval '1 second'
WHERE id = %(instance_id)s AND (
    job_id IS NULL OR EXISTS (SELECT FROM jobs WHERE jobs.id = instances.job_id AND jobs.plan::json ->> 'kind' = 'trigger'))
RETURNING id;

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
                       parameters, parameter_origins, components, environment_view, parent_id)
SELECT child.id, %(organization_id)s, child.application_id, %(environment_id)s, child.revision_id, child.version, child.name,
       %(owner_id)s, %(status)s, child.parameters, child.origins, child.components, %(environment_view)s, child.parent_id
FROM unnest(%(instance_ids)s::text[], %(application_ids)s::text[], %(revision_ids)s::text[], %(versions)s::integer[],
            %(names)s::text[], %(parameters)s::text[], %(parameter_origins)s::text[], %(components)s::text[], %(parent_ids)s::text[])
     WITH ORDINALITY AS child (id, application_id, revision_id, version, name, parameters, origins, components, parent_id, place)
ORDER BY child.place;

-- name: insert_links
INSERT INTO instance_links (instance_id, component, target_id, kind, binding)
SELECT link.*
FROM unnest(%(instance_ids)s::text[], %(components)s::text[], %(targets)s::text[], %(kinds)s::text[], %(bindings)s::text[]) AS link;

-- name: replace_link
INSERT INTO instance_links (instance_id, component, target_id, kind)
VALUES (%(instance_id)s, %(component)s, %(target_id)s, %(kind)s)
ON CONFLICT (instance_id, component) DO UPDATE SET target_id = excluded.target_id, kind = excluded.kind;

-- name: copy_submodule
-- A submodule's instance like another one, with those inside of it. New IDs come from the salt, so that a repetition has the same.
-- Names and the IDs in the list of components follow. Returns the ID of the copy; no row if the other one is gone.
WITH RECURSIVE family AS (
    SELECT id, parent_id, 0 AS depth FROM instances WHERE id = %(source_id)s
    UNION ALL
    SELECT child.id, child.parent_id, family.depth + 1
    FROM family JOIN instance_links link ON link.instance_id = family.id AND link.kind = 'own'
    JOIN instances child ON child.id = link.target_id
), fresh AS (
    SELECT id AS old_id, %(prefix)s::text || substr(md5(%(salt)s::text || id), 1, 16) AS id, parent_id AS old_parent, depth FROM family
), copied AS (
    INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status,
                           parameters, parameter_origins, components, environment_view, parent_id)
    SELECT fresh.id, organization_id, application_id, environment_id, revision_id, version,
           CASE WHEN fresh.depth = 0 THEN regexp_replace(name, '[^.]*$', '') || regexp_replace(%(component)s::text, '^.*[.]', '')
                ELSE name END,
           owner_id, 'Requested', parameters, parameter_origins,
           coalesce((SELECT json_agg(CASE WHEN inner_one.id IS NULL THEN part
                                          ELSE json_build_object('name', part ->> 'name', 'instanceId', inner_one.id) END
                                     ORDER BY place)
                     FROM json_array_elements(components::json) WITH ORDINALITY AS parts (part, place)
                     LEFT JOIN fresh AS inner_one ON inner_one.old_id = part ->> 'instanceId')::text, '[]'),
           environment_view, CASE WHEN fresh.depth = 0 THEN %(parent_id)s ELSE outer_one.id END
    FROM fresh JOIN instances ON instances.id = fresh.old_id LEFT JOIN fresh AS outer_one ON outer_one.old_id = fresh.old_parent
    ORDER BY fresh.depth
    ON CONFLICT (id) DO NOTHING
), linked AS (
    INSERT INTO instance_links (instance_id, component, target_id, kind, binding)
    SELECT fresh.id, link.component, coalesce(inner_one.id, link.target_id), link.kind, link.binding
    FROM fresh JOIN instance_links link ON link.instance_id = fresh.old_id
    LEFT JOIN fresh AS inner_one ON inner_one.old_id = link.target_id AND link.kind = 'own'
    ON CONFLICT (instance_id, component) DO NOTHING
), placed AS (
    INSERT INTO instance_links (instance_id, component, target_id, kind)
    SELECT %(parent_id)s, %(component)s, id, 'own' FROM fresh WHERE depth = 0
    ON CONFLICT (instance_id, component) DO UPDATE SET target_id = excluded.target_id, kind = excluded.kind
)
SELECT id FROM fresh WHERE depth = 0;

-- name: show_components
UPDATE instances SET components = %(components)s WHERE id = %(instance_id)s AND components <> %(components)s;

-- name: list_shared_catalogs
-- The parameters of the shared-instances catalogs of an environment.
SELECT services.parameters
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s AND services.type_id = 'builtin:shared_instances_catalog'
ORDER BY services.id;

-- name: list_linked
-- The instances behind an instance's components.
SELECT instance_links.component, instance_links.target_id, instance_links.kind, instances.application_id, instances.version,
       instances.revision_id, instances.parameters, instances.name, instances.status, instance_links.binding
FROM instance_links LEFT JOIN instances ON instances.id = instance_links.target_id
WHERE instance_links.instance_id = %(instance_id)s;

-- name: list_linked_family
-- The same of an instance and of its own submodules, at all levels.
WITH RECURSIVE family AS (
    SELECT %(instance_id)s::text AS id
    UNION
    SELECT link.target_id FROM family JOIN instance_links AS link ON link.instance_id = family.id AND link.kind = 'own'
)
SELECT instance_links.instance_id, instance_links.component, instance_links.target_id, instance_links.kind, instances.application_id,
       instances.version, instances.revision_id, instances.parameters, instances.name, instances.status, instance_links.binding
FROM family JOIN instance_links ON instance_links.instance_id = family.id
LEFT JOIN instances ON instances.id = instance_links.target_id;

-- name: list_users
-- The instances outside that use an instance, or one of its submodules: as a service, or as a shared instance. Those that are
-- destroyed use nothing.
WITH RECURSIVE family AS (
    SELECT id FROM instances WHERE id = %(instance_id)s
    UNION ALL
    SELECT child.id FROM instances AS child JOIN family ON child.parent_id = family.id
)
SELECT DISTINCT consumer.id, consumer.name, consumer.application_id, consumer.environment_id
FROM family JOIN instance_links AS link ON link.target_id = family.id AND link.kind IN ('service', 'shared')
JOIN instances AS consumer ON consumer.id = link.instance_id
WHERE consumer.status <> 'Destroyed' AND consumer.id NOT IN (SELECT id FROM family)
ORDER BY consumer.id;

-- name: get_record
-- Locks the instance, too.
SELECT id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status, parent_id, job_id, parameters,
       return_values, components, user_data, environment_view, state, error_message, destroy_at, created_at, is_observed
FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: get_surroundings
-- What an instance is of, and where it is.
SELECT applications.name AS application, applications.latest_version, environments.name AS environment,
       launchbay_freezes(environments.frozen, environments.freeze_windows, applications.frozen, applications.freeze_windows) AS freezes
FROM instances
JOIN applications ON applications.id = instances.application_id
JOIN environments ON environments.id = instances.environment_id
WHERE instances.id = %(instance_id)s;

-- name: get_status
-- How far an instance is: its components, and what it comes from when a reconfiguration has not got its turn yet.
SELECT state, before, status, application_id, version, parameters FROM instances WHERE id = %(instance_id)s;

-- name: read_record
-- For the engine, which needs no permission.
SELECT id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status, parent_id, job_id, parameters,
       return_values, components, user_data, environment_view, state, error_message, destroy_at, created_at, is_observed
FROM instances WHERE id = %(instance_id)s;

-- name: change_configuration
-- The new configuration of an instance and its submodules; a job brings them there from `before`. Nobody can resume earlier jobs
-- anymore, so what these came from is forgotten, with the secrets in it.
WITH removed_links AS (
    DELETE FROM instance_links WHERE instance_id = ANY (%(instance_ids)s)
), forgotten AS (
    UPDATE jobs SET former = NULL WHERE instance_id = ANY (%(instance_ids)s) AND former IS NOT NULL
)
UPDATE instances
SET version = new.version, revision_id = new.revision_id, parameters = new.parameters, components = new.components,
    parameter_origins = new.origins, environment_view = %(environment_view)s, name = new.name,
    -- A submodule whose turn never came in a reconfiguration that failed is still what it was before that.
    before = coalesce(instances.before, new.before)
FROM unnest(%(instance_ids)s::text[], %(versions)s::integer[], %(revision_ids)s::text[], %(parameters)s::text[],
            %(parameter_origins)s::text[], %(components)s::text[], %(names)s::text[], %(befores)s::text[])
     AS new (id, version, revision_id, parameters, origins, components, name, before)
WHERE instances.id = new.id;

-- name: list_family
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
       family.environment_id, launchbay_outcome(fleet.job_id, fleet.job_status) AS job_outcome, EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = instances.job_id AND approvals.status = 'pending'
) AS is_asking, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id
) AS is_asleep, instances.status <> 'Destroyed' AND launchbay_is_ending(instances.id) AS is_ending, launchbay_is_incomplete(instances.id) AS is_incomplete,
       instances.is_observed, EXISTS (SELECT FROM drifted_instances WHERE drifted_instances.instance_id = instances.id) AS is_drifted
FROM family JOIN instances ON instances.id = family.id JOIN applications ON applications.id = family.application_id
LEFT JOIN fleet ON fleet.instance_id = family.id
ORDER BY family.level, family.id LIMIT %(count)s;

-- name: list_log_tail
-- The newest lines of an instance's log, or of one job's, the newest first.
SELECT id, at, level, job_id, step, text, attempt, coalesce(stream, 'system') AS stream FROM log_lines
WHERE instance_id = %(instance_id)s AND (%(job_id)s::text IS NULL OR job_id = %(job_id)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: lock_expiry
-- The instance, locked after its expiry: the stager locks them in this order, too.
WITH expiry AS MATERIALIZED (
    SELECT id FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry' FOR UPDATE
), counted AS MATERIALIZED (
    SELECT count(*) AS expiries FROM expiry
)
SELECT status, destroy_at, EXISTS (SELECT FROM instance_offers WHERE instance_offers.instance_id = instances.id) AS is_offered
FROM instances WHERE id = %(instance_id)s AND (SELECT expiries FROM counted) >= 0
FOR NO KEY UPDATE OF instances;

-- name: set_expiry
-- Sets when an instance is destroyed, whether it was to be before or not; who set it first stays the owner of that.
WITH changed AS (
    UPDATE instances SET destroy_at = %(destroy_at)s WHERE id = %(instance_id)s
)
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
VALUES (%(schedule_id)s, %(instance_id)s, 'expiry', 'destroy', %(owner_id)s, %(destroy_at)s)
ON CONFLICT (instance_id) WHERE kind = 'expiry' DO UPDATE SET due_at = excluded.due_at, blocked = false, created_at = now();

-- name: clear_expiry
WITH changed AS (
    UPDATE instances SET destroy_at = NULL WHERE id = %(instance_id)s
)
DELETE FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry';

-- name: list_documents_by_instance
SELECT component, action, name FROM kept_documents WHERE instance_id = %(instance_id)s ORDER BY component, action, name;

-- name: get_document
SELECT id, version, sealed FROM kept_documents
WHERE instance_id = %(instance_id)s AND component = %(component)s AND action = %(action)s AND name = %(name)s;

-- name: write_document
-- Only while the writer holds the job, and over the version that it has read (0: there was none). No row: one of the two is not so.
INSERT INTO kept_documents (id, instance_id, component, action, name, sealed)
SELECT %(document_id)s, %(instance_id)s, %(component)s, %(action)s, %(name)s, %(sealed)s
FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing'
ON CONFLICT (instance_id, component, action, name) DO UPDATE
SET sealed = excluded.sealed, version = kept_documents.version + 1, updated_at = now()
WHERE kept_documents.version = %(version)s AND kept_documents.id = excluded.id
RETURNING version;

-- name: delete_document
DELETE FROM kept_documents USING jobs
WHERE kept_documents.instance_id = %(instance_id)s AND component = %(component)s AND action = %(action)s AND kept_documents.name = %(name)s
  AND jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing';

-- name: stop_observing
-- Jobs may change the instance from now on.
UPDATE instances SET is_observed = false WHERE id = %(instance_id)s AND is_observed;

-- name: has_documents
-- Whether a worker still holds a job.
SELECT true FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing';

-- name: lock_status
-- Orders an offer against the end of the instance.
SELECT status FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: list_for_impact
-- Live instances of an application, page by page, with what decides how a change would reach them.
SELECT id, name, application_id, version, parameters, parameter_origins, state, environment_id, environment_view, parent_id IS NOT NULL AS is_submodule,
       '[]' AS links
FROM instances WHERE application_id = %(application_id)s AND id > %(after)s AND status NOT IN ('Destroying', 'Destroyed')
ORDER BY id LIMIT %(count)s;

-- name: list_for_impact_of_revision
-- The same of those that have a revision.
SELECT id, name, application_id, version, parameters, parameter_origins, state, environment_id, environment_view, parent_id IS NOT NULL AS is_submodule,
       '[]' AS links
FROM instances WHERE revision_id = %(revision_id)s AND id > %(after)s AND status NOT IN ('Destroying', 'Destroyed')
ORDER BY id LIMIT %(count)s;

-- name: list_for_impact_of_environment
-- The same of an environment, with the services behind their components.
SELECT id, name, application_id, version, parameters, parameter_origins, state, environment_id, environment_view, parent_id IS NOT NULL AS is_submodule,
       (SELECT coalesce(json_agg(json_build_array(component, target_id, kind) ORDER BY component), '[]')::text
        FROM instance_links WHERE instance_id = instances.id AND kind IN ('service', 'service-instance')) AS links
FROM instances WHERE environment_id = %(environment_id)s AND id > %(after)s AND status NOT IN ('Destroying', 'Destroyed')
ORDER BY id LIMIT %(count)s;

-- name: list_for_impact_of_service
-- The same of those that use a service, with what they keep of it, component by component.
SELECT id, name, application_id, version, parameters, parameter_origins, state, environment_id, environment_view, parent_id IS NOT NULL AS is_submodule,
       (SELECT json_agg(json_build_array(component, binding::json) ORDER BY component)::text
        FROM instance_links
        WHERE instance_id = instances.id AND target_id = %(service_id)s AND binding IS NOT NULL) AS links
FROM instances
WHERE id > %(after)s AND status NOT IN ('Destroying', 'Destroyed') AND id IN (
    SELECT instance_id FROM instance_links WHERE target_id = %(service_id)s AND binding IS NOT NULL)
ORDER BY id LIMIT %(count)s;

-- name: list_foundations
-- What offered instances stand on, by whatever links and over whatever others, themselves included.
WITH RECURSIVE standing (offered_id, id) AS (
    SELECT id, id FROM unnest(%(instance_ids)s::text[]) AS id
    UNION
    SELECT standing.offered_id, instance_links.target_id
    FROM standing JOIN instance_links ON instance_links.instance_id = standing.id
)
SELECT offered_id, id FROM standing;

-- name: list_component_facts
-- What decides what the components of instances do: how far they were, the newest job with its own steps, and what is behind submodules.
-- With `unsettled`, only of instances with work under way, or after a job that failed, or with submodules; not of destroyed ones.
-- Its parameters stand in subqueries: a plan that doesn't know them is as good, and to plan it takes several times as long as to run it.
SELECT instances.id, instances.status, instances.application_id, instances.version, instances.parameters, (
    SELECT coalesce(json_agg(key), '[]') FROM json_each(instances.state::json) WHERE value ->> 'launched' = 'true'
)::text AS launched, (
    SELECT coalesce(json_object_agg(key, value -> 'scale' -> 'quantity'), '{}') FROM json_each(instances.state::json)
    WHERE json_typeof(value -> 'scale') = 'object'
)::text AS scales, job.name AS job_name, job.status AS job_status, job.started_at IS NOT NULL AS is_started, job.steps AS planned, (
    SELECT coalesce(json_agg(json_build_array(path, status, launchbay_percent(status, percent, started_at, ends_at), attempt = 0,
        status = 'Failed' AND outputs IS NOT NULL, error_message IS NOT DISTINCT FROM %(interrupted)s::text) ORDER BY started_at, path), '[]')
    FROM steps WHERE job_id = job.id AND path !~ '[>~]|/.*/'
)::text AS recorded, (
    SELECT coalesce(json_agg(step), '[]') FROM approvals WHERE job_id = job.id AND approvals.status = 'pending'
)::text AS asking, (
    SELECT coalesce(json_agg(json_build_array(link.component, link.target_id, target.name, target.status,
        launchbay_outcome(behind.job_id, behind.job_status), EXISTS (
        SELECT FROM approvals WHERE approvals.job_id = target.job_id AND approvals.status = 'pending'),
        launchbay_is_incomplete(target.id))), '[]')
    FROM instance_links AS link JOIN instances AS target ON target.id = link.target_id
    LEFT JOIN fleet AS behind ON behind.instance_id = target.id
    WHERE link.instance_id = instances.id AND link.kind = 'own'
)::text AS submodules, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id
) AS is_asleep
FROM instances LEFT JOIN jobs AS job ON job.id = launchbay_newest_job(instances.id)
WHERE instances.id = ANY (ARRAY(SELECT unnest(%(instance_ids)s::text[])))
  AND ((SELECT NOT %(unsettled)s::boolean) OR instances.status <> 'Destroyed' AND (
      instances.job_id IS NOT NULL OR job.status IS DISTINCT FROM 'Succeeded'
      OR EXISTS (SELECT FROM instance_links AS link WHERE link.instance_id = instances.id AND link.kind = 'own')));
