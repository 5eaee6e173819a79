-- What the queue adds to Procrastinate's schema: functions, replaced at every `apply_schema`, and storage parameters.
-- They are functions so that statements in store/queries/ can call them without knowing Procrastinate.

-- Queue a job in the caller's transaction; returns its number. Call it in an outermost SELECT: PostgreSQL skips a
-- SELECT in WITH that nothing reads.
CREATE OR REPLACE FUNCTION launchbay_defer(
    task text, lock text, arguments jsonb, at timestamptz DEFAULT NULL, priority integer DEFAULT 0
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (procrastinate_defer_jobs_v1(ARRAY[
        ROW('launchbay', task, priority, lock, NULL, arguments, at)::procrastinate_job_to_defer_v1
    ]))[1];
END
$$;

-- Cancel the running handler of a lock, if there is one; its job then runs again. The transition of the flag makes
-- Procrastinate's trigger tell the worker.
CREATE OR REPLACE FUNCTION launchbay_interrupt(of_lock text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE procrastinate_jobs SET abort_requested = true
    WHERE lock = of_lock AND status = 'doing' AND queue_name = 'launchbay' AND NOT abort_requested;
    RETURN FOUND;
END
$$;

-- Make all workers look for jobs.
CREATE OR REPLACE FUNCTION launchbay_announce() RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('procrastinate_queue_v1#launchbay', '{"type": "job_inserted", "job_id": 0}')
$$;

-- The outcome of a run: gone, again at once, or again after 1, 2, 4 ... 60 seconds. It names the worker, because one
-- that was taken for dead and comes back must not touch the claim of its successor.
CREATE OR REPLACE FUNCTION launchbay_finish(of_job bigint, of_worker bigint, outcome text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF outcome = 'succeeded' THEN
        DELETE FROM procrastinate_jobs WHERE id = of_job AND worker_id = of_worker AND status = 'doing';
    ELSIF outcome = 'aborted' THEN
        UPDATE procrastinate_jobs
        SET status = 'todo', worker_id = NULL, abort_requested = false, scheduled_at = NULL
        WHERE id = of_job AND worker_id = of_worker AND status = 'doing';
        PERFORM launchbay_announce();
    ELSE
        UPDATE procrastinate_jobs
        SET status = 'todo', worker_id = NULL, abort_requested = false, attempts = attempts + 1,
            scheduled_at = now() + least(60, power(2, least(attempts, 6))) * interval '1 second'
        WHERE id = of_job AND worker_id = of_worker AND status = 'doing';
    END IF;
END
$$;

-- Say that a worker lives; false when the others have taken it for dead.
CREATE OR REPLACE FUNCTION launchbay_beat(of_worker bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = of_worker;
    RETURN FOUND;
END
$$;

-- Remove dead workers and free their jobs, in one transaction; returns how many jobs. A job whose worker is NULL has
-- lost it already: deleting a worker's row does that. After a restart of PostgreSQL itself all heartbeats are old and
-- say nothing until the workers had time to beat again.
CREATE OR REPLACE FUNCTION launchbay_rescue(stalled_after_s double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stalled interval := make_interval(secs => stalled_after_s);
    freed bigint;
BEGIN
    DELETE FROM procrastinate_workers
    WHERE last_heartbeat < now() - stalled AND pg_postmaster_start_time() < now() - stalled;
    UPDATE procrastinate_jobs
    SET status = 'todo', abort_requested = false, scheduled_at = NULL, attempts = attempts + 1
    WHERE status = 'doing' AND worker_id IS NULL AND queue_name = 'launchbay';
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed > 0 THEN
        PERFORM launchbay_announce();
    END IF;
    RETURN freed;
END
$$;

-- Jobs that wait and could run now, those behind a lock included.
CREATE OR REPLACE FUNCTION launchbay_queue_depth() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM procrastinate_jobs
    WHERE status = 'todo' AND queue_name = 'launchbay' AND (scheduled_at IS NULL OR scheduled_at <= now())
$$;

-- The library looks for a lock in an index on (id, lock), that is, by reading all of it.
CREATE INDEX IF NOT EXISTS launchbay_jobs_lock ON procrastinate_jobs (lock) WHERE status IN ('todo', 'doing');

-- A queue is empty when statistics are taken, so PostgreSQL believes that it always is and plans a claim to read and
-- sort everything: 1.1 s for a claim among 10,000 jobs, against 1 ms. The only plan that is right at any size goes
-- along the index of priorities and asks the index above about each lock; this rules out the others.
ALTER FUNCTION procrastinate_fetch_job_v2(character varying[], bigint)
    SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET plan_cache_mode = force_generic_plan SET jit = off;

-- A queue's tables hold few rows and turn over all the time: vacuum by count, not by share of a size that was once
-- large, and leave room in the pages for the new versions of rows.
ALTER TABLE procrastinate_jobs SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);
ALTER TABLE procrastinate_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 4000);
ALTER TABLE procrastinate_workers SET (fillfactor = 50);
