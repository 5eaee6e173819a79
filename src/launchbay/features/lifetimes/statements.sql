-- name: list_rules
-- The rules of an application and of an environment, in this order.
SELECT rules FROM lifetime_rules
WHERE organization_id = %(organization_id)s AND (application_id = %(application_id)s OR environment_id = %(environment_id)s)
ORDER BY application_id NULLS LAST;

-- name: set_application_rules
INSERT INTO lifetime_rules (application_id, organization_id, rules) VALUES (%(owner_id)s, %(organization_id)s, %(rules)s)
ON CONFLICT (application_id) DO UPDATE SET rules = excluded.rules;

-- name: set_environment_rules
INSERT INTO lifetime_rules (environment_id, organization_id, rules) VALUES (%(owner_id)s, %(organization_id)s, %(rules)s)
ON CONFLICT (environment_id) DO UPDATE SET rules = excluded.rules;

-- name: remove_rules
DELETE FROM lifetime_rules
WHERE organization_id = %(organization_id)s AND (application_id = %(owner_id)s OR environment_id = %(owner_id)s);

-- name: lock_rules
-- Orders changes of the rules of an organization: each instance has the least of two.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay lifetimes ' || %(organization_id)s, 0)) IS NULL;

-- name: set_idle_ends
-- The instances of an application or environment whose idle rule has changed. Their time begins now, so that each is warned.
WITH wanted AS MATERIALIZED (
    SELECT instances.id, instances.organization_id,
           least((of_application.rules::json ->> 'idle_ms')::bigint, (of_environment.rules::json ->> 'idle_ms')::bigint) AS idle_ms
    FROM instances
    LEFT JOIN lifetime_rules AS of_application ON of_application.application_id = instances.application_id
    LEFT JOIN lifetime_rules AS of_environment ON of_environment.environment_id = instances.environment_id
    WHERE instances.organization_id = %(organization_id)s AND instances.parent_id IS NULL AND instances.status <> 'Destroyed'
      AND (instances.application_id = %(owner_id)s OR instances.environment_id = %(owner_id)s)
), gone AS (
    DELETE FROM idle_ends USING wanted WHERE idle_ends.instance_id = wanted.id AND wanted.idle_ms IS NULL
    RETURNING idle_ends.instance_id
), unlisted AS (
    UPDATE fleet SET destroy_at = launchbay_listed_end(instances.id, instances.destroy_at)
    FROM gone JOIN instances ON instances.id = gone.instance_id
    WHERE fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
)
INSERT INTO idle_ends (instance_id, organization_id, idle_ms, since, due_at)
SELECT id, organization_id, idle_ms, now(), now() + idle_ms * interval '1 millisecond' FROM wanted WHERE idle_ms IS NOT NULL
ON CONFLICT (instance_id) DO UPDATE SET idle_ms = excluded.idle_ms, since = excluded.since, due_at = excluded.due_at
WHERE idle_ends.idle_ms <> excluded.idle_ms;

-- name: add_idle_ends
-- Instances that were launched since the rules of their application or environment were set.
INSERT INTO idle_ends (instance_id, organization_id, idle_ms, since, due_at)
SELECT id, organization_id, min(idle_ms), created_at, created_at + min(idle_ms) * interval '1 millisecond'
FROM (
    SELECT instances.id, instances.organization_id, instances.created_at, (rules::json ->> 'idle_ms')::bigint AS idle_ms
    FROM lifetime_rules JOIN instances ON instances.application_id = lifetime_rules.application_id
    WHERE rules LIKE '%%"idle_ms"%%' AND instances.id > %(after)s AND instances.parent_id IS NULL AND instances.status <> 'Destroyed'
    UNION ALL
    SELECT instances.id, instances.organization_id, instances.created_at, (rules::json ->> 'idle_ms')::bigint
    FROM lifetime_rules JOIN instances ON instances.environment_id = lifetime_rules.environment_id
    WHERE rules LIKE '%%"idle_ms"%%' AND instances.id > %(after)s AND instances.parent_id IS NULL AND instances.status <> 'Destroyed'
) AS launched
WHERE NOT EXISTS (SELECT FROM idle_ends WHERE idle_ends.instance_id = launched.id)
GROUP BY id, organization_id, created_at
ON CONFLICT DO NOTHING;

