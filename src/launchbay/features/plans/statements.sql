-- name: lock_plan
SELECT id FROM plans WHERE id = %(id)s FOR UPDATE;

-- name: count_waiting
SELECT count(*) FROM plans WHERE organization_id = %(organization_id)s AND status = 'Waiting';

-- name: delete_oldest
-- Makes room for another plan. Those of change sets end with them.
DELETE FROM plans WHERE id IN (
    SELECT id FROM plans WHERE organization_id = %(organization_id)s AND change_set_id IS NULL AND status <> 'Waiting'
    ORDER BY created_at DESC, id OFFSET %(kept)s LIMIT 1000);

-- name: insert
INSERT INTO plans (id, organization_id, owner_id, change_set_id, place, request, asked, expires_at)
VALUES (%(id)s, %(organization_id)s, %(owner_id)s, %(change_set_id)s, %(place)s, %(request)s, %(asked)s,
        now() + %(expires_in_s)s * interval '1 second');

-- name: get_asked
-- A look under way for the same, or one that has ended lately and that nobody has read.
SELECT id FROM plans
WHERE asked = %(asked)s AND owner_id = %(owner_id)s AND organization_id = %(organization_id)s AND expires_at > now()
  AND (status = 'Waiting' OR finished_at > now() - %(fresh_s)s * interval '1 second')
ORDER BY created_at DESC LIMIT 1;

-- name: get
-- A plan for who asked for it.
SELECT id, organization_id, place, status, result, problem, digest, created_at, expires_at,
       lease_until IS NOT NULL AND lease_until > now() AS is_begun
FROM plans WHERE id = %(plan_id)s AND owner_id = %(owner_id)s;

-- name: get_request
SELECT request, change_set_id FROM plans WHERE id = %(plan_id)s AND owner_id = %(owner_id)s;

-- name: list_of_change_set
SELECT id, organization_id, place, status, result, problem, digest, created_at, expires_at,
       lease_until IS NOT NULL AND lease_until > now() AS is_begun
FROM plans WHERE change_set_id = %(change_set_id)s AND organization_id = %(organization_id)s ORDER BY place;

-- name: bind
-- The job that runs what a plan of a change set says. The plan stays for those who resume the job.
UPDATE plans SET job_id = %(job_id)s, expires_at = greatest(expires_at, now() + %(days)s * interval '1 day')
WHERE change_set_id = %(change_set_id)s AND place = %(place)s AND organization_id = %(organization_id)s;

-- name: delete
DELETE FROM plans WHERE id = %(plan_id)s AND owner_id = %(owner_id)s AND change_set_id IS NULL;

-- name: delete_of_change_set
DELETE FROM plans WHERE change_set_id = %(change_set_id)s AND organization_id = %(organization_id)s;

-- name: delete_waiting
-- Whoever makes one of these stops.
DELETE FROM plans WHERE change_set_id = %(change_set_id)s AND organization_id = %(organization_id)s AND status = 'Waiting';

-- name: delete_artifacts
-- What no job needs anymore. One that failed may be resumed.
DELETE FROM plan_artifacts WHERE plan_id IN (
    SELECT id FROM plans
    WHERE change_set_id = %(change_set_id)s AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = plans.job_id AND jobs.status <> 'Succeeded'));

-- name: get_kept_bytes
SELECT coalesce((SELECT sum(octet_length(sealed)) FROM plans JOIN plan_artifacts ON plan_artifacts.plan_id = plans.id
                 WHERE plans.organization_id = %(organization_id)s), 0)::bigint AS artifacts,
       coalesce((SELECT sum(octet_length(result)) FROM plans
                 WHERE change_set_id = %(change_set_id)s AND organization_id = %(organization_id)s), 0)::bigint AS results;

-- name: list_due
SELECT id FROM plans
WHERE status = 'Waiting' AND (lease_until IS NULL OR lease_until <= now()) AND expires_at > now() ORDER BY created_at LIMIT %(count)s;

-- name: list_expired
-- What holds a job stays until it, or one that resumes it, has succeeded, or other work of the instance. It goes an hour later than the
-- change set expires, so that nobody applies that without its plans.
SELECT id FROM plans
WHERE expires_at <= now() - interval '1 hour' AND NOT EXISTS (
    SELECT FROM jobs JOIN jobs AS newest ON newest.id = launchbay_newest_job(jobs.instance_id)
    WHERE jobs.id = plans.job_id AND newest.status <> 'Succeeded')
ORDER BY expires_at LIMIT %(count)s;

