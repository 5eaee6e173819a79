-- name: page
-- Jobs of an instance, the newest first, those after the one with the id `after`; in the form of `instances.detail`'s history.
SELECT coalesce(json_agg(json_build_array(
    id, name, status, owner_id, steps::json, error_message,
    floor(extract(epoch FROM started_at) * 1000)::bigint, floor(extract(epoch FROM finished_at) * 1000)::bigint,
    CASE WHEN status = 'Executing' THEN (
        SELECT json_agg(json_build_array(path, status, percent)) FROM steps WHERE job_id = found.id
    ) END
) ORDER BY created_at DESC, id DESC), '[]')::text
FROM (
    SELECT * FROM jobs
    WHERE instance_id = %(instance_id)s
      AND (%(after)s::text IS NULL
           OR (created_at, id) < (SELECT created_at, id FROM jobs WHERE instance_id = %(instance_id)s AND id = %(after)s))
    ORDER BY created_at DESC, id DESC
    LIMIT %(count)s
) AS found;

-- name: one
-- A job with all that its steps have left, as of one moment. Outputs beyond the bound in all are left out, the first come first.
SELECT jobs.id, jobs.name, jobs.status, jobs.owner_id, jobs.error_message, jobs.plan, jobs.steps, jobs.created_at,
       jobs.started_at, jobs.finished_at, instances.parameters, instances.environment_view, (
    SELECT coalesce(json_agg(json_build_array(
        path, name, status, percent, attempt, error_message,
        floor(extract(epoch FROM started_at) * 1000)::bigint, floor(extract(epoch FROM finished_at) * 1000)::bigint,
        CASE WHEN bytes_so_far <= %(output_bytes)s THEN outputs END, outputs IS NOT NULL
    ) ORDER BY started_at, path), '[]')
    FROM (
        SELECT steps.*, sum(coalesce(octet_length(outputs), 0)) OVER (ORDER BY started_at, path) AS bytes_so_far
        FROM steps WHERE job_id = jobs.id
    ) AS step
)::text AS journal
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.id = %(job_id)s AND jobs.instance_id = %(instance_id)s;