-- name: move_idle_ends
-- Of the ends that are near, those that runs have moved. An instance that is busy, used by others, offered or only observed isn't idle.
WITH moved AS (
    UPDATE idle_ends SET since = ran.since, due_at = ran.since + idle_ends.idle_ms * interval '1 millisecond'
    FROM (
        SELECT near.instance_id, CASE
            WHEN instances.is_observed OR instances.job_id IS DISTINCT FROM near.own_job_id AND instances.job_id IS NOT NULL
                 OR EXISTS (SELECT FROM instance_offers WHERE instance_offers.instance_id = instances.id)
                 OR EXISTS (SELECT FROM instance_links AS link JOIN instances AS consumer ON consumer.id = link.instance_id
                            WHERE link.target_id = instances.id AND link.kind IN ('service', 'shared') AND consumer.status <> 'Destroyed')
                THEN now()
            WHEN fleet.job_id IS DISTINCT FROM near.own_job_id THEN greatest(near.since, fleet.job_ended_at)
            ELSE near.since END AS since
        FROM idle_ends AS near
        JOIN instances ON instances.id = near.instance_id
        JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
        WHERE near.due_at <= now() + %(ahead_s)s::integer * interval '1 second'
          AND (%(instance_id)s::text IS NULL OR near.instance_id = %(instance_id)s)
        FOR UPDATE OF near SKIP LOCKED
    ) AS ran
    WHERE idle_ends.instance_id = ran.instance_id AND ran.since > idle_ends.since
    RETURNING idle_ends.instance_id
)
UPDATE fleet SET destroy_at = launchbay_listed_end(instances.id, instances.destroy_at)
FROM moved JOIN instances ON instances.id = moved.instance_id
WHERE fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
  AND fleet.destroy_at IS DISTINCT FROM coalesce(instances.destroy_at, 'infinity');

-- name: list_idle_as_expiring
-- The lists of instances show the nearest end. What moves the end, such as a run, takes this back.
UPDATE fleet SET destroy_at = near.due_at
FROM (
    SELECT fleet.organization_id, fleet.instance_id, idle_ends.due_at
    FROM idle_ends JOIN fleet ON fleet.organization_id = idle_ends.organization_id AND fleet.instance_id = idle_ends.instance_id
    WHERE idle_ends.due_at <= now() + %(ahead_s)s::integer * interval '1 second' AND fleet.destroy_at > idle_ends.due_at
      AND fleet.status <> 'Destroyed'
    ORDER BY fleet.instance_id FOR UPDATE OF fleet SKIP LOCKED
) AS near
WHERE fleet.organization_id = near.organization_id AND fleet.instance_id = near.instance_id;

-- name: list_idle
SELECT instance_id FROM idle_ends WHERE due_at <= now() AND instance_id <> ALL (%(but)s::text[]) ORDER BY due_at LIMIT %(count)s;

-- name: take_idle
-- The end of an instance that is due, for one transaction. No row: another process has locked it, or it was moved.
SELECT due_at FROM idle_ends WHERE instance_id = %(instance_id)s AND due_at <= now() FOR UPDATE SKIP LOCKED;

-- name: get_idle_end
-- When an instance ends if nothing runs on it; a submodule goes with the outermost instance. A moment after the launch, only the rules
-- say it. No row, or null: there is no such end.
SELECT coalesce(
    greatest(idle_ends.since, CASE WHEN fleet.job_id IS DISTINCT FROM idle_ends.own_job_id THEN fleet.job_ended_at END)
        + idle_ends.idle_ms * interval '1 millisecond',
    instances.created_at + interval '1 millisecond'
        * least((of_application.rules::json ->> 'idle_ms')::bigint, (of_environment.rules::json ->> 'idle_ms')::bigint)
)
FROM instances
LEFT JOIN idle_ends ON idle_ends.instance_id = instances.id
LEFT JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
LEFT JOIN lifetime_rules AS of_application ON of_application.application_id = instances.application_id
LEFT JOIN lifetime_rules AS of_environment ON of_environment.environment_id = instances.environment_id
WHERE instances.id = launchbay_outermost(%(instance_id)s) AND instances.status <> 'Destroyed';

