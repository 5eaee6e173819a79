-- name: rollout
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       r.id, r.organization_id, r.application_id, r.version, r.owner_id, r.token_id, r.comment, r.waves, r.wave, r.wave_done_at, r.pause_ms,
       r.health_workflow, r.max_parallel, r.stop_after_failures, r.on_failure, r.status, r.created_at, r.finished_at, (
    SELECT coalesce(json_object_agg(each.status, each.count), '{}')
    FROM (SELECT CASE WHEN status <> 'Waiting' OR message IS NULL THEN status
                      WHEN message ~ ' (froze the|is frozen)' THEN 'Frozen' ELSE 'Busy' END AS status, count(*) AS count
          FROM rollout_instances WHERE rollout_id = r.id GROUP BY 1) AS each
)::text AS counts,
       (SELECT min(message) FROM rollout_instances
        WHERE rollout_id = r.id AND status = 'Waiting' AND message ~ ' (froze the|is frozen)') AS freeze
FROM users u
LEFT JOIN (rollouts r JOIN organizations o ON o.id = r.organization_id) ON r.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: count_open
SELECT count(*) FROM rollouts WHERE organization_id = %(organization_id)s AND status IN ('Running', 'Waiting', 'Returning');

-- name: insert
INSERT INTO rollouts (id, organization_id, application_id, version, owner_id, owner_email, owner_name, address, method, token_id, comment,
                      waves, pause_ms, health_workflow, max_parallel, stop_after_failures, on_failure)
VALUES (%(rollout_id)s, %(organization_id)s, %(application_id)s, %(version)s, %(owner_id)s, %(owner_email)s, %(owner_name)s, %(address)s,
        %(method)s, %(token_id)s, %(comment)s, %(waves)s, %(pause_ms)s, %(health_workflow)s, %(max_parallel)s, %(stop_after_failures)s,
        %(on_failure)s);

-- name: insert_instances
INSERT INTO rollout_instances (rollout_id, place, wave, instance_id, instance_name, application_id, environment_id, former_version, status,
                               message, finished_at)
SELECT %(rollout_id)s, chosen.place, chosen.wave, chosen.id, chosen.name, chosen.application_id, chosen.environment_id, chosen.version,
       CASE WHEN chosen.refusal IS NULL THEN 'Waiting' ELSE 'Refused' END, chosen.refusal,
       CASE WHEN chosen.refusal IS NOT NULL THEN now() END
FROM unnest(%(waves)s::integer[], %(ids)s::text[], %(names)s::text[], %(application_ids)s::text[], %(environment_ids)s::text[],
            %(versions)s::integer[], %(refusals)s::text[])
     WITH ORDINALITY AS chosen (wave, id, name, application_id, environment_id, version, refusal, place);

-- name: delete_old
DELETE FROM rollouts WHERE organization_id = %(organization_id)s AND status NOT IN ('Running', 'Waiting', 'Returning')
  AND created_at < now() - %(days)s * interval '1 day';

-- name: list_by_organization
-- Rollouts of an organization, the newest first, with how far they are.
SELECT id, organization_id, application_id, version, owner_id, token_id, comment, waves, wave, wave_done_at, pause_ms, health_workflow,
       max_parallel, stop_after_failures, on_failure, status, created_at, finished_at, (
    SELECT coalesce(json_object_agg(each.status, each.count), '{}')
    FROM (SELECT CASE WHEN status <> 'Waiting' OR message IS NULL THEN status
                      WHEN message ~ ' (froze the|is frozen)' THEN 'Frozen' ELSE 'Busy' END AS status, count(*) AS count
          FROM rollout_instances WHERE rollout_id = rollouts.id GROUP BY 1) AS each
)::text AS counts,
       (SELECT min(message) FROM rollout_instances
        WHERE rollout_id = rollouts.id AND status = 'Waiting' AND message ~ ' (froze the|is frozen)') AS freeze
FROM rollouts
WHERE organization_id = %(organization_id)s AND (%(application_id)s::text IS NULL OR application_id = %(application_id)s)
  AND (%(after)s::text IS NULL OR id < %(after)s)
  AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: keep_seen
