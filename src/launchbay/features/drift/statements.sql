-- name: get
SELECT instance_id, organization_id, findings, known, known_since, unchecked, checks, checked_at, problem, problem_at, waiting_since,
       lease_until IS NOT NULL AND lease_until > now() AS is_begun,
       (SELECT message FROM put_backs WHERE put_backs.instance_id = drift_reports.instance_id) AS put_back_message
FROM drift_reports WHERE instance_id = %(instance_id)s;

-- name: get_new_findings
-- How many nobody ignores now. The time of an ignored one may be over since the last check.
SELECT new_findings + (SELECT count(*) FROM unnest(ignored_until) AS ends_at WHERE ends_at <= now())::integer
FROM drift_reports WHERE instance_id = %(instance_id)s;

-- name: lock
-- What changes findings goes one after the other, also the end of a check.
SELECT findings FROM drift_reports WHERE instance_id = %(instance_id)s FOR UPDATE;

-- name: count_waiting
SELECT count(*) FROM drift_reports WHERE organization_id = %(organization_id)s AND is_asked AND waiting_since IS NOT NULL;

-- name: ask
-- One that waits already keeps its turn. A check under way knows nothing of a baseline that is asked for now: another one begins.
INSERT INTO drift_reports (instance_id, organization_id, waiting_since, is_asked, learns)
VALUES (%(instance_id)s, %(organization_id)s, now(), true, %(learns)s)
ON CONFLICT (instance_id) DO UPDATE
SET is_asked = true, waiting_since = coalesce(drift_reports.waiting_since, now()), learns = coalesce(EXCLUDED.learns, drift_reports.learns),
    fence = drift_reports.fence + CASE WHEN EXCLUDED.learns IS NULL THEN 0 ELSE 1 END,
    attempts = CASE WHEN EXCLUDED.learns IS NULL THEN drift_reports.attempts ELSE 0 END,
    lease_until = CASE WHEN EXCLUDED.learns IS NULL THEN drift_reports.lease_until END;

-- name: want
-- The next check also looks for the parameter that decides a finding. It begins again if it is under way.
UPDATE drift_reports
SET waiting_since = coalesce(waiting_since, now()), is_asked = true, take_overs = (take_overs::jsonb || %(take_over)s::jsonb)::text,
    fence = fence + 1, attempts = 0, lease_until = NULL
WHERE instance_id = %(instance_id)s;

-- name: end_take_over
UPDATE drift_reports SET findings = %(findings)s, take_overs = %(left)s, take_over = NULL WHERE instance_id = %(instance_id)s;

-- name: list_applied
-- Those of some change sets that somebody applied.
SELECT id FROM change_sets
WHERE id = ANY (%(change_set_ids)s::text[]) AND organization_id = %(organization_id)s AND status IN ('Applying', 'Succeeded');

-- name: list_due
SELECT instance_id FROM drift_reports
WHERE waiting_since IS NOT NULL AND (lease_until IS NULL OR lease_until <= now())
  AND NOT EXISTS (SELECT FROM instances WHERE id = drift_reports.instance_id AND job_id IS NOT NULL)
ORDER BY waiting_since LIMIT %(count)s;

-- name: take
-- Takes the lease of an instance on which no job runs, of the organization with the fewest under way, the one that waits longest first.
WITH under_way AS MATERIALIZED (
    SELECT organization_id, count(*) AS begun FROM drift_reports WHERE waiting_since IS NOT NULL AND lease_until > now() GROUP BY organization_id)
UPDATE drift_reports SET lease_until = now() + %(lease_s)s * interval '1 second', fence = fence + 1, attempts = attempts + 1
WHERE instance_id = (
    SELECT instance_id FROM drift_reports AS waiting LEFT JOIN under_way USING (organization_id)
    WHERE waiting_since IS NOT NULL AND (lease_until IS NULL OR lease_until <= now())
      AND organization_id <> ALL (%(busy)s::text[])
      AND NOT EXISTS (SELECT FROM instances WHERE id = waiting.instance_id AND job_id IS NOT NULL)
    ORDER BY coalesce(begun, 0), NOT is_asked, waiting_since, instance_id
    LIMIT 1 FOR UPDATE OF waiting SKIP LOCKED)
