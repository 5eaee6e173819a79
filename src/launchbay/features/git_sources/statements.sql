-- name: git_source
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       g.id, g.organization_id, g.name, g.account_id, g.application_id, g.settings, g.sealed_parameters, g.is_paused, g.due_at, g.seen,
       g.applied, g.planned, g.approved, g.problem, g.looked_at, g.failures, g.lease_until > now() AS is_running, g.created_at
FROM users u
LEFT JOIN (git_sources g JOIN organizations o ON o.id = g.organization_id) ON g.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: count
SELECT count(*) FROM git_sources WHERE organization_id = %(organization_id)s;

-- name: insert
INSERT INTO git_sources (id, organization_id, name, account_id, application_id, settings, sealed_parameters, is_paused, due_at)
VALUES (%(source_id)s, %(organization_id)s, %(name)s, %(account_id)s, %(application_id)s, %(settings)s, %(sealed_parameters)s, %(is_paused)s,
        CASE WHEN NOT %(is_paused)s THEN now() END);

-- name: list_by_organization
-- Sources of an organization, by ID; of one application where it is given.
SELECT id, organization_id, name, account_id, application_id, settings, sealed_parameters, is_paused, due_at, seen, applied, planned, approved,
       problem, looked_at, failures, lease_until > now() AS is_running, created_at
FROM git_sources
WHERE organization_id = %(organization_id)s AND (%(application_id)s::text IS NULL OR application_id = %(application_id)s)
ORDER BY id;

-- name: update
-- Other settings begin anew: what was planned is void, and a process that is at work with the former ones writes nothing.
UPDATE git_sources
SET name = %(name)s, account_id = %(account_id)s, application_id = %(application_id)s, settings = %(settings)s,
    sealed_parameters = %(sealed_parameters)s, is_paused = %(is_paused)s,
    due_at = CASE WHEN NOT %(is_paused)s THEN now() END, is_forced = true, fence = fence + 1, lease_until = NULL, failures = 0,
    planned = NULL, approved = NULL, problem = NULL
WHERE id = %(source_id)s;

-- name: list_unsealed
-- Sources with parameters of previews that an older server stored in the clear.
SELECT id, settings FROM git_sources
WHERE sealed_parameters IS NULL AND settings::jsonb #> '{previews,parameters}' IS NOT NULL ORDER BY id FOR UPDATE;

-- name: seal
UPDATE git_sources SET settings = %(settings)s, sealed_parameters = %(sealed_parameters)s WHERE id = %(source_id)s;

-- name: delete
DELETE FROM git_sources WHERE id = %(source_id)s;

-- name: request
-- Asks for a look at the branch now. No row: the source is paused.
UPDATE git_sources SET due_at = now(), is_forced = is_forced OR %(is_forced)s, failures = 0
WHERE id = %(source_id)s AND NOT is_paused;

-- name: approve
-- Approves the plan of a commit. No row: another one is planned.
UPDATE git_sources SET approved = planned, due_at = now(), is_forced = true, failures = 0
WHERE id = %(source_id)s AND planned = %(commit)s AND NOT is_paused;

-- name: list_due
SELECT id FROM git_sources
WHERE due_at <= now() AND (lease_until IS NULL OR lease_until <= now()) ORDER BY due_at LIMIT %(count)s;

-- name: take
-- Takes the lease of a source that is due. No row: another process has it, or it was paused or deleted.
UPDATE git_sources SET lease_until = now() + %(lease_s)s * interval '1 second', fence = fence + 1
WHERE id = (SELECT id FROM git_sources
            WHERE id = %(source_id)s AND due_at <= now() AND (lease_until IS NULL OR lease_until <= now()) FOR UPDATE SKIP LOCKED)
RETURNING id, organization_id, name, account_id, application_id, settings, fence, is_forced, failures, seen, applied, planned, approved,
          due_at, now() AS started_at;

