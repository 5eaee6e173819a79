-- Jobs of which every branch waits leave their workers: a row in `parked` says when each comes back, at the latest.

-- Older servers may run beside: what wakes a job earlier does so by triggers, whoever commits it.
CREATE TABLE parked (
    job_id text PRIMARY KEY,
    organization_id text NOT NULL,
    due_at timestamptz NOT NULL
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 2000
);
CREATE INDEX parked_due ON parked (due_at);

-- When the wait of a parked step ends. Its percentage follows from that, and nobody writes it.
ALTER TABLE steps ADD COLUMN ends_at timestamptz;
CREATE FUNCTION launchbay_percent(status text, percent smallint, started_at timestamptz, ends_at timestamptz)
RETURNS smallint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN ends_at > started_at AND status = 'Executing' THEN greatest(percent, least(99, floor(
        100 * extract(epoch FROM now() - started_at) / extract(epoch FROM ends_at - started_at)
    )))::smallint ELSE percent END
$$;

-- Let a job go that only waits. False: the worker has lost it, it was cancelled, or what it waits for has happened.
-- Whoever decides an approval or cancels a job changes a row that is locked here. So either this sees the change, or the trigger
-- of the change sees the row in `parked`. Approvals are locked before jobs, as everywhere.
-- The fence rises, so that nothing that the worker still does is written.
-- The commit doesn't wait for the disk: after a power cut, the job is one of a dead worker.
CREATE FUNCTION launchbay_park(
    of_job text, of_organization text, of_worker bigint, of_fence integer, due_in_s float8, approvals_asked text[],
    step_jobs text[], step_paths text[], steps_end_in_s float8[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    row_count integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF cardinality(approvals_asked) > 0 THEN
        PERFORM FROM approvals WHERE id = ANY (approvals_asked) AND status = 'pending' ORDER BY id FOR SHARE;
        GET DIAGNOSTICS row_count = ROW_COUNT;
        IF row_count < cardinality(approvals_asked) THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE jobs SET worker_id = NULL, fence = fence + 1
    WHERE id = of_job AND worker_id = of_worker AND fence = of_fence AND status = 'Executing' AND NOT cancel_requested;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO parked (job_id, organization_id, due_at)
    VALUES (of_job, of_organization, clock_timestamp() + due_in_s * interval '1 second')
    ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at;
    UPDATE steps SET ends_at = clock_timestamp() + ends.in_s * interval '1 second'
    FROM unnest(step_jobs, step_paths, steps_end_in_s) AS ends (job_id, path, in_s)
    WHERE steps.job_id = ends.job_id AND steps.path = ends.path;
    RETURN true;
END
$$;

-- Make parked jobs ready: these, or those that run these in their course. Returns how many.
CREATE FUNCTION launchbay_wake(of_jobs text[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    woken integer;
BEGIN
    WITH RECURSIVE callers AS (
        SELECT id, parent_job_id FROM jobs WHERE id = ANY (of_jobs)
        UNION
        SELECT jobs.id, jobs.parent_job_id FROM callers JOIN jobs ON jobs.id = callers.parent_job_id
    ), left_behind AS (
        DELETE FROM parked USING callers WHERE parked.job_id = callers.id RETURNING parked.organization_id, parked.job_id
    )
    INSERT INTO ready (organization_id, job_id) SELECT organization_id, job_id FROM left_behind;
    GET DIAGNOSTICS woken = ROW_COUNT;
    IF woken > 0 THEN
        PERFORM pg_notify('launchbay_dispatch', '');
    END IF;
    RETURN woken;
END
$$;

CREATE FUNCTION launchbay_wake_asking() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM launchbay_wake(ARRAY[NEW.job_id]);
    RETURN NULL;
END
$$;
CREATE TRIGGER approvals_wake AFTER UPDATE ON approvals FOR EACH ROW
    WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION launchbay_wake_asking();

-- A cancellation, and a forced destroy that takes a job's place. The end that a worker writes leaves the fence as it is.
CREATE FUNCTION launchbay_wake_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM launchbay_wake(ARRAY[NEW.id]);
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_cancelled AFTER UPDATE OF cancel_requested ON jobs FOR EACH ROW
    WHEN (NEW.cancel_requested AND NOT OLD.cancel_requested) EXECUTE FUNCTION launchbay_wake_stopped();
CREATE TRIGGER jobs_superseded AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'Executing' AND NEW.status <> 'Executing' AND NEW.fence <> OLD.fence)
    EXECUTE FUNCTION launchbay_wake_stopped();