RETURNING instance_id, organization_id, learns, ran, (take_overs::jsonb || coalesce(take_over, '[]')::jsonb)::text AS take_overs, attempts, fence;

-- name: renew
UPDATE drift_reports SET lease_until = now() + %(lease_s)s * interval '1 second'
WHERE instance_id = %(instance_id)s AND fence = %(fence)s AND waiting_since IS NOT NULL;

-- name: hold
-- The report of a check that is still wanted. No row: a job has begun, or another process has it.
SELECT findings, known, checks FROM drift_reports
WHERE instance_id = %(instance_id)s AND fence = %(fence)s AND waiting_since IS NOT NULL
  AND NOT EXISTS (SELECT FROM instances WHERE id = drift_reports.instance_id AND job_id IS NOT NULL)
FOR UPDATE;

-- name: finish
UPDATE drift_reports
SET findings = %(findings)s, new_findings = %(new_findings)s, ignored_until = %(ignored_until)s::timestamptz[], unchecked = %(unchecked)s,
    known = coalesce(%(known)s, known), known_since = CASE WHEN %(known)s::text IS NULL THEN known_since ELSE %(at)s END,
    checks = %(checks)s, checked_at = %(at)s, problem = NULL, problem_at = NULL,
    waiting_since = NULL, is_asked = false, learns = NULL, ran = '{}', take_over = NULL, take_overs = '[]', lease_until = NULL, attempts = 0
WHERE instance_id = %(instance_id)s;

-- name: fail
-- What an earlier check has found stays, and what is known: a later check could take for noise what somebody changes until then.
UPDATE drift_reports
SET learns = NULL, ran = '{}', problem = %(problem)s, problem_at = %(at)s, checks = %(checks)s, waiting_since = NULL, is_asked = false, take_over = NULL, take_overs = '[]',
    lease_until = NULL, attempts = 0
WHERE instance_id = %(instance_id)s;

-- name: put_findings
UPDATE drift_reports SET findings = %(findings)s, new_findings = %(new_findings)s, ignored_until = %(ignored_until)s::timestamptz[]
WHERE instance_id = %(instance_id)s;

-- name: get_newest_change
-- The last job that changed the instance to what it is described as, or tried to. Others say nothing of that.
SELECT status FROM jobs WHERE instance_id = %(instance_id)s AND name IN ('launch', 'reconfigure', 'destroy')
ORDER BY created_at DESC, number DESC NULLS LAST LIMIT 1;

-- name: is_asleep
SELECT EXISTS (SELECT FROM asleep_instances WHERE instance_id = %(instance_id)s);

-- name: list_by_organization
-- The instances of which a check found something, or failed, that the caller may see. Without the findings, which may be long.
SELECT instances.id AS instance_id, instances.name, instances.status, new_findings + over AS new,
       cardinality(ignored_until) - over AS ignored, checked_at, problem
FROM drift_reports JOIN instances ON instances.id = drift_reports.instance_id
     CROSS JOIN LATERAL (SELECT count(*)::integer AS over FROM unnest(ignored_until) AS ends_at WHERE ends_at <= now()) AS counted
WHERE drift_reports.organization_id = %(organization_id)s AND instances.id > %(after)s AND instances.status <> 'Destroyed'
  AND (new_findings > 0 OR ignored_until <> '{}' OR problem IS NOT NULL)
  AND {visible(instances.application_id, instances.id, instances.environment_id)}
ORDER BY instances.id LIMIT %(count)s;

-- name: list_schedules
-- A server of the version before leaves `of_manifest` and `is_paused` when somebody sets a schedule there.
-- One that has stopped, since who set it may not check any more, doesn't replace that of a manifest: nobody has chosen to check nothing.
SELECT object_id, kind, drift_schedules.organization_id, cron, zone, jitter_ms, due_at, fires_at, drift_schedules.owner_id,
       coalesce(users.email, '') AS owner_email, coalesce(users.name, '') AS owner_name, method, token_id, problem,
       is_paused AND fires_at IS NULL AS is_paused, mail, of_manifest AND method = 'engine' AS of_manifest,
       of_manifest AND method = 'engine' AND EXISTS (
           SELECT FROM instances JOIN drift_schedules AS others ON others.object_id IN (instances.application_id, instances.environment_id)
           WHERE instances.id = drift_schedules.object_id AND (others.is_paused OR others.fires_at IS NOT NULL)) AS is_replaced