-- Those of the rollouts with an instance that patterns of LIKE cover, in the roles and in the scope of the token.
SELECT chosen.id FROM unnest(%(ids)s::text[]) AS chosen (id)
WHERE EXISTS (
    SELECT FROM rollout_instances
    WHERE rollout_id = chosen.id
      AND {visible(application_id, instance_id, environment_id)}
);

-- name: list_instances
SELECT place, wave, instance_id, instance_name, rollout_instances.application_id, rollout_instances.environment_id, former_version, generation,
       rollout_instances.status, rollout_instances.job_id, message, started_at, finished_at,
       CASE WHEN message IS NOT NULL THEN instances.parameters END AS parameters,
       CASE WHEN message IS NOT NULL THEN instances.environment_view END AS environment_view
FROM rollout_instances LEFT JOIN instances ON instances.id = rollout_instances.instance_id
WHERE rollout_id = %(rollout_id)s AND place > %(after)s AND (%(status)s::text IS NULL OR rollout_instances.status = %(status)s)
ORDER BY place LIMIT %(count)s;

-- name: list_failures
-- The first failure of each rollout, with what masks the secrets in it.
SELECT rollouts.id AS rollout_id, failed.instance_id, failed.instance_name, failed.application_id, failed.environment_id,
       rollouts.failure AS message, instances.parameters, instances.environment_view
FROM rollouts JOIN rollout_instances AS failed ON failed.rollout_id = rollouts.id AND failed.place = rollouts.failed_place
LEFT JOIN instances ON instances.id = failed.instance_id
WHERE rollouts.organization_id = %(organization_id)s AND rollouts.id = ANY (%(rollout_ids)s);

-- name: list_first
-- The first instances of each wave, those with a problem before the others.
SELECT wave, instance_id, instance_name, application_id, environment_id, status FROM (
    SELECT *, row_number() OVER (PARTITION BY wave ORDER BY status NOT IN ('Failed', 'Lost', 'Refused'), place) AS number
    FROM rollout_instances WHERE rollout_id = %(rollout_id)s
) AS each WHERE number <= %(count)s ORDER BY wave, number;

-- name: count_by_wave
SELECT wave, status, count(*) AS instances FROM rollout_instances WHERE rollout_id = %(rollout_id)s GROUP BY wave, status ORDER BY wave, status;

-- name: lock_status
-- Orders what changes a rollout one after the other, also the turns of its instances.
SELECT status FROM rollouts WHERE id = %(rollout_id)s FOR UPDATE;

-- name: stop
UPDATE rollouts SET status = 'Stopped' WHERE id = %(rollout_id)s;

-- name: go_on
-- The failures so far are forgiven, and the next wave needn't wait.
UPDATE rollouts
SET status = 'Running', forgiven = (SELECT count(*) FROM rollout_instances WHERE rollout_id = rollouts.id AND status = 'Failed'),
    wave_done_at = CASE WHEN wave_done_at IS NOT NULL THEN to_timestamp(0) END
WHERE id = %(rollout_id)s;

-- name: take_back
UPDATE rollouts SET status = 'Returning', finished_at = NULL WHERE id = %(rollout_id)s;

-- name: list_open
-- Those with work to do, or with jobs whose ends are to be noted. Without those that only wait for what was put off, as by a freeze.
SELECT id FROM rollouts
WHERE finished_at IS NULL AND (status IN ('Running', 'Returning') OR EXISTS (
    SELECT FROM rollout_instances WHERE rollout_id = rollouts.id AND status IN ('Running', 'Checking', 'Returning')))
  AND NOT (
    status = 'Running'
    AND EXISTS (SELECT FROM rollout_instances AS one
                WHERE one.rollout_id = rollouts.id AND one.wave = rollouts.wave AND one.status IN ('Waiting', 'Unchecked'))
    AND NOT EXISTS (
        SELECT FROM rollout_instances AS one
        WHERE one.rollout_id = rollouts.id
          AND (one.status IN ('Running', 'Checking', 'Returning', 'Failed', 'Refused')
               OR one.wave = rollouts.wave AND one.status IN ('Waiting', 'Unchecked') AND one.not_before <= now())))
