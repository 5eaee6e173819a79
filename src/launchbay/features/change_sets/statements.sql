-- name: change_set
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       c.id, c.organization_id, c.owner_id, c.owner_email, c.token_id, c.kind, c.comment, c.on_failure, c.needed, c.role_ids, c.confirm,
       CASE WHEN c.status IN ('Pending', 'Ready') AND c.expires_at <= now() THEN 'Expired' ELSE c.status END AS status,
       c.created_at, c.expires_at, c.applied_by, c.applied_at, c.finished_at, c.environment_ids, c.application_ids, c.differences,
       c.git_source_id, c.git_commit, (SELECT count(*) FROM change_set_instances WHERE change_set_id = c.id) AS instances,
       (SELECT count(*) FROM plans WHERE plans.change_set_id = c.id) AS plans
FROM users u
LEFT JOIN (change_sets c JOIN organizations o ON o.id = c.organization_id) ON c.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: count_open
SELECT count(*) FROM change_sets
WHERE organization_id = %(organization_id)s AND (status = 'Applying' OR status IN ('Pending', 'Ready') AND expires_at > now());

-- name: delete_old
DELETE FROM change_sets
WHERE organization_id = %(organization_id)s AND status <> 'Applying'
  AND coalesce(finished_at, expires_at) < now() - %(days)s * interval '1 day';

-- name: insert
INSERT INTO change_sets (id, organization_id, owner_id, owner_email, token_id, act, kind, comment, on_failure, needed, role_ids, status,
                         confirm, environment_ids, application_ids, git_source_id, git_commit, expires_at)
VALUES (%(change_set_id)s, %(organization_id)s, %(owner_id)s, %(owner_email)s, %(token_id)s, %(act)s, %(kind)s, %(comment)s, %(on_failure)s,
        %(needed)s, %(role_ids)s, %(status)s, %(confirm)s, %(environment_ids)s, %(application_ids)s, %(git_source_id)s, %(git_commit)s,
        now() + %(expires_in_ms)s::bigint * interval '1 millisecond');

-- name: insert_instances
INSERT INTO change_set_instances (change_set_id, place, instance_id, instance_name, application_id, environment_id, promise, facts)
SELECT %(change_set_id)s, chosen.place, chosen.id, chosen.name, chosen.application_id, chosen.environment_id, chosen.promise, chosen.facts
FROM unnest(%(ids)s::text[], %(names)s::text[], %(application_ids)s::text[], %(environment_ids)s::text[], %(promises)s::text[], %(facts)s::text[])
     WITH ORDINALITY AS chosen (id, name, application_id, environment_id, promise, facts, place);

-- name: list_by_organization
-- Change sets of an organization, the newest first.
SELECT id, organization_id, owner_id, owner_email, token_id, kind, comment, on_failure, needed, role_ids, confirm,
       CASE WHEN status IN ('Pending', 'Ready') AND expires_at <= now() THEN 'Expired' ELSE status END AS status,
       created_at, expires_at, applied_by, applied_at, finished_at, environment_ids, application_ids, differences, git_source_id, git_commit,
       (SELECT count(*) FROM change_set_instances WHERE change_set_id = change_sets.id) AS instances,
       (SELECT count(*) FROM plans WHERE plans.change_set_id = change_sets.id) AS plans
FROM change_sets
WHERE organization_id = %(organization_id)s AND (%(after)s::text IS NULL OR id < %(after)s)
  AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s
       OR id IN (SELECT change_set_id FROM change_set_answers WHERE user_id = %(owner_id)s))
ORDER BY id DESC LIMIT %(count)s;

-- name: list_asking
-- Change sets that wait for somebody's answer, as far as their roles matter, the newest first.
SELECT id, organization_id, owner_id, owner_email, token_id, kind, comment, on_failure, needed, role_ids, confirm, status,
       created_at, expires_at, applied_by, applied_at, finished_at, environment_ids, application_ids, differences, git_source_id, git_commit,
       (SELECT count(*) FROM change_set_instances WHERE change_set_id = change_sets.id) AS instances,
       (SELECT count(*) FROM plans WHERE plans.change_set_id = change_sets.id) AS plans
FROM change_sets
WHERE organization_id = %(organization_id)s AND status = 'Pending' AND expires_at > now() AND (confirm OR owner_id <> %(user_id)s)
  AND NOT EXISTS (SELECT FROM change_set_answers WHERE change_set_id = change_sets.id AND user_id = %(user_id)s)
  AND NOT EXISTS (SELECT FROM unnest(role_ids) AS wanted
                  WHERE NOT EXISTS (SELECT FROM role_assignments WHERE role_id = wanted AND user_id = %(user_id)s))
ORDER BY id DESC LIMIT %(count)s;

