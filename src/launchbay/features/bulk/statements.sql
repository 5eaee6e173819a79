-- name: bulk
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       b.id, b.organization_id, b.owner_id, b.token_id, b.act, b.status, b.max_parallel, b.stop_after_failures, b.created_at, b.finished_at, (
    SELECT coalesce(json_object_agg(each.status, each.count), '{}')
    FROM (SELECT CASE WHEN status <> 'Waiting' OR put_off_at IS NULL THEN status
                      WHEN message ~ ' (froze the|is frozen)' THEN 'Frozen' ELSE 'Busy' END AS status, count(*) AS count
          FROM bulk_instances WHERE bulk_id = b.id GROUP BY 1) AS each
)::text AS counts,
       (SELECT min(message) FROM bulk_instances
        WHERE bulk_id = b.id AND status = 'Waiting' AND put_off_at IS NOT NULL AND message ~ ' (froze the|is frozen)') AS freeze
FROM users u
LEFT JOIN (bulk_runs b JOIN organizations o ON o.id = b.organization_id) ON b.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: count_open
SELECT count(*) FROM bulk_runs WHERE organization_id = %(organization_id)s AND finished_at IS NULL;

-- name: insert
INSERT INTO bulk_runs (id, organization_id, owner_id, owner_email, owner_name, address, method, token_id, act, sealed_act,
                       max_parallel, stop_after_failures)
VALUES (%(bulk_id)s, %(organization_id)s, %(owner_id)s, %(owner_email)s, %(owner_name)s, %(address)s, %(method)s, %(token_id)s, %(act)s,
        %(sealed_act)s, %(max_parallel)s, %(stop_after_failures)s);

-- name: insert_instances
-- Turns are a thousand years later than they seem: an older server, which would act without parameters, gives none.
INSERT INTO bulk_instances (bulk_id, place, instance_id, instance_name, application_id, environment_id, status, message, not_before, finished_at)
SELECT %(bulk_id)s, chosen.place, chosen.id, chosen.name, chosen.application_id, chosen.environment_id,
       CASE WHEN chosen.refusal IS NULL THEN 'Waiting' ELSE 'Refused' END, chosen.refusal, now() + interval '1000 years',
       CASE WHEN chosen.refusal IS NOT NULL THEN now() END
FROM unnest(%(ids)s::text[], %(names)s::text[], %(application_ids)s::text[], %(environment_ids)s::text[], %(refusals)s::text[])
     WITH ORDINALITY AS chosen (id, name, application_id, environment_id, refusal, place);

-- name: delete_old
DELETE FROM bulk_runs WHERE organization_id = %(organization_id)s AND finished_at < now() - %(days)s * interval '1 day';

-- name: list_runs
-- Bulk runs of an organization, the newest first, with how far they are.
SELECT id, organization_id, owner_id, token_id, act, status, max_parallel, stop_after_failures, created_at, finished_at, (
    SELECT coalesce(json_object_agg(each.status, each.count), '{}')
    FROM (SELECT CASE WHEN status <> 'Waiting' OR put_off_at IS NULL THEN status
                      WHEN message ~ ' (froze the|is frozen)' THEN 'Frozen' ELSE 'Busy' END AS status, count(*) AS count
          FROM bulk_instances WHERE bulk_id = bulk_runs.id GROUP BY 1) AS each
)::text AS counts,
       (SELECT min(message) FROM bulk_instances
        WHERE bulk_id = bulk_runs.id AND status = 'Waiting' AND put_off_at IS NOT NULL AND message ~ ' (froze the|is frozen)') AS freeze
FROM bulk_runs
WHERE organization_id = %(organization_id)s AND (%(after)s::text IS NULL OR id < %(after)s)
  AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: keep_seen
-- Those of the bulk runs with an instance that patterns of LIKE cover, in the roles and in the scope of the token.
SELECT chosen.id FROM unnest(%(ids)s::text[]) AS chosen (id)
WHERE EXISTS (
    SELECT FROM bulk_instances
    WHERE bulk_id = chosen.id
      AND {visible(application_id, instance_id, environment_id)}
);

-- name: list_instances
-- Instances of a bulk run in their order, from a place on.
-- Messages of failed jobs may contain secrets of the instance's documents.
SELECT place, instance_id, instance_name, bulk_instances.application_id, bulk_instances.environment_id, bulk_instances.status,
       bulk_instances.job_id, message, started_at, finished_at,
       CASE WHEN message IS NOT NULL THEN instances.parameters END AS parameters,
       CASE WHEN message IS NOT NULL THEN instances.environment_view END AS environment_view