ORDER BY id;

-- name: take
-- One with work left, for one transaction. No row: another process has locked it, or it has ended.
SELECT id, organization_id, version, owner_id, owner_email, owner_name, address, method, token_id, cardinality(waves) AS waves, wave,
       health_workflow, max_parallel, stop_after_failures + forgiven AS failures_bound, on_failure, status, pause_ms IS NULL AS waits,
       wave_done_at IS NOT NULL AS is_wave_done,
       coalesce(wave_done_at = to_timestamp(0) OR wave_done_at + pause_ms * interval '1 millisecond' <= now(), false) AS is_paused_enough
FROM rollouts WHERE id = %(rollout_id)s AND finished_at IS NULL FOR UPDATE SKIP LOCKED;

-- name: settle
-- Notes the outcome of jobs that have ended, and the first failure of all.
-- A job that another one began meanwhile, such as a scheduled one, says nothing about the version. A check waits for its turn behind
-- it. Without a check, the instance has to be Running, which is known once nothing runs on it, or isn't asked any more after so long.
WITH settled AS (
    UPDATE rollout_instances
    SET status = CASE
            WHEN under_way.status = 'Returning' THEN CASE WHEN jobs.status = 'Succeeded' THEN 'Returned' ELSE 'Lost' END
            WHEN jobs.status IS DISTINCT FROM 'Succeeded' OR coalesce(instances.status, 'Destroyed') IN ('Failed', 'Destroying', 'Destroyed') THEN 'Failed'
            WHEN under_way.status = 'Running' AND %(has_check)s THEN 'Unchecked'
            ELSE 'Succeeded' END,
        message = CASE WHEN jobs.status IS NULL THEN 'The job is not there any more.'
                       WHEN under_way.status = 'Returning' THEN coalesce(jobs.error_message, under_way.message)
                       WHEN jobs.status = 'Succeeded' AND instances.status IN ('Failed', 'Destroying', 'Destroyed')
                           THEN 'The instance is ' || instances.status || coalesce(': ' || instances.error_message, '.')
                       ELSE jobs.error_message END,
        finished_at = coalesce(jobs.finished_at, now())
    FROM rollout_instances AS under_way LEFT JOIN jobs ON jobs.id = under_way.job_id
    LEFT JOIN instances ON instances.id = under_way.instance_id
    WHERE under_way.rollout_id = %(rollout_id)s AND under_way.status IN ('Running', 'Checking', 'Returning')
      AND jobs.status IS DISTINCT FROM 'Executing'
      AND (under_way.status <> 'Running' OR %(has_check)s OR jobs.status IS DISTINCT FROM 'Succeeded' OR instances.job_id IS NULL
           OR jobs.finished_at < now() - %(busy_s)s * interval '1 second')
      AND rollout_instances.rollout_id = under_way.rollout_id AND rollout_instances.place = under_way.place
    RETURNING rollout_instances.place, rollout_instances.status, rollout_instances.message, rollout_instances.finished_at
)
UPDATE rollouts SET failed_place = first.place, failure = first.message
FROM (SELECT place, message FROM settled WHERE status = 'Failed' ORDER BY finished_at, place LIMIT 1) AS first
WHERE rollouts.id = %(rollout_id)s AND failed_place IS NULL;

-- name: count_states
-- How many have a job under way; whether any of the wave waits for a turn, and any that a take-back has to reach; how many failed.
SELECT count(*) FILTER (WHERE status IN ('Running', 'Checking', 'Returning')) AS running,
       count(*) FILTER (WHERE status IN ('Waiting', 'Unchecked') AND wave = %(wave)s) AS waiting,
       count(*) FILTER (WHERE status IN ('Unchecked', 'Succeeded', 'Failed') AND started_at IS NOT NULL) AS begun,
       count(*) FILTER (WHERE status = 'Failed') AS failed
