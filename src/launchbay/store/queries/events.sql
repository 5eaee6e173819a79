-- name: list_since
-- What has happened to an instance after a number, in order: events, the newest state of steps, log lines.
WITH events AS (
    SELECT * FROM instance_events WHERE instance_id = %(instance_id)s AND id > %(after)s ORDER BY id LIMIT %(count)s
), told AS (
    SELECT events.id, events.kind, coalesce(jobs.id, approvals.job_id) AS job_id, coalesce(approvals.status, events.subject) AS status,
           jobs.status AS job_status, coalesce(jobs.name, approvals.id) AS name, approvals.step AS path,
           NULL::smallint AS percent, NULL::integer AS attempt, NULL AS level,
           CASE events.kind
               WHEN 'signal' THEN (SELECT return_values FROM instances WHERE id = %(instance_id)s)
               WHEN 'ended' THEN jobs.error_message
               WHEN 'approval' THEN approvals.text
           END AS text, events.at
    FROM events LEFT JOIN jobs ON jobs.id = events.subject AND events.kind IN ('begun', 'ended')
    LEFT JOIN approvals ON approvals.id = events.subject AND events.kind = 'approval'
), touched AS (
    SELECT job_id AS id FROM instances WHERE id = %(instance_id)s
    UNION SELECT subject FROM events WHERE kind IN ('begun', 'ended')
), moved AS (
    SELECT changed, 'step', job_id, status, NULL, name, path, percent, attempt,
           CASE WHEN status = 'Failed' AND outputs IS NOT NULL THEN 'warning' END, error_message, coalesce(finished_at, started_at)
    FROM steps WHERE job_id IN (SELECT id FROM touched) AND changed > %(after)s ORDER BY changed LIMIT %(count)s
), said AS (
    SELECT id, 'log', job_id, NULL, NULL, NULL, step, NULL::smallint, NULL::integer, level, text, at
    FROM log_lines WHERE instance_id = %(instance_id)s AND id > %(after)s ORDER BY id LIMIT %(count)s
)
SELECT * FROM told UNION ALL SELECT * FROM moved UNION ALL SELECT * FROM said
ORDER BY id LIMIT %(count)s;

-- name: list_current
-- Where an instance stands, and the number of the last thing that led there: its status, the job under way and its steps, and
-- what these ask people.
WITH job AS (
    SELECT jobs.* FROM instances JOIN jobs ON jobs.id = instances.job_id WHERE instances.id = %(instance_id)s
), last AS (
    SELECT greatest(
        (SELECT max(id) FROM instance_events WHERE instance_id = %(instance_id)s),
        (SELECT max(id) FROM log_lines WHERE instance_id = %(instance_id)s),
        (SELECT max(changed) FROM steps WHERE job_id IN (SELECT id FROM job)),
        0
    ) AS id
)
SELECT last.id, 'status' AS kind, NULL AS job_id, status, NULL AS job_status, NULL AS name, NULL AS path, NULL::smallint AS percent,
       NULL::integer AS attempt, NULL AS level, return_values AS text, now() AS at
FROM instances, last WHERE instances.id = %(instance_id)s
UNION ALL
SELECT last.id, 'begun', job.id, NULL, status, name, NULL, NULL, NULL, NULL, NULL, created_at FROM job, last
UNION ALL
(SELECT last.id, 'step', job.id, steps.status, NULL, steps.name, path,
        launchbay_percent(steps.status, percent, steps.started_at, ends_at), attempt,
        CASE WHEN steps.status = 'Failed' AND outputs IS NOT NULL THEN 'warning' END, steps.error_message, steps.started_at
 FROM job JOIN steps ON steps.job_id = job.id, last ORDER BY changed)
UNION ALL
(SELECT last.id, 'approval', job.id, approvals.status, NULL, approvals.id, step, NULL, NULL, NULL, text, approvals.created_at
 FROM job JOIN approvals ON approvals.job_id = job.id AND approvals.status = 'pending', last ORDER BY approvals.id);

