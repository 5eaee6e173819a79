-- name: get_order
-- The order in force for an application: its own one, or that of its organization, whose stages its own one hides.
SELECT (SELECT whole.stages FROM promotion_orders AS whole
        WHERE whole.owner_id = %(organization_id)s AND promotion_orders.application_id IS NOT NULL) AS hidden_stages, application_id, stages, author_id, method, token_id, promotion_orders.created_at, users.email AS author_email, users.name AS author_name
FROM promotion_orders LEFT JOIN users ON users.id = author_id
WHERE promotion_orders.organization_id = %(organization_id)s AND (application_id IS NULL OR application_id = %(application_id)s)
ORDER BY application_id NULLS LAST LIMIT 1;

-- name: get_own_order
SELECT NULL AS hidden_stages, application_id, stages, author_id, method, token_id, promotion_orders.created_at, users.email AS author_email, users.name AS author_name
FROM promotion_orders LEFT JOIN users ON users.id = author_id
WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s;

-- name: put_order
INSERT INTO promotion_orders (owner_id, organization_id, application_id, stages, is_automatic, author_id, method, token_id)
VALUES (%(owner_id)s, %(organization_id)s, %(application_id)s, %(stages)s, %(is_automatic)s, %(author_id)s, %(method)s, %(token_id)s)
ON CONFLICT (owner_id) DO UPDATE
SET stages = excluded.stages, is_automatic = excluded.is_automatic, author_id = excluded.author_id, method = excluded.method,
    token_id = excluded.token_id, created_at = now();

-- name: delete_order
DELETE FROM promotion_orders WHERE owner_id = %(owner_id)s AND organization_id = %(organization_id)s;

-- name: lock_orders
-- Orders changes of the orders of an organization.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay promotion orders ' || %(organization_id)s, 0)) IS NULL;

-- name: forget_attempts
-- A new order: all is looked at again.
DELETE FROM promotion_attempts
WHERE organization_id = %(organization_id)s AND (%(application_id)s::text IS NULL OR application_id = %(application_id)s);

-- name: list_environments
SELECT id, name FROM environments WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]);

-- name: list_placed
-- Instances of an application in environments: what brought their version, and since when it is there. Those of submodules are among
-- them only for what is inside another instance; the generations of the outermost one know their version.
SELECT instances.id, instances.name, instances.environment_id, instances.status, instances.version, revisions.name AS revision,
       arrived.created_at AS since, users.email AS by_email,
       CASE WHEN arrived.cause_kind = 'change-set' THEN arrived.cause_id END AS change_set_id,
       (SELECT coalesce(json_object_agg(newest.name, newest.status = 'Succeeded'), '{}')::text FROM (
           SELECT DISTINCT ON (jobs.name) jobs.name, jobs.status FROM jobs
           WHERE jobs.instance_id = instances.id AND jobs.name = ANY (%(workflows)s::text[]) AND jobs.status <> 'Executing'
             AND jobs.created_at >= arrived.created_at
           ORDER BY jobs.name, jobs.created_at DESC
       ) AS newest) AS ran
FROM instances
LEFT JOIN revisions ON revisions.id = instances.revision_id
LEFT JOIN LATERAL (
    WITH RECURSIVE around AS (
        SELECT parent.id, parent.parent_id FROM instances AS parent WHERE parent.id = instances.parent_id
        UNION
        SELECT parent.id, parent.parent_id FROM instances AS parent JOIN around ON parent.id = around.parent_id
    )
    SELECT id, jsonb_build_array(jsonb_build_object('target', instances.id, 'version', instances.version)) AS has
    FROM around WHERE parent_id IS NULL
) AS outermost ON true
LEFT JOIN LATERAL (
    SELECT generations.created_at, generations.owner_id, generations.cause_kind, generations.cause_id FROM generations
    WHERE generations.instance_id = instances.id AND generations.version = instances.version AND generations.number > coalesce((
        SELECT max(number) FROM generations AS other WHERE other.instance_id = instances.id AND other.version <> instances.version), 0)
      AND instances.parent_id IS NULL
       OR generations.instance_id = outermost.id AND generations.submodules::jsonb @> outermost.has AND generations.number > coalesce((
        SELECT max(number) FROM generations AS other
        WHERE other.instance_id = outermost.id AND NOT other.submodules::jsonb @> outermost.has), 0)
    ORDER BY generations.number LIMIT 1
) AS arrived ON true
LEFT JOIN users ON users.id = arrived.owner_id
WHERE instances.application_id = %(application_id)s AND instances.environment_id = ANY (%(environment_ids)s::text[])
  AND (%(is_inside)s OR instances.parent_id IS NULL) AND instances.status <> 'Destroyed'
ORDER BY instances.id;

-- name: had_version
-- Whether an environment has had a version of an application, or for what is inside also as a submodule: to go back is no promotion.
SELECT EXISTS (
    SELECT FROM instances JOIN generations ON generations.instance_id = instances.id
    WHERE instances.application_id = %(application_id)s AND instances.environment_id = %(environment_id)s
      AND generations.version = %(version)s
) OR %(is_inside)s AND EXISTS (
    SELECT FROM instances JOIN generations ON generations.instance_id = instances.id
    WHERE instances.environment_id = %(environment_id)s AND instances.parent_id IS NULL
      AND generations.submodules::jsonb @> jsonb_build_array(jsonb_build_object('application', %(application_id)s::text, 'version', %(version)s::integer))
);

-- name: get_approvals
-- How many others have to approve a change set.
SELECT CASE WHEN confirm THEN 0 ELSE needed END FROM change_sets
WHERE id = %(change_set_id)s AND organization_id = %(organization_id)s;

