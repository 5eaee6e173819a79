-- What is kept to be shown of steps and jobs: JSON [values, whether they are cut] without secrets. Null: an older server ran it.
ALTER TABLE steps ADD COLUMN inputs text;
ALTER TABLE jobs ADD COLUMN shown_parameters text, ADD COLUMN shown_return_values text;

-- Older servers call the function without the last parameter. Inputs are written once, with the start: an update keeps them.
CREATE FUNCTION launchbay_write_journal(
    of_job text, of_instance text,
    paths text[], names text[], statuses text[], percents smallint[], are_records boolean[], attempts integer[],
    outputs text[], errors text[], started timestamptz[], finished timestamptz[],
    log_steps text[], log_levels text[], log_texts text[], log_times timestamptz[],
    failed text[], log_attempts integer[], log_streams text[], inputs text[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, error_message, started_at,
                       finished_at, failed_attempts, inputs)
    SELECT of_job, path, name, status, percent, is_record, attempt, output, error, began, ended, tries::jsonb, input
    FROM unnest(paths, names, statuses, percents, are_records, attempts, outputs, errors, started, finished, failed, inputs)
         AS step (path, name, status, percent, is_record, attempt, output, error, began, ended, tries, input)
    ON CONFLICT (job_id, path) DO UPDATE SET
        status = excluded.status, percent = greatest(steps.percent, excluded.percent), attempt = excluded.attempt,
        outputs = excluded.outputs, error_message = excluded.error_message,
        started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at,
        failed_attempts = CASE WHEN excluded.failed_attempts IS NULL THEN steps.failed_attempts
                               ELSE coalesce(steps.failed_attempts, '[]') || excluded.failed_attempts END,
        changed = excluded.changed, inputs = coalesce(excluded.inputs, steps.inputs);
    INSERT INTO log_lines (instance_id, job_id, step, level, text, at, attempt, stream)
    SELECT of_instance, of_job, line.*
    FROM unnest(log_steps, log_levels, log_texts, log_times, log_attempts, log_streams) AS line;
    SELECT pg_notify('launchbay_events', of_instance) FROM event_watches WHERE instance_id = of_instance LIMIT 1;
$$;