-- name: list_touched
SELECT DISTINCT change_set_id, application_id, instance_id, environment_id FROM change_set_instances
WHERE change_set_id = ANY (%(change_set_ids)s::text[]);

-- name: keep_seen
-- Those of the change sets with an instance that patterns of LIKE cover, in the roles and in the scope of the token.
SELECT chosen.id FROM unnest(%(ids)s::text[]) AS chosen (id)
WHERE EXISTS (
    SELECT FROM change_set_instances
    WHERE change_set_id = chosen.id
      AND {visible(application_id, instance_id, environment_id)}
) OR EXISTS (
    SELECT FROM change_set_answers WHERE change_set_id = chosen.id AND user_id = %(user_id)s
);

-- name: list_instances
SELECT place, instance_id, instance_name, change_set_instances.application_id, change_set_instances.environment_id, promise, facts,
       change_set_instances.status, change_set_instances.job_id, message, differences,
       CASE WHEN message IS NOT NULL THEN instances.parameters END AS parameters,
       CASE WHEN message IS NOT NULL THEN instances.environment_view END AS environment_view
FROM change_set_instances LEFT JOIN instances ON instances.id = change_set_instances.instance_id
WHERE change_set_id = %(change_set_id)s ORDER BY place;

-- name: list_answers
SELECT user_id, email, approves, comment, at, token_id FROM change_set_answers WHERE change_set_id = %(change_set_id)s ORDER BY at, user_id;

-- name: insert_answer
INSERT INTO change_set_answers (change_set_id, user_id, email, approves, comment, token_id)
VALUES (%(change_set_id)s, %(user_id)s, %(email)s, %(approves)s, %(comment)s, %(token_id)s)
ON CONFLICT (change_set_id, user_id) DO UPDATE
SET approves = excluded.approves, comment = excluded.comment, email = excluded.email, at = excluded.at, token_id = excluded.token_id;

-- name: delete_answer
DELETE FROM change_set_answers WHERE change_set_id = %(change_set_id)s AND user_id = %(user_id)s;

-- name: get_act
SELECT act FROM change_sets WHERE id = %(change_set_id)s;

-- name: lock
-- The act of a change set and its status, while it is locked.
SELECT act, CASE WHEN status IN ('Pending', 'Ready') AND expires_at <= now() THEN 'Expired' ELSE status END AS status
FROM change_sets WHERE id = %(change_set_id)s FOR UPDATE;

-- name: lacks_roles
-- Whether somebody lacks one of the roles that approvers need.
SELECT EXISTS (SELECT FROM unnest(%(role_ids)s::text[]) AS wanted
               WHERE NOT EXISTS (SELECT FROM role_assignments WHERE role_id = wanted AND user_id = %(user_id)s));

-- name: set_status
UPDATE change_sets SET status = %(status)s WHERE id = %(change_set_id)s;

-- name: begin
UPDATE change_sets SET status = 'Applying', applied_by = %(user_id)s, applied_at = now() WHERE id = %(change_set_id)s;

-- name: begin_instance
UPDATE change_set_instances SET status = 'Running', instance_id = %(instance_id)s, job_id = %(job_id)s
WHERE change_set_id = %(change_set_id)s AND place = %(place)s;

-- name: post
SELECT launchbay_post_change_set(%(change_set_id)s)::text;

-- name: delete
DELETE FROM change_sets WHERE id = %(change_set_id)s;

-- name: discard
DELETE FROM change_sets
WHERE id = %(change_set_id)s AND organization_id = %(organization_id)s AND status IN ('Pending', 'Ready')
RETURNING owner_id, owner_email, kind, status, comment;

-- name: list_applying
SELECT id FROM change_sets WHERE status = 'Applying' ORDER BY id;

-- name: take
-- One that is being applied, for one transaction. No row: another process has locked it, or it has ended.
SELECT id FROM change_sets WHERE id = %(change_set_id)s AND status = 'Applying' FOR UPDATE SKIP LOCKED;

-- name: list_ended
-- Instances whose jobs have ended, with how they ended and what they are like.
SELECT change_set_instances.place, change_set_instances.application_id, change_set_instances.promise, change_set_instances.facts,
       jobs.status AS job_status, jobs.error_message, instances.version, instances.parameters, instances.state,
       coalesce((SELECT array_agg(DISTINCT split_part(path, '/', 1)) FROM steps WHERE steps.job_id = jobs.id), '{}') AS ran
FROM change_set_instances LEFT JOIN jobs ON jobs.id = change_set_instances.job_id
LEFT JOIN instances ON instances.id = change_set_instances.instance_id
WHERE change_set_instances.change_set_id = %(change_set_id)s AND change_set_instances.status = 'Running'
  AND jobs.status IS DISTINCT FROM 'Executing'