FROM drift_schedules LEFT JOIN users ON users.id = drift_schedules.owner_id
WHERE object_id = ANY (%(scope_ids)s::text[]) AND drift_schedules.organization_id = %(organization_id)s;

-- name: put_schedule
INSERT INTO drift_schedules (object_id, kind, organization_id, application_id, environment_id, instance_id, cron, zone, jitter_ms, due_at, fires_at,
                             owner_id, method, token_id, is_paused, mail)
VALUES (%(scope_id)s, %(kind)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(instance_id)s, %(cron)s, %(zone)s, %(jitter_ms)s,
        %(due_at)s, %(fires_at)s, %(owner_id)s, %(method)s, %(token_id)s, %(is_paused)s, %(mail)s)
ON CONFLICT (object_id) DO UPDATE
SET cron = EXCLUDED.cron, zone = EXCLUDED.zone, jitter_ms = EXCLUDED.jitter_ms, due_at = EXCLUDED.due_at, fires_at = EXCLUDED.fires_at,
    owner_id = EXCLUDED.owner_id, method = EXCLUDED.method, token_id = EXCLUDED.token_id, problem = NULL, is_paused = EXCLUDED.is_paused,
    mail = EXCLUDED.mail, of_manifest = false;

-- name: put_schedule_of_manifest
-- Not in place of one that somebody has set. One with the same times keeps its next one.
INSERT INTO drift_schedules (object_id, kind, organization_id, instance_id, cron, zone, jitter_ms, due_at, fires_at, owner_id, method, of_manifest)
VALUES (%(instance_id)s, 'instance', %(organization_id)s, %(instance_id)s, %(cron)s, %(zone)s, 0, %(due_at)s, %(due_at)s, %(owner_id)s, 'engine', true)
ON CONFLICT (object_id) DO UPDATE
SET cron = EXCLUDED.cron, zone = EXCLUDED.zone, owner_id = EXCLUDED.owner_id, problem = NULL, is_paused = false,
    due_at = CASE WHEN drift_schedules.cron = EXCLUDED.cron AND drift_schedules.zone = EXCLUDED.zone
                  THEN coalesce(drift_schedules.due_at, EXCLUDED.due_at) ELSE EXCLUDED.due_at END,
    fires_at = CASE WHEN drift_schedules.cron = EXCLUDED.cron AND drift_schedules.zone = EXCLUDED.zone
                    THEN coalesce(drift_schedules.fires_at, EXCLUDED.fires_at) ELSE EXCLUDED.fires_at END
WHERE drift_schedules.of_manifest AND drift_schedules.method = 'engine';

-- name: delete_schedule_of_manifest
DELETE FROM drift_schedules WHERE object_id = %(instance_id)s AND of_manifest AND method = 'engine';

-- name: read_check_times
-- Have the manifest of an instance read for its times of checks.
INSERT INTO check_times_to_read (instance_id, organization_id) VALUES (%(instance_id)s, %(organization_id)s) ON CONFLICT DO NOTHING;

-- name: list_check_times
SELECT instance_id FROM check_times_to_read WHERE instance_id <> ALL (%(but)s::text[]) ORDER BY noted_at LIMIT %(count)s;

-- name: take_check_times
SELECT instance_id, is_launched FROM check_times_to_read WHERE instance_id = %(instance_id)s FOR UPDATE SKIP LOCKED;

-- name: delete_check_times
DELETE FROM check_times_to_read WHERE instance_id = %(instance_id)s;

-- name: ask_for_first_baseline
INSERT INTO drift_reports (instance_id, organization_id, waiting_since, learns) VALUES (%(instance_id)s, %(organization_id)s, now(), 'launch')
ON CONFLICT DO NOTHING;

-- name: delete_schedule
DELETE FROM drift_schedules WHERE object_id = %(scope_id)s;

