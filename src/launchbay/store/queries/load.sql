-- name: sample
-- What only the database knows of the load, from partial indexes: the figures that are watched, at the price of watching.
SELECT launchbay_queue_depth() AS queue_depth,
       (SELECT count(*) FROM jobs WHERE status = 'Executing') AS jobs_under_way,
       due.overdue, due.oldest_overdue_s,
       (SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - %(fresh_s)s * interval '1 second') AS workers
FROM (
    SELECT count(*) AS overdue, coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 AS oldest_overdue_s
    FROM schedules WHERE due_at <= now() AND NOT blocked
) AS due;

-- name: backlog
-- Jobs of an organization that wait to be started, counted no further than is asked for.
SELECT launchbay_backlog(%(organization_id)s, %(most)s);