ORDER BY change_set_instances.place LIMIT %(count)s;

-- name: end_instance
UPDATE change_set_instances SET status = %(status)s, message = %(message)s, differences = %(differences)s
WHERE change_set_id = %(change_set_id)s AND place = %(place)s;

-- name: finish
-- The end, once no job is under way.
UPDATE change_sets SET finished_at = now(), status = CASE WHEN EXISTS (
    SELECT FROM change_set_instances WHERE change_set_id = change_sets.id AND status = 'Failed') THEN 'Failed' ELSE 'Succeeded' END
WHERE id = %(change_set_id)s AND NOT EXISTS (
    SELECT FROM change_set_instances WHERE change_set_id = change_sets.id AND status = 'Running');

-- name: lock_directory
-- Keeps others from changing what a directory changes, until the transaction ends.
WITH held_applications AS (
    SELECT id FROM applications WHERE id = ANY (%(ids)s::text[]) AND organization_id = %(organization_id)s ORDER BY id FOR NO KEY UPDATE
), held_environments AS (
    SELECT id FROM environments WHERE id = ANY (%(ids)s::text[]) AND organization_id = %(organization_id)s ORDER BY id FOR NO KEY UPDATE
), held_roles AS (
    SELECT id FROM roles WHERE id = ANY (%(ids)s::text[]) AND organization_id = %(organization_id)s ORDER BY id FOR NO KEY UPDATE
)
SELECT (SELECT count(*) FROM held_applications) + (SELECT count(*) FROM held_environments) + (SELECT count(*) FROM held_roles);

-- name: end_directory
-- The end of one that has applied a directory, in the transaction that does it.
UPDATE change_sets SET status = 'Succeeded', applied_by = %(user_id)s, applied_at = now(), finished_at = now(), differences = %(differences)s
WHERE id = %(change_set_id)s;

-- name: supersede
-- Ends what nobody has applied, since something newer takes its place.
UPDATE change_sets SET expires_at = now(), comment = comment || %(note)s
WHERE id = ANY (%(ids)s::text[]) AND organization_id = %(organization_id)s AND status IN ('Pending', 'Ready') AND expires_at > now()
RETURNING id;

-- name: list_of_source
SELECT id FROM change_sets
WHERE git_source_id = %(source_id)s AND organization_id = %(organization_id)s AND status IN ('Pending', 'Ready') AND expires_at > now();

-- name: list_usual_durations
-- The median time of each workflow in the newest launches, reconfigurations and destructions of an application.
SELECT workflow, floor(percentile_cont(0.5) WITHIN GROUP (ORDER BY took_s) * 1000)::bigint AS usual_ms
FROM (
    SELECT steps.job_id, split_part(steps.path, '/', 1) AS workflow,
           extract(epoch FROM max(steps.finished_at) - min(steps.started_at)) AS took_s
    FROM (
        SELECT job_id, name, status FROM fleet_jobs WHERE application_id = %(application_id)s ORDER BY created_at DESC, job_id DESC LIMIT 200
    ) AS newest JOIN steps ON steps.job_id = newest.job_id
    WHERE newest.status = 'Succeeded' AND newest.name IN ('launch', 'reconfigure', 'destroy')
    GROUP BY steps.job_id, split_part(steps.path, '/', 1)
) AS run
WHERE took_s IS NOT NULL
GROUP BY workflow;

-- name: list_due_replans
-- Refused jobs that have ended, and that a change set has to follow.
SELECT job_id FROM refused_jobs
WHERE due_at <= now() AND job_id <> ALL (%(but)s::text[])
  AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = refused_jobs.job_id AND jobs.status = 'Executing')
ORDER BY due_at LIMIT %(count)s;

-- name: take_replan
-- Locked for one transaction. No row: another process has it. An account that was deleted has no name.
SELECT refused_jobs.job_id, refused_jobs.change_set_id, refused_jobs.tries, jobs.status AS job_status, jobs.error_message AS job_error,
       jobs.instance_id,
       instances.version, instances.status AS instance_status, change_sets.organization_id, change_sets.owner_id, change_sets.owner_email,
       users.name AS owner_name, change_sets.token_id, change_sets.act, change_sets.comment, change_sets.needed, change_sets.confirm,
       (extract(epoch FROM change_sets.expires_at - change_sets.created_at) * 1000)::bigint AS expires_in_ms
FROM refused_jobs JOIN change_sets ON change_sets.id = refused_jobs.change_set_id
LEFT JOIN jobs ON jobs.id = refused_jobs.job_id LEFT JOIN instances ON instances.id = jobs.instance_id
LEFT JOIN users ON users.id = change_sets.owner_id
WHERE refused_jobs.job_id = %(job_id)s AND refused_jobs.due_at <= now() AND jobs.status IS DISTINCT FROM 'Executing'
FOR UPDATE OF refused_jobs SKIP LOCKED;

