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

-- name: get_extensions
SELECT extensions FROM instance_extensions WHERE instance_id = %(instance_id)s;

-- name: count_extension
INSERT INTO instance_extensions (instance_id, extensions) VALUES (%(instance_id)s, 1)
ON CONFLICT (instance_id) DO UPDATE SET extensions = instance_extensions.extensions + 1;

-- name: warn
-- Notes the warnings that are due, once each, and tells the webhooks in the same transaction. An end that was set later than its
-- warning would have been due has none; of those that are late, only the last one is given.
WITH due AS (
    SELECT DISTINCT ON (schedules.instance_id) schedules.instance_id, schedules.due_at, ahead.s
    FROM schedules CROSS JOIN unnest(%(ahead_s)s::integer[]) AS ahead (s)
    WHERE schedules.kind = 'expiry' AND NOT schedules.blocked
      AND schedules.due_at > now() AND schedules.due_at <= now() + %(longest_s)s::integer * interval '1 second'
      AND schedules.due_at <= now() + ahead.s * interval '1 second'
      AND schedules.created_at < schedules.due_at - ahead.s * interval '1 second'
      AND NOT EXISTS (
          SELECT FROM expiry_warnings AS given
          WHERE given.instance_id = schedules.instance_id AND given.destroy_at = schedules.due_at AND given.ahead_s <= ahead.s)
    ORDER BY schedules.instance_id, ahead.s LIMIT %(count)s
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
    'destroyAt', floor(extract(epoch FROM noted.destroy_at) * 1000)::bigint, 'hours', noted.ahead_s / 3600
))::text, ''))
FROM noted JOIN instances ON instances.id = noted.instance_id;

-- name: take_mails
-- Emails to send now. If the process dies, another one sends them again after the pause, with the same message IDs.
UPDATE expiry_warnings SET mail_at = now() + %(pause_s)s::integer * interval '1 second'
FROM instances JOIN users ON users.id = instances.owner_id
WHERE instances.id = expiry_warnings.instance_id AND (expiry_warnings.instance_id, expiry_warnings.destroy_at, expiry_warnings.ahead_s) IN (
    SELECT instance_id, destroy_at, ahead_s FROM expiry_warnings WHERE mail_at <= now()
    ORDER BY mail_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING expiry_warnings.instance_id, expiry_warnings.destroy_at, expiry_warnings.ahead_s, instances.name AS instance, users.email,
          instances.destroy_at IS NOT DISTINCT FROM expiry_warnings.destroy_at AS is_current;

-- name: mail_is_sent
UPDATE expiry_warnings SET mail_at = NULL
WHERE instance_id = %(instance_id)s AND destroy_at = %(destroy_at)s AND ahead_s = %(ahead_s)s;
