-- The one place that decides about a cancellation (decision 0161). `asked`: this call cancels the job, with what it calls, and `why`
-- is its error. Otherwise `status` says why not: `Executing` is a job that was cancelled before, null one that doesn't exist.
-- The row is locked first. So a start of a step, or an end, that is being written comes before the answer, and no other after it.
-- Jobs are locked from callers to called ones. A called one that begins meanwhile is seen by the next statement: its caller is locked.
CREATE FUNCTION launchbay_cancel(of_job text, why text, OUT asked boolean, OUT status text) LANGUAGE plpgsql AS $$
DECLARE
    callers text[];
BEGIN
    SELECT jobs.status, jobs.status = 'Executing' AND NOT cancel_requested INTO status, asked
    FROM jobs WHERE id = of_job FOR NO KEY UPDATE;
    IF asked IS NOT TRUE THEN
        asked := false;
        RETURN;
    END IF;
    UPDATE jobs SET cancel_requested = true, error_message = why, fence = greatest(fence, 1) WHERE id = of_job;
    callers := ARRAY[of_job];
    WHILE callers IS NOT NULL LOOP
        WITH called AS (
            UPDATE jobs SET cancel_requested = true, error_message = why, fence = greatest(fence, 1)
            WHERE parent_job_id = ANY (callers) AND jobs.status = 'Executing' AND NOT cancel_requested RETURNING id
        )
        SELECT array_agg(id) INTO callers FROM called;
    END LOOP;
    PERFORM pg_notify('launchbay_dispatch', of_job);
END
$$;