-- name: delete_expired
DELETE FROM plans WHERE id IN (
    SELECT id FROM plans
    WHERE expires_at <= now() - interval '1 hour' AND NOT EXISTS (
        SELECT FROM jobs JOIN jobs AS newest ON newest.id = launchbay_newest_job(jobs.instance_id)
        WHERE jobs.id = plans.job_id AND newest.status <> 'Succeeded')
    ORDER BY expires_at LIMIT %(count)s);

-- name: take
-- Takes the lease of a plan, of the organization with the fewest under way, the oldest first.
UPDATE plans SET lease_until = now() + %(lease_s)s * interval '1 second', fence = fence + 1
WHERE id = (SELECT id FROM plans
            WHERE status = 'Waiting' AND (lease_until IS NULL OR lease_until <= now()) AND expires_at > now()
              AND organization_id <> ALL (%(busy)s::text[]) AND id <> ALL (%(unreadable)s::text[])
            ORDER BY (SELECT count(*) FROM plans AS others
                      WHERE others.organization_id = plans.organization_id AND others.status = 'Waiting' AND others.lease_until > now()),
                     created_at, id
            LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, organization_id, owner_id, change_set_id, request, fence;

-- name: renew
UPDATE plans SET lease_until = now() + %(lease_s)s * interval '1 second' WHERE id = %(plan_id)s AND fence = %(fence)s AND status = 'Waiting';

-- name: give_back
-- For a server that can read what was asked. It is no attempt, so the number of these stays.
UPDATE plans SET lease_until = NULL, fence = fence - 1 WHERE id = %(plan_id)s AND fence = %(fence)s AND status = 'Waiting';

-- name: finish
UPDATE plans SET status = %(status)s, result = %(result)s, problem = %(problem)s, digest = %(digest)s, request = %(request)s,
    lease_until = NULL, finished_at = now()
WHERE id = %(plan_id)s AND fence = %(fence)s AND status = 'Waiting';

-- name: insert_artifact
INSERT INTO plan_artifacts (plan_id, path, sealed) VALUES (%(plan_id)s, %(path)s, %(sealed)s);

-- name: list_artifacts
SELECT path, sealed FROM plan_artifacts WHERE plan_id = %(plan_id)s;

-- name: get_of_job
-- What was approved of a job, with the artifact of a step. Of several steps that were refused, the reason is that of the first one.
SELECT plans.id, plans.result, plan_artifacts.sealed,
       (SELECT CASE WHEN paths[1] = %(path)s THEN reason ELSE 'This step isn''t what was approved either. Nothing was done.' END
        FROM refused_jobs WHERE refused_jobs.job_id = %(job_id)s AND %(path)s = ANY (paths)) AS refused
FROM plans LEFT JOIN plan_artifacts ON plan_artifacts.plan_id = plans.id AND plan_artifacts.path = %(path)s
WHERE plans.job_id = ANY (%(job_ids)s::text[]) AND plans.organization_id = %(organization_id)s;

-- name: refuse_job
-- A step of a job wasn't as approved. The job may be one that resumes that of the change set.
SELECT launchbay_refuse_job(%(job_id)s, change_set_id, place, %(path)s, %(reason)s, %(replans)s)::text
FROM plans WHERE job_id = ANY (%(job_ids)s::text[]) AND organization_id = %(organization_id)s AND change_set_id IS NOT NULL;

-- name: get_refused
SELECT paths, reason FROM refused_jobs WHERE job_id = %(job_id)s;

-- name: begin_step
-- Before its first effect, and after a failure. Servers of an earlier version read only whether it has begun.
UPDATE plan_artifacts SET has_begun = %(begun_by)s::text IS NOT NULL, begun_by = %(begun_by)s FROM plans
WHERE plans.id = plan_id AND plans.job_id = ANY (%(job_ids)s::text[]) AND plans.organization_id = %(organization_id)s AND path = %(path)s;

-- name: begun_by
SELECT coalesce(begun_by, '') FROM plan_artifacts JOIN plans ON plans.id = plan_id
WHERE plans.job_id = ANY (%(job_ids)s::text[]) AND plans.organization_id = %(organization_id)s AND path = %(path)s AND has_begun;

-- name: list_sealed_requests
SELECT id, '' AS part, request AS sealed FROM plans
WHERE id > %(id)s AND substring(request FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed_request
UPDATE plans SET request = %(sealed)s WHERE id = %(id)s AND request = %(before)s;

-- name: list_sealed_artifacts
SELECT plan_id AS id, path AS part, sealed FROM plan_artifacts
WHERE (plan_id, path) > (%(id)s, %(part)s) AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY plan_id, path LIMIT %(count)s;

-- name: put_sealed_artifact
UPDATE plan_artifacts SET sealed = %(sealed)s WHERE plan_id = %(id)s AND path = %(part)s AND sealed = %(before)s;
