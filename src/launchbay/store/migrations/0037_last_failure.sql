-- Which job failed last, next to its message: the document that the API shows as `lastFailure`. Programs that do not know the column
-- leave an old failure here, whose message then is not the instance's.
ALTER TABLE instances ADD COLUMN last_failure text;

CREATE FUNCTION launchbay_failure(job_id text, workflow text, message text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT json_build_object('jobId', job_id, 'workflow', workflow, 'time', floor(extract(epoch FROM now()) * 1000)::bigint,
                             'message', message)::text
$$;