-- name: end_replan
UPDATE refused_jobs SET due_at = NULL, follow_up_id = %(follow_up_id)s, problem = %(problem)s WHERE job_id = %(job_id)s;

-- name: postpone_replan
UPDATE refused_jobs SET due_at = now() + %(pause_s)s * interval '1 second', tries = tries + 1, problem = %(problem)s WHERE job_id = %(job_id)s;

-- name: list_open_follow_ups
-- Change sets that follow stopped ones of an instance, and that nobody has applied.
SELECT change_sets.id FROM change_sets JOIN change_set_instances ON change_set_id = change_sets.id
WHERE organization_id = %(organization_id)s AND instance_id = %(instance_id)s AND change_sets.status IN ('Pending', 'Ready')
  AND expires_at > now() AND change_sets.id IN (SELECT follow_up_id FROM refused_jobs);

-- name: list_refused
-- What follows the refused jobs of a change set, the newest of each place.
SELECT DISTINCT ON (place) place, due_at IS NOT NULL AS is_due, follow_up_id, problem FROM refused_jobs
WHERE change_set_id = %(change_set_id)s AND (follow_up_id IS NOT NULL OR problem IS NOT NULL)
ORDER BY place, refused_at DESC;

-- name: get_followed
SELECT change_set_id FROM refused_jobs WHERE follow_up_id = %(change_set_id)s;

-- name: note_in_log
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT instance_id, id, NULL, %(level)s, %(text)s, now() FROM jobs WHERE id = %(job_id)s;

-- name: list_policies
SELECT id, change_policy FROM environments WHERE id = ANY (%(environment_ids)s::text[]) AND change_policy IS NOT NULL ORDER BY id;

-- name: get_approval
-- The policy of an environment, with the approvals that a change set has, and that of confirmed ones: their authors may give it.
SELECT environments.name AS environment, environments.change_policy,
       CASE WHEN change_sets.confirm THEN 0 ELSE coalesce(change_sets.needed, 0) END AS approvals, coalesce(change_sets.role_ids, '{}') AS role_ids
FROM environments LEFT JOIN change_sets ON change_sets.id = %(change_set_id)s AND change_sets.organization_id = environments.organization_id
WHERE environments.id = %(environment_id)s AND environments.change_policy IS NOT NULL;

-- name: set_policy
UPDATE environments SET change_policy = %(policy)s WHERE id = %(environment_id)s;

-- name: lock_change_set
SELECT id FROM change_sets WHERE id = %(id)s FOR UPDATE;

-- name: list_sealed
SELECT id, '' AS part, act AS sealed FROM change_sets
WHERE id > %(id)s AND substring(act FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE change_sets SET act = %(sealed)s WHERE id = %(id)s AND act = %(before)s;

-- name: count_in_change_set_answers
SELECT count(*) FROM change_set_answers WHERE email ~* %(address)s;

-- name: erase_in_change_set_answers
UPDATE change_set_answers SET email = %(pseudonym)s
WHERE (change_set_id, user_id) IN (SELECT change_set_id, user_id FROM change_set_answers WHERE email ~* %(address)s LIMIT %(count)s);

-- name: count_in_change_sets
SELECT count(*) FROM change_sets WHERE owner_email ~* %(address)s;

-- name: erase_in_change_sets
-- Also in those that haven't ended: an expired or stopped one never does. Its owner is its `owner_id`.
UPDATE change_sets SET owner_email = %(pseudonym)s
WHERE id IN (SELECT id FROM change_sets WHERE owner_email ~* %(address)s LIMIT %(count)s);

-- name: count_in_change_set_instances
SELECT count(*) FROM change_set_instances WHERE message ~* %(address)s;

-- name: erase_in_change_set_instances
UPDATE change_set_instances SET message = regexp_replace(message, %(address)s, %(pseudonym)s, 'gi')
WHERE (change_set_id, place) IN (SELECT change_set_id, place FROM change_set_instances WHERE message ~* %(address)s LIMIT %(count)s);

-- name: count_in_refused_jobs
SELECT count(*) FROM refused_jobs WHERE reason ~* %(address)s OR problem ~* %(address)s;

-- name: erase_in_refused_jobs
UPDATE refused_jobs SET reason = regexp_replace(reason, %(address)s, %(pseudonym)s, 'gi'),
    problem = regexp_replace(problem, %(address)s, %(pseudonym)s, 'gi')
WHERE job_id IN (SELECT job_id FROM refused_jobs WHERE reason ~* %(address)s OR problem ~* %(address)s LIMIT %(count)s);

-- name: list_ids_of_address
SELECT DISTINCT user_id FROM change_set_answers WHERE email ~* %(address)s;