FROM bulk_instances LEFT JOIN instances ON instances.id = bulk_instances.instance_id
WHERE bulk_id = %(bulk_id)s AND place > %(after)s AND (%(status)s::text IS NULL OR bulk_instances.status = %(status)s)
ORDER BY place LIMIT %(count)s;

-- name: lock_status
-- Orders what changes a bulk run one after the other, also the turns of its instances.
SELECT status FROM bulk_runs WHERE id = %(bulk_id)s FOR UPDATE;

-- name: set_status
UPDATE bulk_runs SET status = %(status)s WHERE id = %(bulk_id)s;

-- name: drop_waiting
-- Instances that won't have their turn.
UPDATE bulk_instances SET status = 'Cancelled', message = %(message)s, finished_at = now()
WHERE bulk_id = %(bulk_id)s AND status = 'Waiting';

-- name: list_open
-- Without those of which all that is left was put off, as by a freeze: nothing is to be done until the first of these is due.
SELECT id FROM bulk_runs
WHERE finished_at IS NULL AND NOT (
    status = 'Running' AND sealed_act IS NOT NULL AND stop_after_failures IS NULL
    AND EXISTS (SELECT FROM bulk_instances WHERE bulk_id = bulk_runs.id AND status = 'Waiting')
    AND NOT EXISTS (
        SELECT FROM bulk_instances WHERE bulk_id = bulk_runs.id
        AND (status = 'Running' OR status = 'Waiting' AND not_before <= now() + interval '1000 years')))
ORDER BY id;

-- name: take
-- A bulk run with work left, for one transaction. No row: another process has locked it, or it has ended.
SELECT id, organization_id, owner_id, owner_email, owner_name, address, method, token_id, act, sealed_act, status, max_parallel,
       stop_after_failures
FROM bulk_runs WHERE id = %(bulk_id)s AND finished_at IS NULL FOR UPDATE SKIP LOCKED;

-- name: list_unsealed
-- Bulk runs of older servers. One that has its turn now is left out.
SELECT id, act FROM bulk_runs WHERE sealed_act IS NULL ORDER BY id LIMIT %(count)s FOR UPDATE SKIP LOCKED;

-- name: seal
-- Seals what an older server stored. From now on, no older server gives turns.
WITH later AS (
    UPDATE bulk_instances SET not_before = greatest(not_before, now()) + interval '1000 years'
    WHERE bulk_id = %(bulk_id)s AND status = 'Waiting'
)
UPDATE bulk_runs SET act = %(act)s, sealed_act = %(sealed_act)s WHERE id = %(bulk_id)s;

-- name: get_sealed_act
SELECT sealed_act FROM bulk_runs WHERE id = %(bulk_id)s;

-- name: settle
-- Notes the outcome of jobs that have ended.
UPDATE bulk_instances
SET status = CASE WHEN jobs.status = 'Succeeded' THEN 'Succeeded' ELSE 'Failed' END,
    message = CASE WHEN jobs.status IS NULL THEN 'The job is not there any more.' ELSE jobs.error_message END,
    finished_at = coalesce(jobs.finished_at, now())
FROM bulk_instances AS under_way LEFT JOIN jobs ON jobs.id = under_way.job_id
WHERE under_way.bulk_id = %(bulk_id)s AND under_way.status = 'Running' AND jobs.status IS DISTINCT FROM 'Executing'
  AND bulk_instances.bulk_id = under_way.bulk_id AND bulk_instances.place = under_way.place;

-- name: count_states
-- Each turn asks for it: those under way come from their index, and all instances are only read where failures matter.
SELECT (SELECT count(*) FROM bulk_instances WHERE bulk_id = run.id AND status = 'Running') AS running,
       EXISTS (SELECT FROM bulk_instances WHERE bulk_id = run.id AND status = 'Waiting') AS is_waiting,
       CASE WHEN run.stop_after_failures IS NULL THEN 0 ELSE (
           SELECT count(*) FROM bulk_instances WHERE bulk_id = run.id AND status IN ('Failed', 'Refused')
       ) END AS failed
FROM bulk_runs AS run WHERE run.id = %(bulk_id)s;

-- name: get_next
-- The instance whose turn it is.
SELECT place, instance_id FROM bulk_instances
WHERE bulk_id = %(bulk_id)s AND status = 'Waiting' AND not_before <= now() + interval '1000 years'
ORDER BY not_before, place LIMIT 1;