-- name: list_due_schedules
SELECT object_id FROM drift_schedules WHERE fires_at <= %(now)s AND object_id <> ALL (%(but)s::text[]) ORDER BY fires_at LIMIT %(count)s;

-- name: lock_schedule
SELECT organization_id FROM drift_schedules WHERE object_id = %(scope_id)s AND fires_at <= %(now)s FOR UPDATE SKIP LOCKED;

-- name: count_scheduled
-- The running instances of a schedule, those of them that its owner may check, and those of these that don't wait yet. Those that sleep
-- aren't checked.
SELECT count(*)::integer AS running, count(*) FILTER (WHERE may_check)::integer AS allowed,
    count(*) FILTER (WHERE may_check AND NOT EXISTS (
        SELECT FROM drift_reports WHERE drift_reports.instance_id = instances.id AND waiting_since IS NOT NULL))::integer AS unasked
FROM instances CROSS JOIN LATERAL (SELECT {visible(application_id, id, environment_id)} AS may_check) AS granted
WHERE %(scope_id)s IN (id, application_id, environment_id) AND organization_id = %(organization_id)s AND status IN ('Running', 'Executing')
  AND NOT EXISTS (SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id);

-- name: ask_all
-- Those that its owner may check wait, as many as there is room for, the one first whose last check is the oldest. Those that wait
-- already keep their turn.
INSERT INTO drift_reports (instance_id, organization_id, waiting_since)
SELECT id, organization_id, now() FROM instances
WHERE %(scope_id)s IN (id, application_id, environment_id) AND organization_id = %(organization_id)s AND status IN ('Running', 'Executing')
  AND NOT EXISTS (SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id)
  AND NOT EXISTS (SELECT FROM drift_reports AS waiting WHERE waiting.instance_id = instances.id AND waiting_since IS NOT NULL)
  AND {visible(application_id, id, environment_id)}
ORDER BY (SELECT greatest(checked_at, problem_at) FROM drift_reports AS known WHERE known.instance_id = instances.id) NULLS FIRST, id
LIMIT %(room)s
ON CONFLICT (instance_id) DO UPDATE SET waiting_since = coalesce(drift_reports.waiting_since, now());

-- name: count_queue
SELECT count(*) FROM drift_reports WHERE organization_id = %(organization_id)s AND waiting_since IS NOT NULL;

-- name: count_ahead
-- Checks of the organization that have their turn before one that waits.
SELECT count(*) FROM drift_reports AS waiting JOIN drift_reports AS mine ON mine.instance_id = %(instance_id)s
WHERE waiting.organization_id = mine.organization_id AND waiting.waiting_since IS NOT NULL AND mine.waiting_since IS NOT NULL
  AND (NOT waiting.is_asked, waiting.waiting_since, waiting.instance_id) < (NOT mine.is_asked, mine.waiting_since, mine.instance_id);

-- name: set_next
-- Without a next time, the schedule has stopped.
UPDATE drift_schedules SET due_at = %(due_at)s, fires_at = %(fires_at)s, problem = %(problem)s WHERE object_id = %(scope_id)s;

-- name: get_put_back_rule
SELECT object_id, kind, organization_id, addresses, allow_deletes, most_per_day, owner_id, coalesce(users.email, '') AS owner_email,
       coalesce(users.name, '') AS owner_name, method, token_id, problem
FROM put_back_rules LEFT JOIN users ON users.id = owner_id WHERE object_id = %(scope_id)s;

-- name: get_put_back_rule_of
-- The rule of an instance: its own, or else that of its application, or else that of its environment.
SELECT object_id, kind, put_back_rules.organization_id, addresses, allow_deletes, most_per_day, put_back_rules.owner_id,
       coalesce(users.email, '') AS owner_email, coalesce(users.name, '') AS owner_name, method, token_id, problem
FROM instances JOIN put_back_rules ON object_id IN (instances.id, instances.application_id, instances.environment_id)
     LEFT JOIN users ON users.id = put_back_rules.owner_id
WHERE instances.id = %(instance_id)s ORDER BY array_position(ARRAY['instance', 'application', 'environment'], kind) LIMIT 1;