-- name: renew
UPDATE git_sources SET lease_until = now() + %(lease_s)s * interval '1 second'
WHERE id = %(source_id)s AND fence = %(fence)s;

-- name: hold
-- Orders what changes a source one after the other, and finds out whether the lease is still held.
SELECT id FROM git_sources WHERE id = %(source_id)s AND fence = %(fence)s FOR UPDATE;

-- name: finish
-- Ends a look at the branch. A request that came meanwhile stays due; what was asked for stays so if the look is repeated.
UPDATE git_sources
SET lease_until = NULL, looked_at = now(), seen = coalesce(%(seen)s, seen), problem = %(problem)s, failures = %(failures)s,
    planned = %(planned)s, approved = CASE WHEN %(is_repeated)s THEN approved END,
    is_forced = is_forced AND (%(is_repeated)s OR due_at > %(taken_due_at)s),
    due_at = CASE WHEN due_at > %(taken_due_at)s THEN due_at
                  WHEN %(pause_ms)s::bigint IS NOT NULL THEN now() + %(pause_ms)s::bigint * interval '1 millisecond' END
WHERE id = %(source_id)s AND fence = %(fence)s;

-- name: set_applied
UPDATE git_sources SET applied = %(commit)s, files = %(files)s WHERE id = %(source_id)s AND fence = %(fence)s;

-- name: get_files
SELECT files FROM git_sources WHERE id = %(source_id)s;

-- name: insert_sync
-- Notes an outcome. One like the newest, such as the same failure again, is counted there.
WITH newest AS (
    SELECT id FROM git_syncs WHERE source_id = %(source_id)s ORDER BY id DESC LIMIT 1
), repeated AS (
    UPDATE git_syncs SET attempts = attempts + 1, ended_at = now()
    WHERE id = (SELECT id FROM newest) AND status IN ('Failed', 'Refused') AND status = %(status)s
      AND commit IS NOT DISTINCT FROM %(commit)s::text AND message IS NOT DISTINCT FROM %(message)s::text
      AND pull_request IS NOT DISTINCT FROM %(pull_request)s::bigint
    RETURNING id
)
INSERT INTO git_syncs (id, source_id, commit, pull_request, status, message, changes, change_set_ids, instance_id, report_at, started_at)
SELECT %(sync_id)s, %(source_id)s, %(commit)s, %(pull_request)s, %(status)s, %(message)s, %(changes)s, %(change_set_ids)s, %(instance_id)s,
       CASE WHEN %(is_reported)s THEN now() END, %(started_at)s
WHERE NOT EXISTS (SELECT FROM repeated);

-- name: end_change_set
-- Notes that the commit of a change set was applied. No row: the source was deleted, or follows another repository by now.
WITH source AS (
    UPDATE git_sources SET applied = %(commit)s, files = %(files)s, planned = NULL, approved = NULL, problem = NULL
    WHERE id = %(source_id)s AND coalesce(planned, %(commit)s) = %(commit)s
    RETURNING id, settings
)
INSERT INTO git_syncs (id, source_id, commit, status, changes, change_set_ids, report_at, started_at)
SELECT %(sync_id)s, id, %(commit)s, 'Applied', %(changes)s, %(change_set_ids)s,
       CASE WHEN settings::json ->> 'statusToken' IS NOT NULL THEN now() END, now()
FROM source;

-- name: lock
SELECT id FROM git_sources WHERE id = %(source_id)s FOR UPDATE;

-- name: delete_old_syncs
DELETE FROM git_syncs
WHERE source_id = %(source_id)s AND report_at IS NULL
  AND id < (SELECT id FROM git_syncs WHERE source_id = %(source_id)s ORDER BY id DESC OFFSET %(kept)s LIMIT 1);

-- name: list_syncs
-- What came of the last looks at a source, the newest first.
SELECT id, commit, pull_request, status, message, changes, change_set_ids, instance_id, attempts, report_at IS NOT NULL AS is_reporting,
       report_problem, started_at, ended_at
