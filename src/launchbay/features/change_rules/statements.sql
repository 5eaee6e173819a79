-- name: list_current
-- The rules in force in an organization, with the stamp that this was read under: at least one row.
SELECT organizations.access_stamp, current.owner_id, current.application_id, current.environment_id, current.version, current.rules
FROM organizations LEFT JOIN change_rules AS current
  ON current.organization_id = organizations.id AND current.is_current AND current.rules <> ''
WHERE organizations.id = %(organization_id)s
ORDER BY num_nonnulls(current.application_id, current.environment_id), current.environment_id NULLS LAST;

-- name: list_in_force
-- The texts that are in force in an organization, with their names and authors.
SELECT owner_id, change_rules.application_id, change_rules.environment_id, coalesce(applications.name, environments.name, '') AS name,
       version, rules, users.email AS author_email, change_rules.created_at
FROM change_rules LEFT JOIN users ON users.id = author_id
LEFT JOIN applications ON applications.id = change_rules.application_id
LEFT JOIN environments ON environments.id = change_rules.environment_id
WHERE change_rules.organization_id = %(organization_id)s AND is_current AND rules <> ''
ORDER BY num_nonnulls(change_rules.application_id, change_rules.environment_id), change_rules.environment_id NULLS LAST, name;

-- name: get_current
SELECT version, rules, author_id, users.email AS author_email, change_rules.created_at
FROM change_rules LEFT JOIN users ON users.id = author_id
WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s AND is_current;

-- name: get_version
SELECT version, rules, author_id, users.email AS author_email, change_rules.created_at
FROM change_rules LEFT JOIN users ON users.id = author_id
WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s AND version = %(version)s;

-- name: list_versions
-- Newest first.
SELECT version, '' AS rules, author_id, users.email AS author_email, change_rules.created_at
FROM change_rules LEFT JOIN users ON users.id = author_id
WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s
ORDER BY version DESC;

-- name: lock_rules
-- Orders changes of the rules of an organization.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay change rules ' || %(organization_id)s, 0)) IS NULL;

-- name: retire
-- The version in force no longer is. Older ones than are kept go.
WITH gone AS (
    DELETE FROM change_rules WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s AND NOT is_current AND version <= %(version)s::integer - %(kept)s::integer
)
UPDATE change_rules SET is_current = false WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s AND is_current;

-- name: insert
INSERT INTO change_rules (owner_id, organization_id, application_id, environment_id, version, rules, is_current, author_id)
VALUES (%(owner_id)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(version)s, %(rules)s, true, %(author_id)s);

-- name: list_under_way
-- Transactions of servers, which have this session's name: nobody else accepts changes. Later ones read what was committed before.
SELECT pg_locks.virtualxid FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'virtualxid' AND granted AND pid <> pg_backend_pid() AND datname = current_database() AND application_name = current_setting('application_name');

-- name: list_still_under_way
SELECT virtualxid FROM pg_locks WHERE locktype = 'virtualxid' AND granted AND virtualxid = ANY (%(ids)s::text[]);

-- name: get_facts
-- What rules know of the objects of a change, and of who makes it.
SELECT application.name AS application, application.labels::text AS application_labels,
       environment.name AS environment, environment.labels::text AS environment_labels, environment.markers, environment.properties,
       instance.name AS instance, instance.labels::text AS instance_labels, instance.status, instance.version,
       revision.id AS revision_id, revision.name AS revision, revision.version AS revision_version, person.email, person.name AS person,
       ARRAY(
           SELECT roles.name FROM role_assignments JOIN roles ON roles.id = role_assignments.role_id
           WHERE role_assignments.user_id = %(user_id)s AND roles.organization_id = %(organization_id)s ORDER BY roles.name
       ) AS roles,
       launchbay_change_set_facts(%(change_set_id)s, %(organization_id)s) AS change_set
FROM organizations
LEFT JOIN applications AS application ON application.id = %(application_id)s AND application.organization_id = organizations.id
LEFT JOIN environments AS environment ON environment.id = %(environment_id)s AND environment.organization_id = organizations.id
LEFT JOIN instances AS instance ON instance.id = %(instance_id)s AND instance.organization_id = organizations.id
LEFT JOIN revisions AS revision
  ON revision.id = coalesce(%(revision_id)s, instance.revision_id) AND revision.application_id = %(application_id)s
LEFT JOIN users AS person ON person.id = %(user_id)s
WHERE organizations.id = %(organization_id)s;

-- name: list_recent
-- The newest changes that rules govern of an organization, of one of its applications or of one of its environments. An instance that is
-- gone has no environment anymore, unless its launch or change set says it. A change set has one entry when it is applied, and a row here
-- for each of its instances.
WITH newest AS (
    SELECT id, at, actor_id, actor_email, method, token_id, token_name, operation, object, object_id, after FROM audit_entries
    WHERE organization_id = %(organization_id)s AND (operation = ANY (%(operations)s::text[]) OR operation = 'apply_change_set')
    ORDER BY id DESC LIMIT %(looked_at)s
), placed AS (
    SELECT newest.id, at, actor_id, actor_email, method, token_id, token_name, operation, object, after, instances.id AS instance_id,
           coalesce(instances.application_id, CASE WHEN starts_with(object, '/applications/') THEN split_part(object, '/', 3) END)
               AS application_id,
           coalesce(instances.environment_id, CASE WHEN starts_with(object, '/environments/') THEN split_part(object, '/', 3) END,
                    substring(after FROM '"environmentId":"([0-9a-f]{24})"')) AS environment_id, NULL AS change_set_id
    FROM newest LEFT JOIN instances ON instances.id = newest.object_id AND instances.organization_id = %(organization_id)s
    WHERE operation <> 'apply_change_set'
    UNION ALL
    SELECT id, at, actor_id, actor_email, method, token_id, token_name, applied.operation, applied.object, applied.after,
           applied.instance_id, applied.application_id, applied.environment_id, object_id
    FROM newest CROSS JOIN LATERAL launchbay_applied_changes(object_id, %(organization_id)s) AS applied
    WHERE newest.operation = 'apply_change_set'
)
SELECT at, actor_id, actor_email, method, token_id, token_name, operation, object, after, application_id, environment_id, instance_id,
       change_set_id
FROM placed
WHERE (%(application_id)s::text IS NULL OR application_id = %(application_id)s)
  AND (%(environment_id)s::text IS NULL OR environment_id = %(environment_id)s)
ORDER BY id DESC LIMIT %(limit)s;
