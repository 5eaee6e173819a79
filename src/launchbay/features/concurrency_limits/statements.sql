-- name: set_application_limits
INSERT INTO concurrency_limits (application_id, organization_id, limits) VALUES (%(owner_id)s, %(organization_id)s, %(limits)s)
ON CONFLICT (application_id) DO UPDATE SET limits = excluded.limits;

-- name: set_environment_limits
INSERT INTO concurrency_limits (environment_id, organization_id, limits) VALUES (%(owner_id)s, %(organization_id)s, %(limits)s)
ON CONFLICT (environment_id) DO UPDATE SET limits = excluded.limits;

-- name: remove_limits
DELETE FROM concurrency_limits
WHERE organization_id = %(organization_id)s AND (application_id = %(owner_id)s OR environment_id = %(owner_id)s);

-- name: apply_change
-- What changed settings mean for the jobs that wait.
SELECT launchbay_limits_changed(%(organization_id)s, %(owner_id)s, %(keys)s::text[], %(mosts)s::integer[])::text IS NOT NULL;

-- name: list_outrun
-- Jobs that a newer one asks to end.
SELECT DISTINCT ON (places.job_id) places.job_id, places.title
FROM concurrency_places AS places JOIN jobs ON jobs.id = places.job_id
WHERE places.is_outrun AND NOT jobs.cancel_requested AND jobs.status = 'Executing' ORDER BY places.job_id LIMIT %(count)s;

-- name: list_places
-- The first places of each of an organization's groups: those that are held, then in the order in which they were asked for.
-- The counts are of all places of a group.
WITH places AS (
    SELECT bucket, title, most, is_held, created_at, job_id, row_number() OVER (PARTITION BY bucket ORDER BY is_held DESC, number) AS turn,
           min(most) OVER (PARTITION BY bucket) AS least,
           count(*) FILTER (WHERE is_held) OVER (PARTITION BY bucket) AS held,
           count(*) FILTER (WHERE NOT is_held) OVER (PARTITION BY bucket) AS waiting
    FROM concurrency_places WHERE organization_id = %(organization_id)s
)
SELECT places.bucket, places.title, places.least, places.held, places.waiting, places.is_held, places.created_at, jobs.id AS job_id, jobs.number, jobs.name AS workflow,
       instances.id AS instance_id, instances.name AS instance, instances.application_id, instances.environment_id
FROM places JOIN jobs ON jobs.id = places.job_id JOIN instances ON instances.id = jobs.instance_id
ORDER BY places.turn, places.bucket LIMIT %(count)s;
