-- name: list_former_values
-- What the fields of an instance were at a time, if they have changed since, or before a change.
SELECT DISTINCT ON (field.key) field.key, field.value
FROM instance_history, json_each_text(former::json) AS field
WHERE instance_id = %(instance_id)s AND (%(at)s::timestamptz IS NULL OR at > %(at)s) AND (%(since)s::bigint IS NULL OR id >= %(since)s)
ORDER BY field.key, id;

-- name: list_changes
-- Changes of an instance, the newest first, those before the number `before`.
SELECT history.id, history.at, history.former, history.job_id, jobs.name, jobs.number, jobs.owner_id
FROM (
    SELECT * FROM instance_history
    WHERE instance_id = %(instance_id)s AND (%(before)s::bigint IS NULL OR id < %(before)s) ORDER BY id DESC LIMIT %(count)s
) AS history
LEFT JOIN jobs ON jobs.id = history.job_id AND jobs.instance_id = %(instance_id)s
ORDER BY history.id DESC;

-- name: get_present
-- What the other statements compare with, and from when on changes are kept: older partitions may be gone. Children are
-- the instances of its submodules, with application and version.
SELECT launchbay_machines(state) AS machines, greatest(recorded_since, (
    SELECT began_at FROM number_blocks JOIN partitions USING (sequence)
    WHERE parent = 'instance_history' AND block = first_block AND number > 0
      AND number = (SELECT min(number) FROM partitions WHERE parent = 'instance_history')
)) AS recorded_since,
coalesce((SELECT json_object_agg(child.id, json_build_array(child.application_id, child.version))
          FROM instances AS child WHERE child.parent_id = instances.id)::text, '{}') AS children
FROM instances WHERE id = %(instance_id)s;

-- name: list_jobs_at
-- The newest jobs of an instance at a time, as they were then, in the form of `lookups.instance_detail`.
SELECT coalesce(json_agg(json_build_array(
    id, name, CASE WHEN finished_at <= %(at)s THEN status ELSE 'Executing' END, owner_id, steps::json,
    CASE WHEN finished_at <= %(at)s THEN error_message END,
    CASE WHEN started_at <= %(at)s THEN floor(extract(epoch FROM started_at) * 1000)::bigint END,
    CASE WHEN finished_at <= %(at)s THEN floor(extract(epoch FROM finished_at) * 1000)::bigint END,
    NULL, number
) ORDER BY created_at DESC, id DESC), '[]')::text
FROM (
    SELECT *, sum(octet_length(steps)) OVER (ORDER BY created_at DESC, id DESC) - octet_length(steps) AS bytes_before
    FROM (
        SELECT * FROM jobs WHERE instance_id = %(instance_id)s AND created_at <= %(at)s ORDER BY created_at DESC, id DESC LIMIT %(jobs)s
    ) AS last
) AS newest
WHERE bytes_before < %(steps_bytes)s;

-- name: list_steps_at
-- The steps of a job that had begun at a time, and whether they had ended.
SELECT path, CASE WHEN finished_at <= %(at)s THEN status ELSE 'Executing' END AS status,
       CASE WHEN finished_at <= %(at)s THEN percent ELSE 0 END AS percent
FROM steps WHERE job_id = %(job_id)s AND started_at <= %(at)s;

-- name: count_in_instance_history
SELECT count(*) FROM instance_history WHERE former ~* %(address)s;

-- name: erase_in_instance_history
UPDATE instance_history SET former = regexp_replace(former, %(address)s, %(pseudonym)s, 'gi')
WHERE (instance_id, id) IN (SELECT instance_id, id FROM instance_history WHERE former ~* %(address)s LIMIT %(count)s);