FROM git_syncs WHERE source_id = %(source_id)s AND (%(after)s::text IS NULL OR id < %(after)s)
ORDER BY id DESC LIMIT %(count)s;

-- name: get_for_event
-- A source for an event from its forge, which has no caller.
SELECT id, organization_id, account_id, application_id, settings, is_paused FROM git_sources WHERE id = %(source_id)s;

-- name: insert_event
-- No row: the same event was accepted before.
INSERT INTO git_events (source_id, digest) VALUES (%(source_id)s, %(digest)s) ON CONFLICT DO NOTHING;

-- name: delete_old_events
DELETE FROM git_events WHERE source_id = %(source_id)s AND received_at < now() - %(days)s * interval '1 day';

-- name: claim_report
-- An outcome to report to its commit, for a while for this process alone.
UPDATE git_syncs SET report_at = now() + interval '60 seconds', report_attempts = report_attempts + 1
FROM git_sources
WHERE git_sources.id = git_syncs.source_id
  AND git_syncs.id = (SELECT id FROM git_syncs WHERE report_at <= now() ORDER BY report_at FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING git_syncs.id, source_id, organization_id, account_id, application_id, settings, commit, pull_request, status, message, changes,
          git_syncs.instance_id, report_attempts;

-- name: note_report
UPDATE git_syncs SET report_at = now() + %(pause_s)s::float8 * interval '1 second', report_problem = %(problem)s WHERE id = %(sync_id)s;

-- name: count_previews
SELECT count(*) FROM git_previews WHERE source_id = %(source_id)s AND is_open AND number <> %(number)s;

-- name: put_preview
-- No row: a younger event of the pull request was accepted before.
INSERT INTO git_previews (source_id, number, branch, commit, is_open, changed_at, due_at, check_at)
VALUES (%(source_id)s, %(number)s, %(branch)s, %(commit)s, %(is_open)s, %(changed_at)s, now(), now() + %(check_s)s * interval '1 second')
ON CONFLICT (source_id, number) DO UPDATE
SET branch = EXCLUDED.branch, commit = EXCLUDED.commit, is_open = EXCLUDED.is_open, changed_at = EXCLUDED.changed_at, due_at = now(), failures = 0,
    check_at = EXCLUDED.check_at
WHERE git_previews.changed_at <= EXCLUDED.changed_at;

-- name: list_previews
SELECT number, branch, commit, is_open, applied, application_id, instance_id, problem, changed_at
FROM git_previews WHERE source_id = %(source_id)s AND (%(before)s::bigint IS NULL OR number < %(before)s)
ORDER BY number DESC LIMIT %(count)s;

-- name: list_due_previews
SELECT number FROM git_previews WHERE due_at <= now() AND (lease_until IS NULL OR lease_until <= now());

-- name: list_due_checks
SELECT number FROM git_previews JOIN git_sources ON git_sources.id = git_previews.source_id
WHERE is_open AND git_previews.due_at IS NULL AND check_at <= now() AND NOT is_paused
  AND (git_previews.lease_until IS NULL OR git_previews.lease_until <= now());

-- name: list_due_reports
SELECT id FROM git_syncs WHERE report_at <= now();

-- name: take_preview
-- Takes the lease of a preview that is due.
UPDATE git_previews SET lease_until = now() + %(lease_s)s * interval '1 second', fence = git_previews.fence + 1
FROM git_sources
WHERE git_sources.id = git_previews.source_id
  AND (source_id, number) = (SELECT source_id, number FROM git_previews
                             WHERE due_at <= now() AND (lease_until IS NULL OR lease_until <= now())
                             ORDER BY due_at FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING source_id, number, branch, commit, is_open, git_previews.fence, git_previews.failures, git_previews.application_id AS preview_id,
          instance_id, git_previews.applied, git_previews.due_at, organization_id, account_id, git_sources.application_id, settings,
          sealed_parameters, now() AS started_at, git_previews.changed_at;

-- name: take_check
-- Takes the lease of a preview whose pull request was open at the last look.
UPDATE git_previews SET lease_until = now() + %(lease_s)s * interval '1 second', fence = git_previews.fence + 1
FROM git_sources
WHERE git_sources.id = git_previews.source_id
  AND (source_id, number) = (SELECT source_id, number FROM git_previews JOIN git_sources ON git_sources.id = git_previews.source_id
                             WHERE is_open AND git_previews.due_at IS NULL AND check_at <= now() AND NOT is_paused
                               AND (git_previews.lease_until IS NULL OR git_previews.lease_until <= now())
                             ORDER BY check_at FOR UPDATE OF git_previews SKIP LOCKED LIMIT 1)
RETURNING source_id, number, branch, commit, is_open, git_previews.fence, git_previews.failures, git_previews.application_id AS preview_id,
          instance_id, git_previews.applied, git_previews.due_at, organization_id, account_id, git_sources.application_id, settings,
          sealed_parameters, now() AS started_at, git_previews.changed_at;

-- name: note_check
-- Ends a check. An event that came meanwhile knows better.
UPDATE git_previews
SET lease_until = NULL, check_at = now() + %(pause_s)s::float8 * interval '1 second',
    is_open = CASE WHEN changed_at = %(changed_at)s THEN %(is_open)s ELSE is_open END,
    commit = CASE WHEN changed_at = %(changed_at)s THEN %(commit)s ELSE commit END,
    failures = CASE WHEN %(is_due)s THEN 0 ELSE failures END, due_at = CASE WHEN %(is_due)s THEN coalesce(due_at, now()) ELSE due_at END
WHERE source_id = %(source_id)s AND number = %(number)s AND fence = %(fence)s;

-- name: retry_previews
-- Previews that failed are tried again, and the pull requests of all others are asked for.
UPDATE git_previews
SET check_at = now(), failures = 0, due_at = CASE WHEN problem IS NOT NULL THEN now() ELSE due_at END
WHERE source_id = %(source_id)s;

-- name: renew_preview
UPDATE git_previews SET lease_until = now() + %(lease_s)s * interval '1 second'
WHERE source_id = %(source_id)s AND number = %(number)s AND fence = %(fence)s;

-- name: hold_preview
SELECT source_id FROM git_previews WHERE source_id = %(source_id)s AND number = %(number)s AND fence = %(fence)s FOR UPDATE;

-- name: finish_preview
-- Ends the work at a preview. An event that came meanwhile stays due.
UPDATE git_previews
SET lease_until = NULL, application_id = %(application_id)s, instance_id = %(instance_id)s, applied = %(applied)s, problem = %(problem)s,
    failures = %(failures)s,
    due_at = CASE WHEN due_at > %(taken_due_at)s THEN due_at
                  WHEN %(pause_s)s::float8 IS NOT NULL THEN now() + %(pause_s)s::float8 * interval '1 second' END
WHERE source_id = %(source_id)s AND number = %(number)s AND fence = %(fence)s;

-- name: lock_git_source
SELECT id FROM git_sources WHERE id = %(id)s FOR UPDATE;

-- name: list_sealed
SELECT id, '' AS part, sealed_parameters AS sealed FROM git_sources
WHERE id > %(id)s AND substring(sealed_parameters FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE git_sources SET sealed_parameters = %(sealed)s WHERE id = %(id)s AND sealed_parameters = %(before)s;

-- name: wake
-- A freeze has ended: what has failed is tried again.
WITH sources AS (
    UPDATE git_sources SET due_at = now()
    WHERE organization_id = %(organization_id)s AND failures > 0 AND due_at > now()
)
UPDATE git_previews SET due_at = now()
FROM git_sources
WHERE git_sources.id = git_previews.source_id AND git_sources.organization_id = %(organization_id)s AND git_previews.failures > 0
  AND git_previews.due_at > now();
