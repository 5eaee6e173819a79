-- name: list_rules
-- The rules of an application and of an environment, in this order.
SELECT rules, application_id IS NOT NULL AS is_of_application FROM sleep_rules
WHERE organization_id = %(organization_id)s AND (application_id = %(application_id)s OR environment_id = %(environment_id)s)
ORDER BY application_id NULLS LAST;

-- name: set_application_rules
INSERT INTO sleep_rules (application_id, organization_id, rules) VALUES (%(owner_id)s, %(organization_id)s, %(rules)s)
ON CONFLICT (application_id) DO UPDATE SET rules = excluded.rules;

-- name: set_environment_rules
INSERT INTO sleep_rules (environment_id, organization_id, rules) VALUES (%(owner_id)s, %(organization_id)s, %(rules)s)
ON CONFLICT (environment_id) DO UPDATE SET rules = excluded.rules;

-- name: remove_rules
DELETE FROM sleep_rules
WHERE organization_id = %(organization_id)s AND (application_id = %(owner_id)s OR environment_id = %(owner_id)s);

-- name: begin_anew
-- The rule of an application or environment has changed: its instances have a turn now, which finds their next time.
INSERT INTO instance_sleeps (instance_id, organization_id, fires_at)
SELECT id, organization_id, %(now)s FROM instances
WHERE organization_id = %(organization_id)s AND parent_id IS NULL AND status <> 'Destroyed'
  AND (application_id = %(owner_id)s OR environment_id = %(owner_id)s)
ON CONFLICT (instance_id) DO UPDATE SET due_at = NULL, fires_at = excluded.fires_at;

-- name: list_with_rules
SELECT organization_id FROM sleep_rules;

-- name: add_launched
-- Instances that were launched since the rules of their application or environment were set. None with a rule without windows, also
-- where its environment has some: its turn would remove it at once, and the next look would add it again, over and over.
INSERT INTO instance_sleeps (instance_id, organization_id, fires_at)
SELECT DISTINCT id, organization_id, %(now)s::timestamptz
FROM (
    SELECT instances.id, instances.organization_id
    FROM sleep_rules JOIN instances ON instances.application_id = sleep_rules.application_id
    WHERE sleep_rules.rules::jsonb -> 'windows' <> '[]' AND instances.id > %(after)s AND instances.parent_id IS NULL AND instances.status <> 'Destroyed'
    UNION ALL
    SELECT instances.id, instances.organization_id
    FROM sleep_rules JOIN instances ON instances.environment_id = sleep_rules.environment_id
    WHERE sleep_rules.rules::jsonb -> 'windows' <> '[]'
      AND NOT EXISTS (SELECT FROM sleep_rules AS own WHERE own.application_id = instances.application_id) AND instances.id > %(after)s AND instances.parent_id IS NULL AND instances.status <> 'Destroyed'
) AS launched
WHERE NOT EXISTS (SELECT FROM instance_sleeps WHERE instance_sleeps.instance_id = launched.id)
ON CONFLICT DO NOTHING;

-- name: list_due
SELECT instance_id FROM instance_sleeps WHERE fires_at <= %(now)s AND instance_id <> ALL (%(but)s::text[]) ORDER BY fires_at LIMIT %(count)s;

-- name: take
-- One that is due, for one transaction. No row: another process has locked it or has given it its turn.
SELECT due_at, is_asleep, since, wake_workflow, job_id, awake_until, awake_by, message,
       coalesce(fires_at > due_at, false) AS is_postponed
FROM instance_sleeps WHERE instance_id = %(instance_id)s AND fires_at <= %(now)s FOR UPDATE SKIP LOCKED;

-- name: get
SELECT due_at, is_asleep, since, wake_workflow, job_id, awake_until, awake_by, message,
       coalesce(fires_at > due_at, false) AS is_postponed
FROM instance_sleeps WHERE instance_id = %(instance_id)s;

-- name: save
UPDATE instance_sleeps
SET due_at = %(due_at)s, fires_at = %(fires_at)s, is_asleep = %(is_asleep)s, since = %(since)s, wake_workflow = %(wake_workflow)s,
    job_id = %(job_id)s, awake_until = %(awake_until)s, awake_by = %(awake_by)s, message = %(message)s
WHERE instance_id = %(instance_id)s;

-- name: postpone
UPDATE instance_sleeps SET fires_at = %(fires_at)s, message = %(message)s WHERE instance_id = %(instance_id)s;

-- name: remove
DELETE FROM instance_sleeps WHERE instance_id = %(instance_id)s;

-- name: keep_awake
-- Its turn comes at once, and wakes it if it sleeps. No row: it has no rule.
UPDATE instance_sleeps
SET awake_until = %(until)s, awake_by = %(user_id)s, due_at = coalesce(due_at, %(now)s), fires_at = %(now)s
WHERE instance_id = %(instance_id)s
RETURNING instance_id;

-- name: was_started
-- Whether somebody has started an instance since a job stopped it.
SELECT EXISTS (
    SELECT FROM jobs WHERE instance_id = %(instance_id)s AND id > %(job_id)s AND name = %(workflow)s AND status = 'Succeeded');

-- name: count_no_run
-- The job of a sleep window is no run for the rule of idle instances.
UPDATE idle_ends
SET since = greatest(idle_ends.since, CASE WHEN fleet.job_id IS DISTINCT FROM idle_ends.own_job_id THEN fleet.job_ended_at END),
    own_job_id = %(job_id)s
FROM fleet
WHERE idle_ends.instance_id = %(instance_id)s AND fleet.organization_id = idle_ends.organization_id
  AND fleet.instance_id = idle_ends.instance_id;

-- name: wake
-- A freeze has ended: what was put off is due.
UPDATE instance_sleeps SET fires_at = %(now)s
WHERE organization_id = %(organization_id)s AND due_at <= %(now)s AND fires_at > %(now)s;