-- name: insert_watch
INSERT INTO event_watches (instance_id, process_id) SELECT unnest(%(instance_ids)s::text[]), %(process_id)s
ON CONFLICT (instance_id, process_id) DO UPDATE SET seen_at = now();

-- name: tell_streams
SELECT pg_notify(%(channel)s, news) FROM unnest(%(news)s::text[]) AS news;

-- name: delete_watch
DELETE FROM event_watches WHERE instance_id = %(instance_id)s AND process_id = %(process_id)s;

-- name: delete_stale_watches
-- Of processes that have not renewed them.
DELETE FROM event_watches WHERE seen_at < now() - %(seconds)s * interval '1 second';

-- name: list_log_lines
-- Fewer than `count` once their bytes are reached, but at least one if there is one.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT id, at, level, job_id, step, text, attempt, coalesce(stream, 'system') AS stream FROM (
    SELECT *, sum(octet_length(text)) OVER (ORDER BY id) - octet_length(text) AS bytes_before FROM (
        SELECT id, at, level, job_id, step, text, attempt, stream FROM log_lines
        WHERE instance_id = %(instance_id)s AND id > %(after)s
          AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job)
          AND (%(job_id)s::text IS NULL OR job_id = %(job_id)s) AND (%(step)s::text IS NULL OR step = %(step)s)
          AND (%(component)s::text IS NULL OR starts_with(regexp_replace(step, '^.*>', ''), %(component)s || '#'))
          AND level <> ALL (%(hidden)s::text[])
          AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
        ORDER BY id LIMIT %(count)s
    ) AS next
) AS found
WHERE bytes_before < %(bytes)s ORDER BY id;

-- name: find_log_tail
-- The first of the newest lines, so many; null if there is none.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT min(id) FROM (
    SELECT id FROM log_lines
    WHERE instance_id = %(instance_id)s AND id > %(after)s
          AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job)
          AND (%(job_id)s::text IS NULL OR job_id = %(job_id)s) AND (%(step)s::text IS NULL OR step = %(step)s)
          AND (%(component)s::text IS NULL OR starts_with(regexp_replace(step, '^.*>', ''), %(component)s || '#'))
          AND level <> ALL (%(hidden)s::text[])
          AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
    ORDER BY id DESC LIMIT %(count)s
) AS newest;

-- name: count_log_lines
-- The lines of a job up to one of them, at most so many.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT count(*) FROM (
    SELECT FROM log_lines WHERE instance_id = %(instance_id)s AND job_id = %(job_id)s
        AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job) AND (%(until)s::bigint IS NULL OR id <= %(until)s)
    LIMIT %(most)s
) AS counted;

-- name: find_numbered_line
-- The line of a job with so many before it; null if it has fewer.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT id FROM log_lines WHERE instance_id = %(instance_id)s AND job_id = %(job_id)s
  AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job) ORDER BY id OFFSET %(skipped)s LIMIT 1;

-- name: find_next_error
-- The first line of an error of a job after a line, of any step or of one.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT id FROM log_lines
WHERE instance_id = %(instance_id)s AND job_id = %(job_id)s
  AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job) AND id > %(after)s AND level = 'error'
  AND (%(step)s::text IS NULL OR step = %(step)s)
ORDER BY id LIMIT 1;

-- name: find_last_error
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT id FROM log_lines
WHERE instance_id = %(instance_id)s AND job_id = %(job_id)s
  AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job) AND (%(before)s::bigint IS NULL OR id < %(before)s) AND level = 'error'
  AND (%(step)s::text IS NULL OR step = %(step)s)
ORDER BY id DESC LIMIT 1;

-- name: find_step_start
-- The first line of a step.
WITH of_job AS MATERIALIZED (SELECT first, last FROM launchbay_lines_of_job(%(job_id)s::text))
SELECT id FROM log_lines WHERE instance_id = %(instance_id)s AND job_id = %(job_id)s
  AND id > (SELECT first FROM of_job) AND id <= (SELECT last FROM of_job) AND step = %(step)s ORDER BY id LIMIT 1;