FROM rollout_instances WHERE rollout_id = %(rollout_id)s;

-- name: get_next
-- The instance whose turn it is: one that is to be checked comes before one that is to be changed.
SELECT place, instance_id, status, generation FROM rollout_instances
WHERE rollout_id = %(rollout_id)s AND status IN ('Waiting', 'Unchecked') AND wave = %(wave)s AND not_before <= now()
ORDER BY status, not_before, place LIMIT 1;

-- name: get_next_back
SELECT place, instance_id, status, generation FROM rollout_instances
WHERE rollout_id = %(rollout_id)s AND status IN ('Unchecked', 'Succeeded', 'Failed') AND started_at IS NOT NULL AND not_before <= now()
ORDER BY not_before, place LIMIT 1;

-- name: begin_instance
-- The database has kept the former configuration as a generation by now, if it hadn't before. What failed keeps its reason on the way back.
UPDATE rollout_instances
SET status = %(status)s, job_id = %(job_id)s, message = CASE WHEN status = 'Failed' THEN message END, finished_at = NULL, started_at = coalesce(started_at, now()),
    generation = coalesce(generation, (SELECT max(number) FROM generations
                                       WHERE generations.instance_id = rollout_instances.instance_id))
WHERE rollout_id = %(rollout_id)s AND place = %(place)s;

-- name: refuse_instance
-- A version that an instance refuses is as bad as one that fails. What can't be taken back is lost. The rollout is locked.
WITH refused AS (
    UPDATE rollout_instances
    SET status = CASE WHEN %(is_back)s THEN 'Lost' ELSE 'Failed' END,
        message = %(message)s, finished_at = now()
    WHERE rollout_id = %(rollout_id)s AND place = %(place)s
)
UPDATE rollouts SET failed_place = %(place)s, failure = %(message)s
WHERE id = %(rollout_id)s AND failed_place IS NULL AND NOT %(is_back)s;

-- name: postpone_instance
UPDATE rollout_instances SET message = CASE WHEN status = 'Failed' THEN message ELSE %(message)s END, not_before = now() + %(pause_s)s * interval '1 second'
WHERE rollout_id = %(rollout_id)s AND place = %(place)s;

-- name: skip_waiting
UPDATE rollout_instances SET status = 'Skipped', finished_at = now() WHERE rollout_id = %(rollout_id)s AND status = 'Waiting';

-- name: end_wave
UPDATE rollouts SET wave_done_at = now(), status = CASE WHEN pause_ms IS NULL THEN 'Waiting' ELSE status END WHERE id = %(rollout_id)s;

-- name: begin_wave
UPDATE rollouts SET wave = wave + 1, wave_done_at = NULL WHERE id = %(rollout_id)s;

-- name: finish
UPDATE rollouts SET status = %(status)s, finished_at = now() WHERE id = %(rollout_id)s;

-- name: lock_rollout
SELECT id FROM rollouts WHERE id = %(id)s FOR UPDATE;

-- name: count_in_rollouts
SELECT count(*) FROM rollouts WHERE owner_email ~* %(address)s;

-- name: erase_in_rollouts
UPDATE rollouts SET owner_email = %(pseudonym)s, owner_name = %(pseudonym)s
WHERE id IN (SELECT id FROM rollouts WHERE owner_email ~* %(address)s LIMIT %(count)s);

-- name: count_in_rollout_instances
SELECT count(*) FROM rollout_instances WHERE message ~* %(address)s;

-- name: erase_in_rollout_instances
UPDATE rollout_instances SET message = regexp_replace(message, %(address)s, %(pseudonym)s, 'gi')
WHERE (rollout_id, place) IN (SELECT rollout_id, place FROM rollout_instances WHERE message ~* %(address)s LIMIT %(count)s);

-- name: wake
-- A freeze has ended: what was put off is due.
UPDATE rollout_instances SET not_before = now()
FROM rollouts
WHERE rollouts.organization_id = %(organization_id)s AND rollouts.finished_at IS NULL AND rollout_instances.rollout_id = rollouts.id
  AND rollout_instances.not_before > now();
