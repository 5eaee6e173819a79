-- name: recurring_schedule
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       r.id, r.organization_id, r.name, r.owner_id, r.owner_email, r.token_id, r.kind, r.application_id, r.instance_id, r.act, r.cron, r.zone,
       r.starts_at, r.ends_at, r.is_paused, r.when_busy, r.jitter_ms, r.due_at, r.fires_at, r.firings, r.fired, r.created_at,
       launchbay_ends_at(r.instance_id) AS instance_ends_at,
       coalesce((SELECT status = 'Destroyed' FROM instances WHERE id = r.instance_id), false) AS instance_is_destroyed, r.waits_for
FROM users u
LEFT JOIN (recurring_schedules r JOIN organizations o ON o.id = r.organization_id) ON r.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: count
SELECT count(*) FROM recurring_schedules WHERE organization_id = %(organization_id)s;

-- name: insert
INSERT INTO recurring_schedules (id, organization_id, name, owner_id, owner_email, owner_name, address, method, token_id, kind, application_id,
                                 instance_id, act, cron, zone, starts_at, ends_at, is_paused, when_busy, jitter_ms, due_at, fires_at)
VALUES (%(schedule_id)s, %(organization_id)s, %(name)s, %(owner_id)s, %(owner_email)s, %(owner_name)s, %(address)s, %(method)s, %(token_id)s,
        %(kind)s, %(application_id)s, %(instance_id)s, %(act)s, %(cron)s, %(zone)s, %(starts_at)s, %(ends_at)s, %(is_paused)s, %(when_busy)s,
        %(jitter_ms)s, %(due_at)s, %(fires_at)s);

-- name: list_by_organization
-- Recurring schedules of an organization, the newest first; of one instance or application where it is given.
SELECT id, organization_id, name, owner_id, owner_email, token_id, kind, application_id, instance_id, act, cron, zone, starts_at, ends_at,
       is_paused, when_busy, jitter_ms, due_at, fires_at, firings, fired, created_at, launchbay_ends_at(instance_id) AS instance_ends_at,
       coalesce((SELECT status = 'Destroyed' FROM instances WHERE id = recurring_schedules.instance_id), false) AS instance_is_destroyed, waits_for
FROM recurring_schedules
WHERE organization_id = %(organization_id)s AND (%(after)s::text IS NULL OR id < %(after)s)
  AND (%(instance_id)s::text IS NULL OR instance_id = %(instance_id)s)
  AND (%(application_id)s::text IS NULL OR application_id = %(application_id)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: list_by_name
SELECT id, organization_id, name, owner_id, owner_email, token_id, kind, application_id, instance_id, act, cron, zone, starts_at, ends_at,
       is_paused, when_busy, jitter_ms, due_at, fires_at, firings, fired, created_at, launchbay_ends_at(instance_id) AS instance_ends_at,
       coalesce((SELECT status = 'Destroyed' FROM instances WHERE id = recurring_schedules.instance_id), false) AS instance_is_destroyed, waits_for
FROM recurring_schedules WHERE organization_id = %(organization_id)s AND name = %(name)s ORDER BY id;

-- name: lock
-- Orders what changes a recurring schedule one after the other, also its firings.
SELECT id FROM recurring_schedules WHERE id = %(schedule_id)s FOR UPDATE;

-- name: update
UPDATE recurring_schedules
SET name = %(name)s, cron = %(cron)s, zone = %(zone)s, starts_at = %(starts_at)s, ends_at = %(ends_at)s, is_paused = %(is_paused)s,
    when_busy = %(when_busy)s, jitter_ms = %(jitter_ms)s, due_at = %(due_at)s, fires_at = %(fires_at)s, waits_for = NULL
WHERE id = %(schedule_id)s;

-- name: delete
DELETE FROM recurring_schedules WHERE id = %(schedule_id)s;

-- name: list_due
SELECT id FROM recurring_schedules WHERE fires_at <= %(now)s AND id <> ALL (%(but)s::text[]) ORDER BY fires_at LIMIT %(count)s;

-- name: take
-- One that is due, for one transaction. No row: another process has locked it or fired it, or it was paused or deleted.
SELECT id, organization_id, name, owner_id, owner_email, owner_name, address, method, token_id, kind, application_id, instance_id, act, cron, zone,
       starts_at, ends_at, when_busy, jitter_ms, due_at, firings
FROM recurring_schedules WHERE id = %(schedule_id)s AND fires_at <= %(now)s FOR UPDATE SKIP LOCKED;

-- name: note_firing
UPDATE recurring_schedules SET due_at = %(due_at)s, fires_at = %(fires_at)s, firings = %(firings)s, fired = fired + %(fired)s,
    waits_for = NULL
WHERE id = %(schedule_id)s;

-- name: postpone
UPDATE recurring_schedules SET fires_at = %(fires_at)s, waits_for = %(waits_for)s WHERE id = %(schedule_id)s;

-- name: list_job_statuses
SELECT id, status FROM jobs WHERE id = ANY(%(ids)s::text[]) AND organization_id = %(organization_id)s;

-- name: lock_recurring_schedule
SELECT id FROM recurring_schedules WHERE id = %(id)s FOR UPDATE;

-- name: list_sealed
SELECT id, '' AS part, act AS sealed FROM recurring_schedules
WHERE id > %(id)s AND substring(act FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE recurring_schedules SET act = %(sealed)s WHERE id = %(id)s AND act = %(before)s;

-- name: wake
-- A freeze has ended: what was put off is due.
UPDATE recurring_schedules SET fires_at = %(now)s, waits_for = NULL
WHERE organization_id = %(organization_id)s AND when_busy = 'queue' AND due_at <= %(now)s AND fires_at > %(now)s;
