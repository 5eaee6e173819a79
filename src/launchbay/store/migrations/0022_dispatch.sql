-- Jobs are dispatched without a queue library: a worker holds a job, or the job waits in `ready`.

-- All servers and workers of older versions must be stopped (OLDEST_COMPATIBLE): they look for jobs elsewhere.
CREATE TABLE workers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Jobs that wait for a worker, in the order of each organization. The primary key is the only index: with a second one,
-- the planner would choose the wrong one as soon as the statistics are out of date, and here they always are.
-- The table turns over all the time: vacuum by count, and leave room in its pages.
CREATE TABLE ready (
    organization_id text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    job_id text NOT NULL,
    due_at timestamptz, -- NULL: now
    PRIMARY KEY (organization_id, number)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);

-- The worker that holds a job, also after the job's end for as long as that worker may still run an effect of it.
ALTER TABLE jobs ADD COLUMN worker_id bigint;
CREATE INDEX jobs_held ON jobs (worker_id) WHERE worker_id IS NOT NULL;

INSERT INTO ready (organization_id, job_id)
SELECT instances.organization_id, jobs.id FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.status = 'Executing' AND jobs.parent_job_id IS NULL ORDER BY jobs.created_at, jobs.id;

-- Let a worker hold up to `places` waiting jobs, at most `each` of an organization, and return them. One that was declared
-- dead, and doesn't know it yet, gets none.
-- Organizations take turns: the search begins after the organization `last`. Those in `full` get nothing.
-- It visits no more organizations than it has places for, so that its cost doesn't depend on how many wait.
-- PostgreSQL believes that the table is as it was when statistics were taken; the settings leave it only the index.
-- The commit doesn't wait for the disk: what a power cut forgets is a job that has written nothing yet.
CREATE FUNCTION launchbay_claim(of_worker bigint, last text, "full" text[], places integer, each integer)
RETURNS TABLE (job_id text, organization_id text, fence integer)
LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    turn text := last;
    is_second_lap boolean := last = '';
    found integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF NOT EXISTS (SELECT FROM workers WHERE workers.id = of_worker) THEN
        RETURN;
    END IF;
    WHILE places > 0 LOOP
        SELECT ready.organization_id INTO turn FROM ready
        WHERE ready.organization_id > turn AND ready.organization_id <> ALL ("full")
        ORDER BY ready.organization_id LIMIT 1;
        IF turn IS NULL THEN
            EXIT WHEN is_second_lap;
            turn := '';
            is_second_lap := true;
            CONTINUE;
        END IF;
        EXIT WHEN is_second_lap AND last <> '' AND turn > last;
        RETURN QUERY
        WITH picked AS (
            SELECT number FROM ready
            WHERE organization_id = turn AND (due_at IS NULL OR due_at <= clock_timestamp())
            ORDER BY number LIMIT least(places, each) FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM ready USING picked WHERE ready.organization_id = turn AND ready.number = picked.number
            RETURNING ready.job_id
        )
        UPDATE jobs SET worker_id = of_worker, fence = jobs.fence + 1 FROM taken
        WHERE jobs.id = taken.job_id AND jobs.status = 'Executing'
        RETURNING jobs.id, turn, jobs.fence;
        GET DIAGNOSTICS found = ROW_COUNT;
        places := places - found;
    END LOOP;
END
$$;