-- name: list_put_back_rules
-- The rules of an instance and of where it is, the nearest first, with what each has done in instances that the caller may read. The
-- nearest one of an instance acts alone.
SELECT rules.object_id, kind, addresses, allow_deletes, most_per_day, coalesce(users.email, '') AS owner_email, problem, acted, waiting,
       row_number() OVER (ORDER BY array_position(ARRAY['instance', 'application', 'environment'], kind)) > 1 AS is_replaced
FROM put_back_rules AS rules LEFT JOIN users ON users.id = owner_id CROSS JOIN LATERAL (
    SELECT coalesce(sum(jsonb_array_length(jsonb_path_query_array(
               done::jsonb, '$[*] ? (@.at > $since)', jsonb_build_object('since', %(since_ms)s::bigint)))), 0)::integer AS acted,
           count(message)::integer AS waiting
    FROM put_backs JOIN instances ON instances.id = put_backs.instance_id
    WHERE rules.object_id IN (instances.id, application_id, environment_id) AND put_backs.organization_id = rules.organization_id
      AND rules.object_id = (
          SELECT object_id FROM put_back_rules AS nearest
          WHERE object_id IN (instances.id, instances.application_id, instances.environment_id)
          ORDER BY array_position(ARRAY['instance', 'application', 'environment'], nearest.kind) LIMIT 1)
      AND {visible(instances.application_id, instances.id, instances.environment_id)}) AS counted
WHERE rules.object_id = ANY (%(scope_ids)s::text[]) AND rules.organization_id = %(organization_id)s
ORDER BY is_replaced, array_position(ARRAY['instance', 'application', 'environment'], kind);

-- name: put_put_back_rule
INSERT INTO put_back_rules (object_id, kind, organization_id, application_id, environment_id, instance_id, addresses, allow_deletes, most_per_day,
                            owner_id, method, token_id)
VALUES (%(scope_id)s, %(kind)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(instance_id)s, %(addresses)s, %(allow_deletes)s,
        %(most_per_day)s, %(owner_id)s, %(method)s, %(token_id)s)
ON CONFLICT (object_id) DO UPDATE
SET addresses = EXCLUDED.addresses, allow_deletes = EXCLUDED.allow_deletes, most_per_day = EXCLUDED.most_per_day, owner_id = EXCLUDED.owner_id,
    method = EXCLUDED.method, token_id = EXCLUDED.token_id, problem = NULL;

-- name: delete_put_back_rule
DELETE FROM put_back_rules WHERE object_id = %(scope_id)s;

-- name: stop_put_back_rule
-- Not one that somebody else has saved meanwhile.
UPDATE put_back_rules SET problem = %(problem)s
WHERE object_id = %(scope_id)s AND owner_id = %(owner_id)s AND method = %(method)s AND token_id IS NOT DISTINCT FROM %(token_id)s::text;

-- name: look_again
-- Another rule: all of its instances are looked at.
UPDATE put_backs SET looks_at = now(), message = NULL
WHERE instance_id IN (SELECT id FROM instances WHERE %(scope_id)s IN (id, application_id, environment_id) AND organization_id = %(organization_id)s);

-- name: list_due_put_backs
-- Idle instances with findings that nobody ignores, and a rule. Or with a change set of a rule, which may be of no use any more.
SELECT drift_reports.instance_id FROM drift_reports JOIN instances ON instances.id = drift_reports.instance_id
     LEFT JOIN put_backs ON put_backs.instance_id = drift_reports.instance_id
WHERE waiting_since IS NULL AND instances.status = 'Running' AND instances.job_id IS NULL
  AND (put_backs.instance_id IS NULL OR looks_at <= %(now)s OR put_backs.checked_at IS DISTINCT FROM drift_reports.checked_at)
  AND (change_set_id IS NOT NULL OR (new_findings > 0 OR now() >= ANY (ignored_until)) AND EXISTS (
      SELECT FROM put_back_rules
      WHERE object_id IN (instances.id, instances.application_id, instances.environment_id) AND put_back_rules.problem IS NULL))
  AND drift_reports.instance_id <> ALL (%(but)s::text[])
ORDER BY looks_at NULLS FIRST LIMIT %(count)s;