-- name: extend_idle_end
-- The end is `destroy_at` now.
WITH extended AS (
    UPDATE idle_ends SET since = %(destroy_at)s::timestamptz - idle_ms * interval '1 millisecond', due_at = %(destroy_at)s
    WHERE instance_id = %(instance_id)s
    RETURNING organization_id, instance_id
)
UPDATE fleet SET destroy_at = launchbay_listed_end(instances.id, instances.destroy_at)
FROM extended JOIN instances ON instances.id = extended.instance_id
WHERE fleet.organization_id = extended.organization_id AND fleet.instance_id = extended.instance_id;

-- name: is_idle_by_environment
-- Whether the rule of its environment ends an instance as early as that of its application, if both have one.
SELECT coalesce(idle_ends.idle_ms >= (lifetime_rules.rules::json ->> 'idle_ms')::bigint, false)
FROM idle_ends JOIN instances ON instances.id = idle_ends.instance_id
LEFT JOIN lifetime_rules ON lifetime_rules.environment_id = instances.environment_id
WHERE idle_ends.instance_id = %(instance_id)s;

-- name: begin_idle_again
-- The rule destroys the instance now. If that is taken back, the whole time begins again.
UPDATE idle_ends SET since = now(), due_at = now() + idle_ms * interval '1 millisecond', ended_at = now()
WHERE instance_id = %(instance_id)s;

-- name: postpone_idle_end
UPDATE idle_ends SET due_at = now() + %(pause_s)s::integer * interval '1 second' WHERE instance_id = %(instance_id)s;

-- name: remove_idle_end
DELETE FROM idle_ends WHERE instance_id = %(instance_id)s;

-- name: get_extensions
SELECT extensions FROM instance_extensions WHERE instance_id = %(instance_id)s;

-- name: count_extension
INSERT INTO instance_extensions (instance_id, extensions) VALUES (%(instance_id)s, 1)
ON CONFLICT (instance_id) DO UPDATE SET extensions = instance_extensions.extensions + 1;

-- name: warn
-- Notes the warnings that are due, once each, and tells the webhooks in the same transaction. An end that was set later than its
-- warning would have been due has none; of those that are late, only the last one is given.
WITH ends AS (
    SELECT instance_id, due_at, created_at FROM schedules
    WHERE (kind = 'expiry' OR kind = 'workflow' AND workflow = 'destroy' AND undo_workflow IS NULL)
      AND NOT blocked AND due_at > now() AND due_at <= now() + %(longest_s)s::integer * interval '1 second'
    UNION ALL
    SELECT idle_ends.instance_id, idle_ends.due_at, idle_ends.since
    FROM idle_ends JOIN instances ON instances.id = idle_ends.instance_id
    WHERE idle_ends.due_at > now() AND idle_ends.due_at <= now() + %(longest_s)s::integer * interval '1 second'
      AND instances.status <> 'Destroyed'
), first AS (
    SELECT DISTINCT ON (instance_id) instance_id, due_at, created_at FROM ends ORDER BY instance_id, due_at
), due AS (
    SELECT DISTINCT ON (first.instance_id) first.instance_id, first.due_at, ahead.s
    FROM first CROSS JOIN unnest(%(ahead_s)s::integer[]) AS ahead (s)
    WHERE first.due_at <= now() + ahead.s * interval '1 second' AND first.created_at < first.due_at - ahead.s * interval '1 second'
      AND NOT EXISTS (
          SELECT FROM expiry_warnings AS given
          WHERE given.instance_id = first.instance_id AND given.destroy_at = first.due_at AND given.ahead_s <= ahead.s)
    ORDER BY first.instance_id, ahead.s LIMIT %(count)s
), noted AS (
    INSERT INTO expiry_warnings (instance_id, destroy_at, ahead_s, mail_at)
    SELECT due.instance_id, due.due_at, due.s, CASE WHEN %(has_mail)s::boolean AND EXISTS (
        SELECT FROM lifetime_rules
        WHERE (lifetime_rules.application_id = instances.application_id OR lifetime_rules.environment_id = instances.environment_id)
          AND (rules::json ->> 'mail')::boolean
    ) THEN now() END
    FROM due JOIN instances ON instances.id = due.instance_id
    ON CONFLICT DO NOTHING
    RETURNING instance_id, destroy_at, ahead_s
)
SELECT count(coalesce(launchbay_post(instances, 'expiry', json_build_object(
    'destroyAt', floor(extract(epoch FROM noted.destroy_at) * 1000)::bigint, 'hours', noted.ahead_s / 3600,
    'cause', CASE WHEN idle_ends.due_at = noted.destroy_at THEN 'idle' WHEN instances.destroy_at = noted.destroy_at THEN 'lifetime'
                  ELSE 'schedule' END
))::text, ''))
FROM noted JOIN instances ON instances.id = noted.instance_id LEFT JOIN idle_ends ON idle_ends.instance_id = noted.instance_id;