-- name: lock_promotion
-- Orders promotions of an application to an environment.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'launchbay promotion', %(application_id)s::text, %(environment_id)s::text), 0)) IS NULL;

-- name: get_newest
-- The newest promotion of an application to an environment, or to one version there.
SELECT promotions.change_set_id, promotions.version, CASE WHEN change_sets.confirm THEN 0 ELSE change_sets.needed END AS needed,
       CASE WHEN change_sets.status IN ('Pending', 'Ready') AND change_sets.expires_at <= now() THEN 'Expired' ELSE change_sets.status END AS status
FROM promotions JOIN change_sets ON change_sets.id = promotions.change_set_id
WHERE promotions.application_id = %(application_id)s AND promotions.environment_id = %(environment_id)s
  AND (%(version)s::integer IS NULL OR promotions.version = %(version)s)
ORDER BY promotions.change_set_id DESC LIMIT 1;

-- name: insert
INSERT INTO promotions (change_set_id, organization_id, application_id, environment_id, version, is_automatic)
VALUES (%(change_set_id)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(version)s, %(is_automatic)s);

-- name: get_message
-- Why automatic promotion of a version to an environment waits, or why it has stopped.
SELECT message FROM promotion_attempts
WHERE application_id = %(application_id)s AND environment_id = %(environment_id)s AND (version = %(version)s OR is_stopped);

-- name: wake
-- A freeze has ended or changed: what was put off is due.
UPDATE promotion_attempts SET looks_at = now() WHERE organization_id = %(organization_id)s AND looks_at > now();

-- name: list_older
-- Change sets that promote older versions to an environment, and that nobody has applied.
SELECT change_set_id FROM promotions JOIN change_sets ON change_sets.id = promotions.change_set_id
WHERE promotions.application_id = %(application_id)s AND promotions.environment_id = %(environment_id)s
  AND promotions.version < %(version)s AND change_sets.status IN ('Pending', 'Ready') AND change_sets.expires_at > now();

-- name: list_due
-- Environments to which an order promotes by itself, where the one before has another version; application and environment as one text.
WITH placed AS (
    SELECT applications.id AS application_id, stage.value ->> 'environment_id' AS environment_id,
           lag(stage.value ->> 'environment_id') OVER (PARTITION BY applications.id ORDER BY stage.ordinality) AS former_id,
           (stage.value ->> 'automatic')::boolean AS is_automatic
    FROM promotion_orders JOIN applications ON applications.organization_id = promotion_orders.organization_id
    CROSS JOIN LATERAL jsonb_array_elements(promotion_orders.stages::jsonb) WITH ORDINALITY AS stage
    WHERE promotion_orders.is_automatic AND (promotion_orders.application_id = applications.id OR promotion_orders.application_id IS NULL
          AND NOT EXISTS (SELECT FROM promotion_orders AS own WHERE own.owner_id = applications.id))
)
SELECT concat_ws(' ', placed.application_id, placed.environment_id) AS place
FROM placed JOIN environments ON environments.id = placed.environment_id
LEFT JOIN promotion_attempts AS attempt ON attempt.application_id = placed.application_id AND attempt.environment_id = placed.environment_id
WHERE placed.is_automatic AND NOT coalesce(attempt.is_stopped, false) AND coalesce(attempt.looks_at <= %(now)s, true)
  AND concat_ws(' ', placed.application_id, placed.environment_id) <> ALL (%(but)s::text[])
  AND EXISTS (
      SELECT FROM instances AS before JOIN instances AS here ON here.application_id = before.application_id
      WHERE before.application_id = placed.application_id AND before.environment_id = placed.former_id AND before.parent_id IS NULL
        AND before.status <> 'Destroyed' AND here.environment_id = placed.environment_id AND here.parent_id IS NULL
        AND here.status <> 'Destroyed' AND here.version <> before.version
  )
ORDER BY attempt.looks_at NULLS FIRST LIMIT %(count)s;

-- name: begin_attempts
-- Unless another process does, whose row this would wait for.
INSERT INTO promotion_attempts (application_id, environment_id, organization_id, looks_at)
SELECT %(application_id)s, environments.id, organization_id, %(now)s FROM environments
WHERE environments.id = %(environment_id)s AND pg_try_advisory_xact_lock(
    hashtextextended(concat_ws(' ', 'launchbay promotion attempt', %(application_id)s::text, %(environment_id)s::text), 0))
ON CONFLICT DO NOTHING;

-- name: try_lock_organization
-- No row: somebody else has it, who may wait for the attempt, such as who saves an order with a condition.
SELECT id FROM organizations WHERE id = %(organization_id)s FOR NO KEY UPDATE SKIP LOCKED;

-- name: take
-- One for one transaction. No row: another process has locked it or has given it its turn.
SELECT application_id, environment_id, organization_id FROM promotion_attempts
WHERE application_id = %(application_id)s AND environment_id = %(environment_id)s AND NOT is_stopped AND looks_at <= %(now)s
FOR UPDATE SKIP LOCKED;

-- name: note_attempt
UPDATE promotion_attempts SET message = %(message)s, version = %(version)s, looks_at = %(looks_at)s, is_stopped = %(is_stopped)s
WHERE application_id = %(application_id)s AND environment_id = %(environment_id)s;

-- name: count_in_promotion_attempts
SELECT count(*) FROM promotion_attempts WHERE message ~* %(address)s;

-- name: erase_in_promotion_attempts
UPDATE promotion_attempts SET message = regexp_replace(message, %(address)s, %(pseudonym)s, 'gi')
WHERE (application_id, environment_id) IN (
    SELECT application_id, environment_id FROM promotion_attempts WHERE message ~* %(address)s LIMIT %(count)s
);
