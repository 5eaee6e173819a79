-- Version 2. Raise it with every change here: a database gets this file once for each version, and never an older one.
-- What the queue adds to Procrastinate's schema: functions and storage parameters.
-- They are functions so that statements in store/queries/ can call them without knowing Procrastinate.

-- Queue a job in the caller's transaction; returns its number. Call it in an outermost SELECT: PostgreSQL skips a
-- SELECT in WITH that nothing reads. `queue` says on whose behalf: an organization's id. Workers share out their places
-- between the queues that have work.
DROP FUNCTION IF EXISTS launchbay_defer(text, text, jsonb, timestamptz, integer); -- an older version's, without queues
CREATE OR REPLACE FUNCTION launchbay_defer(
    task text, lock text, arguments jsonb, at timestamptz DEFAULT NULL, priority integer DEFAULT 0,
    queue text DEFAULT 'launchbay'
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (procrastinate_defer_jobs_v1(ARRAY[
        ROW(queue, task, priority, lock, NULL, arguments, at)::procrastinate_job_to_defer_v1
    ]))[1];
END
$$;

-- Cancel the running handler of a lock, if there is one; its job then runs again. The transition of the flag makes
-- Procrastinate's trigger tell the worker.
CREATE OR REPLACE FUNCTION launchbay_interrupt(of_lock text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE procrastinate_jobs SET abort_requested = true
    WHERE lock = of_lock AND status = 'doing' AND NOT abort_requested;
    RETURN FOUND;
END
$$;

-- Make all workers look for jobs.
CREATE OR REPLACE FUNCTION launchbay_announce() RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('procrastinate_any_queue_v1', '{"type": "job_inserted", "job_id": 0}')
$$;

-- Claim the next job for a worker, or none. `queues` and `places` say how many of its places it has given to which queue, and
-- `free` how many are left.
-- Whose turn it is: of the queues with work, the one that has the fewest places; in it, the job of the highest
-- priority, and of those the oldest. And a queue takes no place when it has four times as many as are free: the last ones
-- stay free for a queue that has none yet, however long the jobs of the others take. (A rule for buffers that several
-- streams share, "dynamic thresholds" in the literature: alone, a queue gets four fifths of the places; two get four ninths
-- each.)
-- A queue is empty when statistics are taken, so PostgreSQL believes that it always is and plans a claim to read and
-- sort everything: 1.1 s for a claim among 10,000 jobs, against 1 ms. The only plan that is right at any size goes
-- along the index of turns and asks the index of locks about each; the settings rule out the others.
-- And a claim does not wait for the disk: a claim that a power cut forgets was of a job that has written nothing yet.
-- `known`, when not NULL, are the jobs that the worker has; others in its name were claimed, and the answer was lost.
CREATE OR REPLACE FUNCTION launchbay_claim(
    of_worker bigint, known bigint[], queues text[], places integer[], free integer
) RETURNS procrastinate_jobs
LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    turn record;
    claimed procrastinate_jobs;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF known IS NOT NULL THEN
        UPDATE procrastinate_jobs
        SET status = 'todo', worker_id = NULL, abort_requested = false, attempts = attempts + 1
        WHERE worker_id = of_worker AND status = 'doing' AND id <> ALL (known);
    END IF;
    FOR turn IN
        -- The queues with work, each found by one step along the index, however many jobs it has.
        WITH RECURSIVE waiting (name) AS (
            (SELECT queue_name FROM procrastinate_jobs WHERE status = 'todo' ORDER BY queue_name LIMIT 1)
            UNION ALL
            SELECT (SELECT queue_name FROM procrastinate_jobs
                    WHERE status = 'todo' AND queue_name > waiting.name ORDER BY queue_name LIMIT 1)
            FROM waiting WHERE waiting.name IS NOT NULL
        )
        SELECT waiting.name, coalesce(given.places, 0) AS has
        FROM waiting LEFT JOIN unnest(queues, places) AS given (name, places) ON given.name = waiting.name
        WHERE waiting.name IS NOT NULL
        ORDER BY has, random()
    LOOP
        EXIT WHEN turn.has > 0 AND turn.has >= 4 * free;
        UPDATE procrastinate_jobs SET status = 'doing', worker_id = of_worker
        WHERE id = (
            SELECT id FROM procrastinate_jobs AS job
            WHERE status = 'todo' AND queue_name = turn.name AND (scheduled_at IS NULL OR scheduled_at <= now())
              AND NOT EXISTS (
                  SELECT FROM procrastinate_jobs AS earlier
                  WHERE earlier.lock = job.lock AND (
                      earlier.status = 'doing' OR (
                          earlier.status = 'todo' AND (-earlier.priority, earlier.id) < (-job.priority, job.id)
                      )
                  )
              )
            ORDER BY priority DESC, id LIMIT 1
            FOR UPDATE SKIP LOCKED
        )
        RETURNING * INTO claimed;
        EXIT WHEN claimed.id IS NOT NULL;
    END LOOP;
    RETURN claimed;
END
$$;

-- Whose turn it is.
CREATE INDEX IF NOT EXISTS launchbay_jobs_turn ON procrastinate_jobs (queue_name, priority DESC, id) WHERE status = 'todo';

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
    IF outcome <> 'failed' THEN
        PERFORM launchbay_announce();  -- it was handed over: others have a place for it
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

-- Remove workers that beat no more and free their jobs, in one transaction; returns how many jobs. Each is named with the
-- heartbeat that stood still: one that has beaten since lives. A job whose worker is NULL has lost it already: deleting
-- a worker's row does that.
CREATE OR REPLACE FUNCTION launchbay_rescue(silent bigint[], beats timestamptz[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    freed bigint;
BEGIN
    DELETE FROM procrastinate_workers AS worker USING unnest(silent, beats) AS seen (id, beat)
    WHERE worker.id = seen.id AND worker.last_heartbeat = seen.beat;
    UPDATE procrastinate_jobs
    SET status = 'todo', abort_requested = false, scheduled_at = NULL, attempts = attempts + 1
    WHERE status = 'doing' AND worker_id IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed > 0 THEN
        PERFORM launchbay_announce();
    END IF;
    RETURN freed;
END
$$;

-- The same for servers of the version before, which ask the clock who is dead.
CREATE OR REPLACE FUNCTION launchbay_rescue(stalled_after_s double precision) RETURNS bigint LANGUAGE sql AS $$
    SELECT launchbay_rescue(array_agg(id), array_agg(last_heartbeat)) FROM procrastinate_workers
    WHERE greatest(last_heartbeat, pg_postmaster_start_time()) < now() - make_interval(secs => stalled_after_s)
$$;

-- Jobs that wait and could run now, those behind a lock included.
CREATE OR REPLACE FUNCTION launchbay_queue_depth() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM procrastinate_jobs
    WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
$$;

-- The same of one queue, counted no further than `most`.
CREATE OR REPLACE FUNCTION launchbay_backlog(queue text, most integer) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (
        SELECT FROM procrastinate_jobs
        WHERE status = 'todo' AND queue_name = queue AND (scheduled_at IS NULL OR scheduled_at <= now()) LIMIT most
    ) AS waiting
$$;

-- A queue's tables hold few rows and turn over all the time: vacuum by count, not by share of a size that was once
-- large, and leave room in the pages for the new versions of rows.
ALTER TABLE procrastinate_jobs SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);
ALTER TABLE procrastinate_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 4000);
ALTER TABLE procrastinate_workers SET (fillfactor = 50);