-- name: list_open
-- Those of some change sets that wait for somebody, or that are being applied.
SELECT id FROM change_sets
WHERE id = ANY (%(change_set_ids)s::text[]) AND organization_id = %(organization_id)s
  AND (status = 'Applying' OR status IN ('Pending', 'Ready') AND expires_at > %(now)s);

-- name: count_unapplied
-- Change sets of a rule that it hasn't applied yet.
SELECT count(*) FROM put_backs JOIN instances ON instances.id = put_backs.instance_id
WHERE %(scope_id)s IN (instances.id, application_id, environment_id) AND put_backs.organization_id = %(organization_id)s
  AND change_set_id IS NOT NULL;

-- name: wake
-- A freeze has ended: what was put off is due. A plan that failed for the freeze left what waits for the next check.
UPDATE put_backs SET looks_at = %(now)s WHERE organization_id = %(organization_id)s AND looks_at > %(now)s AND message IS NOT NULL;

-- name: begin_put_back
INSERT INTO put_backs (instance_id, organization_id) SELECT id, organization_id FROM instances WHERE id = %(instance_id)s ON CONFLICT DO NOTHING;

-- name: take_put_back
-- One for one transaction. No row: another process has locked it or has given it its turn.
SELECT put_backs.instance_id, put_backs.organization_id, change_set_id, done, findings, drift_reports.checked_at
FROM put_backs JOIN drift_reports ON drift_reports.instance_id = put_backs.instance_id
WHERE put_backs.instance_id = %(instance_id)s AND waiting_since IS NULL
  AND (looks_at <= %(now)s OR put_backs.checked_at IS DISTINCT FROM drift_reports.checked_at)
FOR UPDATE OF put_backs SKIP LOCKED;

-- name: note_put_back
UPDATE put_backs
SET change_set_id = %(change_set_id)s, message = %(message)s, done = %(done)s, checked_at = %(checked_at)s,
    looks_at = coalesce(%(looks_at)s::timestamptz, 'infinity')
WHERE instance_id = %(instance_id)s;


-- name: list_due_mails
SELECT user_id FROM drift_mails WHERE mail_at <= now() ORDER BY mail_at LIMIT %(count)s;

-- name: take_mail
-- An email to send now. If the process dies, another one sends it again after the pause, with the same message ID.
UPDATE drift_mails SET mail_at = now() + %(pause_s)s::integer * interval '1 second'
FROM organizations
WHERE organizations.id = organization_id AND (user_id, organization_id) IN (
    SELECT user_id, organization_id FROM drift_mails WHERE mail_at <= now()
    ORDER BY cardinality(array_positions(%(turns)s::text[], organization_id)), mail_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING user_id, organization_id, organizations.name AS organization, noted_at, sent_at;

-- name: list_for_mail
-- Instances of an owner with findings that nobody ignores, which they may read now, if a schedule there sends emails and isn't paused.
SELECT instances.id AS instance_id, instances.name, new_findings + over AS new, count(*) OVER () AS total
FROM drift_reports JOIN instances ON instances.id = drift_reports.instance_id
     CROSS JOIN LATERAL (SELECT count(*)::integer AS over FROM unnest(ignored_until) AS ends_at WHERE ends_at <= now()) AS counted
WHERE drift_reports.organization_id = %(organization_id)s AND instances.owner_id = %(user_id)s AND instances.status <> 'Destroyed'
  AND new_findings + over > 0 AND {visible(instances.application_id, instances.id, instances.environment_id)}
  AND EXISTS (
      SELECT FROM drift_schedules
      WHERE mail AND NOT (is_paused AND fires_at IS NULL) AND object_id IN (instances.id, instances.application_id, instances.environment_id))
ORDER BY instances.name, instances.id LIMIT %(count)s;

-- name: mail_is_done
-- What was found since the mail was taken is for the one of the next day, or the first one if nothing was sent.
UPDATE drift_mails SET mail_at = CASE WHEN noted_at = %(noted_at)s THEN NULL WHEN %(is_sent)s THEN now() + interval '1 day'
                                      ELSE greatest(now() + interval '15 minutes', sent_at + interval '1 day') END,
    sent_at = CASE WHEN %(is_sent)s THEN now() ELSE sent_at END
WHERE user_id = %(user_id)s AND organization_id = %(organization_id)s;
