-- name: insert
-- A new approval, once for each step of a job, while the asking worker holds the job. The id of the one that there is, or no row:
-- another worker holds the job, or it was cancelled.
WITH RECURSIVE asking AS (
    SELECT id, instance_id FROM jobs
    WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing' AND NOT cancel_requested FOR NO KEY UPDATE
), outer_jobs AS (
    SELECT jobs.id, jobs.parent_job_id, jobs.owner_id, jobs.plan FROM jobs JOIN asking ON asking.id = jobs.id
    UNION ALL
    SELECT jobs.id, jobs.parent_job_id, jobs.owner_id, jobs.plan FROM outer_jobs JOIN jobs ON jobs.id = outer_jobs.parent_job_id
), asked_for AS (
    SELECT owner_id FROM outer_jobs WHERE parent_job_id IS NULL
    UNION
    SELECT jobs.owner_id FROM outer_jobs, json_array_elements_text(coalesce(outer_jobs.plan::json -> 'resumes', '[]')) AS earlier (id)
    JOIN jobs ON jobs.id = earlier.id WHERE outer_jobs.parent_job_id IS NULL
), made AS (
    INSERT INTO approvals (id, organization_id, instance_id, job_id, step, text, permission, role_id, needed, requesters,
                           not_by_requester, expires_at)
    SELECT %(approval_id)s, %(organization_id)s, asking.instance_id, asking.id, %(step)s, %(text)s, %(permission)s, %(role_id)s,
           %(needed)s, ARRAY (SELECT owner_id FROM asked_for), %(not_by_requester)s, %(expires_at)s
    FROM asking
    ON CONFLICT (job_id, step) DO NOTHING
    RETURNING id
)
SELECT id FROM made
UNION ALL SELECT approvals.id FROM approvals JOIN asking ON asking.id = approvals.job_id WHERE step = %(step)s
LIMIT 1;

-- name: count_pending
SELECT count(*) FROM approvals WHERE organization_id = %(organization_id)s AND status = 'pending';

-- name: get_role_by_name
SELECT id FROM roles WHERE organization_id = %(organization_id)s AND name = %(name)s;

-- name: get_by_step
-- What a step of a job has asked for before.
SELECT id, status FROM approvals WHERE job_id = %(job_id)s AND step = %(step)s;

-- name: list_decided
-- Those of the approvals that nobody is asked for any more.
SELECT id, status FROM approvals WHERE id = ANY (%(approval_ids)s::text[]) AND status <> 'pending';

-- name: list_due
-- Those of the approvals whose time is over.
SELECT id, instance_id FROM approvals
WHERE id = ANY (%(approval_ids)s::text[]) AND status = 'pending' AND expires_at <= %(now)s;

-- name: list_answers
SELECT user_id, email, approves, comment, at, token_id FROM approval_answers WHERE approval_id = %(approval_id)s ORDER BY at, user_id;

-- name: get_answer_context
-- What decides whether somebody may answer.
SELECT approvals.id, approvals.organization_id, approvals.instance_id, approvals.job_id, jobs.name AS workflow, approvals.permission,
       approvals.role_id, roles.name AS role_name,
       EXISTS (SELECT FROM role_assignments AS held WHERE held.role_id = approvals.role_id AND held.user_id = %(user_id)s) AS holds_role,
       approvals.not_by_requester AND %(user_id)s = ANY (approvals.requesters) AS is_barred
FROM approvals JOIN jobs ON jobs.id = approvals.job_id LEFT JOIN roles ON roles.id = approvals.role_id
WHERE approvals.id = %(approval_id)s;

-- name: lock
-- An approval with its job, while both are locked.
SELECT approvals.status, approvals.needed, approvals.expires_at
FROM approvals JOIN jobs ON jobs.id = approvals.job_id WHERE approvals.id = %(approval_id)s FOR NO KEY UPDATE;

-- name: insert_answer
INSERT INTO approval_answers (approval_id, user_id, email, approves, comment, token_id)
VALUES (%(approval_id)s, %(user_id)s, %(email)s, %(approves)s, %(comment)s, %(token_id)s)
ON CONFLICT (approval_id, user_id) DO UPDATE
SET approves = excluded.approves, comment = excluded.comment, email = excluded.email, at = excluded.at, token_id = excluded.token_id;

-- name: delete_answer
DELETE FROM approval_answers WHERE approval_id = %(approval_id)s AND user_id = %(user_id)s;

-- name: decide
UPDATE approvals SET status = %(status)s, decided_at = now() WHERE id = %(approval_id)s AND status = 'pending';

-- name: get
SELECT id, organization_id, instance_id, instance_name, application_id, environment_id, job_id, workflow, step, text, permission,
       role_id, role, needed, requesters, not_by_requester, status, created_at, expires_at, decided_at, answers,
       CASE status WHEN 'pending' THEN launchbay_ends_at(instance_id) END AS instance_ends_at
FROM approvals_shown WHERE id = %(approval_id)s;

-- name: list_pending_by_organization
-- Those that somebody is asked for, as far as the caller may see the instance; all of them if the caller may approve something.
SELECT id, organization_id, instance_id, instance_name, application_id, environment_id, job_id, workflow, step, text, permission,
       role_id, role, needed, requesters, not_by_requester, status, created_at, expires_at, decided_at, answers,
       CASE status WHEN 'pending' THEN launchbay_ends_at(instance_id) END AS instance_ends_at
FROM approvals_shown
WHERE organization_id = %(organization_id)s AND status = 'pending' AND id > %(after)s
  AND (%(approves)s OR {visible(application_id, instance_id, environment_id)})
ORDER BY id LIMIT %(count)s;

-- name: list_decided_by_organization
-- Those that nobody is asked for any more, the newest first, by the ID of one before.
SELECT id, organization_id, instance_id, instance_name, application_id, environment_id, job_id, workflow, step, text, permission,
       role_id, role, needed, requesters, not_by_requester, status, created_at, expires_at, decided_at, answers,
       CASE status WHEN 'pending' THEN launchbay_ends_at(instance_id) END AS instance_ends_at
FROM approvals_shown
WHERE organization_id = %(organization_id)s AND status <> 'pending' AND (%(before)s::text IS NULL OR id < %(before)s)
  AND (%(approves)s OR {visible(application_id, instance_id, environment_id)})
ORDER BY id DESC LIMIT %(count)s;

-- name: list_by_instance
SELECT id, organization_id, instance_id, instance_name, application_id, environment_id, job_id, workflow, step, text, permission,
       role_id, role, needed, requesters, not_by_requester, status, created_at, expires_at, decided_at, answers,
       CASE status WHEN 'pending' THEN launchbay_ends_at(instance_id) END AS instance_ends_at
FROM approvals_shown WHERE instance_id = %(instance_id)s AND id > %(after)s ORDER BY id LIMIT %(count)s;