-- name: begin_instance
-- With a job, its end is the outcome; without one, the act is done.
UPDATE bulk_instances
SET status = CASE WHEN %(job_id)s::text IS NULL THEN 'Succeeded' ELSE 'Running' END, job_id = %(job_id)s, message = NULL, started_at = now(),
    finished_at = CASE WHEN %(job_id)s::text IS NULL THEN now() END
WHERE bulk_id = %(bulk_id)s AND place = %(place)s;

-- name: refuse_instance
UPDATE bulk_instances SET status = 'Refused', message = %(message)s, finished_at = now()
WHERE bulk_id = %(bulk_id)s AND place = %(place)s AND status = 'Waiting';

-- name: postpone_instance
-- The pause grows to the longest one. After a time, the instance is given up.
UPDATE bulk_instances
SET message = %(message)s, put_off_at = coalesce(put_off_at, now()),
    not_before = now() + interval '1000 years' + least(%(longest_pause_s)s::float8, %(pause_s)s::float8 + extract(epoch FROM now() - coalesce(put_off_at, now()))::float8 / 10)
               * interval '1 second',
    status = CASE WHEN put_off_at < now() - %(give_up_s)s * interval '1 second' THEN 'Refused' ELSE status END,
    finished_at = CASE WHEN put_off_at < now() - %(give_up_s)s * interval '1 second' THEN now() END
WHERE bulk_id = %(bulk_id)s AND place = %(place)s AND status = 'Waiting';

-- name: forget_put_offs
-- The time of a pause doesn't count.
UPDATE bulk_instances SET put_off_at = NULL WHERE bulk_id = %(bulk_id)s AND status = 'Waiting' AND put_off_at IS NOT NULL;

-- name: has_users_left
-- Whether the run still has an instance that uses this one or one of its submodules.
WITH RECURSIVE family AS (
    SELECT %(instance_id)s::text AS id UNION SELECT instances.id FROM instances JOIN family ON instances.parent_id = family.id
), users AS (
    SELECT link.instance_id AS id FROM instance_links AS link JOIN family ON link.target_id = family.id WHERE link.kind IN ('service', 'shared')
    UNION SELECT instances.parent_id FROM instances JOIN users ON instances.id = users.id WHERE instances.parent_id IS NOT NULL
)
SELECT EXISTS (
    SELECT FROM bulk_instances
    WHERE bulk_id = %(bulk_id)s AND status IN ('Waiting', 'Running') AND instance_id IN (SELECT id FROM users)
      AND instance_id <> %(instance_id)s
);

-- name: finish
-- A paused one too: without instances that wait, there is nothing to continue.
UPDATE bulk_runs SET status = CASE WHEN status IN ('Running', 'Paused') THEN 'Finished' ELSE status END, finished_at = now()
WHERE id = %(bulk_id)s;

-- name: get_last_job
SELECT id, status FROM jobs WHERE id = launchbay_newest_job(%(instance_id)s);

-- name: lock_bulk
SELECT id FROM bulk_runs WHERE id = %(id)s FOR UPDATE;

-- name: list_sealed
SELECT id, '' AS part, sealed_act AS sealed FROM bulk_runs
WHERE id > %(id)s AND substring(sealed_act FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE bulk_runs SET sealed_act = %(sealed)s WHERE id = %(id)s AND sealed_act = %(before)s;

-- name: count_in_bulk_runs
SELECT count(*) FROM bulk_runs WHERE owner_email ~* %(address)s;

-- name: erase_in_bulk_runs
UPDATE bulk_runs SET owner_email = %(pseudonym)s, owner_name = %(pseudonym)s
WHERE id IN (SELECT id FROM bulk_runs WHERE owner_email ~* %(address)s LIMIT %(count)s);

-- name: count_in_bulk_instances
SELECT count(*) FROM bulk_instances WHERE message ~* %(address)s;

-- name: erase_in_bulk_instances
UPDATE bulk_instances SET message = regexp_replace(message, %(address)s, %(pseudonym)s, 'gi')
WHERE (bulk_id, place) IN (SELECT bulk_id, place FROM bulk_instances WHERE message ~* %(address)s LIMIT %(count)s);

-- name: wake
-- A freeze has ended: what was put off is due.
UPDATE bulk_instances SET not_before = now() + interval '1000 years'
FROM bulk_runs
WHERE bulk_runs.organization_id = %(organization_id)s AND bulk_runs.finished_at IS NULL AND bulk_instances.bulk_id = bulk_runs.id
  AND bulk_instances.status = 'Waiting' AND bulk_instances.put_off_at IS NOT NULL;