-- name: list_due_mails
SELECT instance_id FROM expiry_warnings WHERE mail_at <= now() ORDER BY mail_at LIMIT %(count)s;

-- name: take_mail
-- The warnings of an email to send now: those to one owner that became due in the same moment. If the process dies, another one sends
-- them again after the pause, together, so that the email has the same message ID.
WITH first AS (
    SELECT owner_id, organization_id, mail_at FROM expiry_warnings JOIN instances ON instances.id = instance_id
    WHERE mail_at <= now()
    ORDER BY cardinality(array_positions(%(turns)s::text[], organization_id)), mail_at, owner_id LIMIT 1
    FOR UPDATE OF expiry_warnings SKIP LOCKED
), batch AS (
    SELECT instance_id, expiry_warnings.destroy_at, ahead_s, first.owner_id, first.organization_id
    FROM first JOIN expiry_warnings ON expiry_warnings.mail_at = first.mail_at JOIN instances ON instances.id = instance_id
    WHERE instances.owner_id = first.owner_id AND instances.organization_id = first.organization_id
    ORDER BY expiry_warnings.destroy_at, instance_id, ahead_s LIMIT %(count)s FOR UPDATE OF expiry_warnings SKIP LOCKED
)
UPDATE expiry_warnings AS taken SET mail_at = now() + %(pause_s)s::integer * interval '1 second'
FROM batch
WHERE (taken.instance_id, taken.destroy_at, taken.ahead_s) = (batch.instance_id, batch.destroy_at, batch.ahead_s)
RETURNING owner_id AS user_id, organization_id, taken.instance_id, taken.destroy_at, taken.ahead_s;

-- name: list_for_mail
-- Of instances of an owner, those that they may read now and that still end at that time, if a rule with emails is about them.
SELECT DISTINCT ON (instances.id) instances.id AS instance_id, instances.name, given.ends_at AS destroy_at,
       CASE WHEN idle_ends.due_at = given.ends_at THEN 'idle' WHEN instances.destroy_at = given.ends_at THEN 'lifetime'
            ELSE 'schedule' END AS cause
FROM unnest(%(instance_ids)s::text[], %(ends)s::timestamptz[]) AS given (instance_id, ends_at)
JOIN instances ON instances.id = given.instance_id
LEFT JOIN idle_ends ON idle_ends.instance_id = instances.id
CROSS JOIN LATERAL (
    SELECT least(min(due_at), instances.destroy_at, idle_ends.due_at) AS ends_at FROM schedules
    WHERE schedules.instance_id = instances.id AND kind = 'workflow' AND workflow = 'destroy'
) AS nearest
WHERE instances.organization_id = %(organization_id)s AND instances.owner_id = %(user_id)s AND instances.status <> 'Destroyed'
  AND given.ends_at = nearest.ends_at AND given.ends_at > now()
  AND {visible(instances.application_id, instances.id, instances.environment_id)}
  AND EXISTS (
      SELECT FROM lifetime_rules
      WHERE (lifetime_rules.application_id = instances.application_id OR lifetime_rules.environment_id = instances.environment_id)
        AND (rules::json ->> 'mail')::boolean)
ORDER BY instances.id;

-- name: mail_is_done
UPDATE expiry_warnings SET mail_at = NULL
WHERE instance_id = %(instance_id)s AND destroy_at = %(destroy_at)s AND ahead_s = %(ahead_s)s;
