-- name: get_scope_of_instance
-- Where the jobs of an instance run, with the limits that people set there.
SELECT instances.application_id, applications.name AS application, instances.environment_id, environments.name AS environment,
       instances.labels::text AS labels,
       (SELECT limits FROM concurrency_limits WHERE application_id = instances.application_id) AS application_limits,
       (SELECT limits FROM concurrency_limits WHERE environment_id = instances.environment_id) AS environment_limits
FROM instances
JOIN applications ON applications.id = instances.application_id JOIN environments ON environments.id = instances.environment_id
WHERE instances.id = %(instance_id)s;

-- name: get_settings
-- The limits that people set for an application and for an environment.
SELECT (SELECT limits FROM concurrency_limits WHERE application_id = %(application_id)s) AS application_limits,
       (SELECT limits FROM concurrency_limits WHERE environment_id = %(environment_id)s) AS environment_limits;

-- name: get_refusal
SELECT launchbay_refuse_place(%(organization_id)s, %(buckets)s::text[], %(titles)s::text[], %(mosts)s::integer[], %(whens)s::text[]);

-- name: take_places
SELECT launchbay_take_places(%(job_id)s, %(organization_id)s, %(buckets)s::text[], %(titles)s::text[], %(mosts)s::integer[],
                             %(whens)s::text[], %(settings_of)s::text[], %(keys)s::text[], %(destroys)s);

-- name: list_holders
-- Who has the places that the job of an instance waits for, at most `count` of each group, the first ones first.
SELECT mine.title, jobs.id AS job_id, jobs.number, jobs.name AS workflow, coalesce(jobs.started_at, held.created_at) AS since,
       instances.id AS instance_id, instances.name AS instance, instances.application_id, instances.environment_id
FROM instances AS waiting
JOIN concurrency_places AS mine ON mine.job_id = waiting.job_id AND NOT mine.is_held
CROSS JOIN LATERAL (
    SELECT job_id, number, created_at FROM concurrency_places AS other
    WHERE other.organization_id = mine.organization_id AND other.bucket = mine.bucket AND other.is_held
    ORDER BY other.number LIMIT %(count)s
) AS held
JOIN jobs ON jobs.id = held.job_id JOIN instances ON instances.id = jobs.instance_id
WHERE waiting.id = %(instance_id)s AND waiting.organization_id = %(organization_id)s
ORDER BY mine.bucket, held.number;
