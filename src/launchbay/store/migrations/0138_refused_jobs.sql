-- Jobs of change sets with steps that weren't as approved (decision 0253). Who makes the change set that follows takes the row while it is
-- due; `follow_up_id` is what was made, and `problem` why nothing was. Servers of the version before write no rows here.
CREATE TABLE refused_jobs (
    job_id        text PRIMARY KEY,
    -- A follow-up without the change set that it follows is one like any other.
    change_set_id text NOT NULL REFERENCES change_sets ON DELETE CASCADE,
    place         integer NOT NULL,
    paths         text[] NOT NULL,
    reason        text NOT NULL,
    refused_at    timestamptz NOT NULL DEFAULT now(),
    due_at        timestamptz,
    tries         integer NOT NULL DEFAULT 0,
    follow_up_id  text REFERENCES change_sets ON DELETE SET NULL,
    problem       text
);
CREATE INDEX refused_jobs_due ON refused_jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX refused_jobs_change_set ON refused_jobs (change_set_id, place);
CREATE INDEX refused_jobs_follow_up ON refused_jobs (follow_up_id) WHERE follow_up_id IS NOT NULL;

-- Notes a step that wasn't as approved. What ends with its change set isn't noted: nothing follows that.
CREATE FUNCTION launchbay_refuse_job(refused text, of_change_set text, at_place integer, step text, why text, replans boolean)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO refused_jobs (job_id, change_set_id, place, paths, reason, due_at)
    SELECT refused, change_sets.id, at_place, ARRAY[step], why, CASE WHEN replans THEN now() END
    FROM change_sets WHERE change_sets.id = of_change_set FOR KEY SHARE
    ON CONFLICT (job_id) DO UPDATE SET due_at = coalesce(refused_jobs.due_at, excluded.due_at),
        paths = refused_jobs.paths || CASE WHEN excluded.paths <@ refused_jobs.paths THEN '{}' ELSE excluded.paths END;
$$;
