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

-- Claim the next job, or none. Two things are added to the library's own function.
-- A queue is empty when statistics are taken, so PostgreSQL believes that it always is and plans a claim to read and
-- sort everything: 1.1 s for a claim among 10,000 jobs, against 1 ms. The only plan that is right at any size goes
-- along the index of priorities and asks the index below about each lock; the settings rule out the others.
-- And a claim does not wait for the disk: a claim that a power cut forgets was of a job that has written nothing yet.
-- `known`, when not NULL, are the jobs that the worker has; others in its name were claimed, and the answer was lost.
CREATE OR REPLACE FUNCTION launchbay_claim(of_worker bigint, known bigint[]) RETURNS procrastinate_jobs
LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF known IS NOT NULL THEN
        UPDATE procrastinate_jobs
        SET status = 'todo', worker_id = NULL, abort_requested = false, attempts = attempts + 1
        WHERE worker_id = of_worker AND status = 'doing' AND id <> ALL (known);
    END IF;
    RETURN procrastinate_fetch_job_v2(ARRAY['launchbay']::varchar[], of_worker);
END
$$;

-- The library looks for a lock in an index on (id, lock), that is, by reading all of it.
CREATE INDEX IF NOT EXISTS launchbay_jobs_lock ON procrastinate_jobs (lock) WHERE status IN ('todo', 'doing');

-- The outcome of a run: gone, again at once, or again after 1, 2, 4 ... 32 seconds. Worker and attempt name the claim:
-- a worker that was taken for dead and comes back, or repeats this because the answer was lost, must not touch the
-- next claim of the same job.
CREATE OR REPLACE FUNCTION launchbay_finish(of_job bigint, of_worker bigint, attempt integer, outcome text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF outcome = 'succeeded' THEN
        DELETE FROM procrastinate_jobs
        WHERE id = of_job AND worker_id = of_worker AND attempts = attempt AND status = 'doing';
        RETURN;
    END IF;
    UPDATE procrastinate_jobs
    SET status = 'todo', worker_id = NULL, abort_requested = false, attempts = attempts + 1,
        scheduled_at = CASE WHEN outcome = 'failed' THEN now() + power(2, least(attempts, 5)) * interval '1 second' END
    WHERE id = of_job AND worker_id = of_worker AND attempts = attempt AND status = 'doing';
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

-- A queue's tables hold few rows and turn over all the time: vacuum by count, not by share of a size that was once
-- large, and leave room in the pages for the new versions of rows.
ALTER TABLE procrastinate_jobs SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);
ALTER TABLE procrastinate_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 4000);
ALTER TABLE procrastinate_workers SET (fillfactor = 50);
