-- What people call a job by: 1, 2, 3 … in its instance. Who accepts a job raises the instance's number in the same statement.
ALTER TABLE jobs ADD COLUMN number integer;
UPDATE jobs SET number = numbered.number
FROM (SELECT id, row_number() OVER (PARTITION BY instance_id ORDER BY created_at, id) AS number FROM jobs) AS numbered
WHERE numbered.id = jobs.id;
ALTER TABLE instances ADD COLUMN jobs_begun integer NOT NULL DEFAULT 0;
UPDATE instances SET jobs_begun = counted.jobs
FROM (SELECT instance_id, count(*) AS jobs FROM jobs GROUP BY instance_id) AS counted WHERE counted.instance_id = instances.id;

-- Jobs that older servers accept get their numbers here.
CREATE FUNCTION launchbay_number_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE instances SET jobs_begun = jobs_begun + 1 WHERE id = NEW.instance_id RETURNING jobs_begun INTO NEW.number;
    RETURN NEW;
END
$$;
CREATE TRIGGER jobs_number BEFORE INSERT ON jobs FOR EACH ROW WHEN (NEW.number IS NULL) EXECUTE FUNCTION launchbay_number_job();

-- The jobs that a job ran on other instances, also those that have ended.
CREATE INDEX jobs_children ON jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;

-- Failed attempts of a step: [[number, began, ended, error, next], …], times in ms since the Unix epoch. A write may come twice; the
-- last entry of a number counts.
ALTER TABLE steps ADD COLUMN failed_attempts jsonb;

-- Which attempt wrote a line, and how: `system` for Launchbay and its actions, also where it is null, or `stdout` and `stderr`.
ALTER TABLE log_lines ADD COLUMN attempt integer, ADD COLUMN stream text;

-- Older servers call the function without the last parameters.
CREATE FUNCTION launchbay_write_journal(
    of_job text, of_instance text,
    paths text[], names text[], statuses text[], percents smallint[], are_records boolean[], attempts integer[],
    outputs text[], errors text[], started timestamptz[], finished timestamptz[],
    log_steps text[], log_levels text[], log_texts text[], log_times timestamptz[],
    failed text[], log_attempts integer[], log_streams text[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, error_message, started_at,
                       finished_at, failed_attempts)
    SELECT of_job, path, name, status, percent, is_record, attempt, output, error, began, ended, tries::jsonb
    FROM unnest(paths, names, statuses, percents, are_records, attempts, outputs, errors, started, finished, failed)
         AS step (path, name, status, percent, is_record, attempt, output, error, began, ended, tries)
    ON CONFLICT (job_id, path) DO UPDATE SET
        status = excluded.status, percent = greatest(steps.percent, excluded.percent), attempt = excluded.attempt,
        outputs = excluded.outputs, error_message = excluded.error_message,
        started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at,
        failed_attempts = CASE WHEN excluded.failed_attempts IS NULL THEN steps.failed_attempts
                               ELSE coalesce(steps.failed_attempts, '[]') || excluded.failed_attempts END,
        changed = excluded.changed;
    INSERT INTO log_lines (instance_id, job_id, step, level, text, at, attempt, stream)
    SELECT of_instance, of_job, line.*
    FROM unnest(log_steps, log_levels, log_texts, log_times, log_attempts, log_streams) AS line;
    SELECT pg_notify('launchbay_events', of_instance) FROM event_watches WHERE instance_id = of_instance LIMIT 1;
$$;
