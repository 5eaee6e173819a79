-- What happens to instances, numbered, for those who watch them live. Per instance the numbers rise in the order of the commits,
-- because whatever takes one holds the row of the instance or of its running job.

CREATE SEQUENCE instance_changes AS bigint;

ALTER TABLE log_lines ALTER COLUMN id DROP IDENTITY;
SELECT setval('instance_changes', coalesce(max(id), 0) + 1, false) FROM log_lines;
ALTER TABLE log_lines ALTER COLUMN id SET DEFAULT nextval('instance_changes');

ALTER TABLE steps ADD COLUMN changed bigint NOT NULL DEFAULT 0;
ALTER TABLE steps ALTER COLUMN changed SET DEFAULT nextval('instance_changes');

-- Steps and log lines are their own events; here are the others. Rows go with their instance, and after some days.
CREATE TABLE instance_events (
    id          bigint NOT NULL DEFAULT nextval('instance_changes'),
    instance_id text NOT NULL,
    -- 'status' of the instance; 'begun' and 'ended' of a job; 'signal': return values have changed.
    kind        text NOT NULL CHECK (kind IN ('status', 'begun', 'ended', 'signal')),
    -- The instance's new status, or the job's id.
    subject     text,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (instance_id, id)
);

-- Which instances somebody watches, through which process. Without a row here nobody is notified: a notification serializes the
-- commits of all who send one, and hardly any instance is ever watched. A crash may forget the rows; processes renew them.
CREATE UNLOGGED TABLE event_watches (
    instance_id text NOT NULL,
    process_id  text NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (instance_id, process_id)
);

CREATE FUNCTION launchbay_note_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO instance_events (instance_id, kind, subject)
    SELECT NEW.id, kind, subject FROM (VALUES
        (1, 'begun', NEW.job_id, NEW.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id),
        (2, 'signal', NULL, NEW.return_values IS DISTINCT FROM OLD.return_values),
        (3, 'ended', OLD.job_id, OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id),
        (4, 'status', NEW.status, NEW.status IS DISTINCT FROM OLD.status)
    ) AS event (place, kind, subject, has_happened)
    WHERE has_happened ORDER BY place;
    PERFORM pg_notify('launchbay_events', NEW.id) FROM event_watches WHERE instance_id = NEW.id LIMIT 1;
    RETURN NULL;
END
$$;

CREATE TRIGGER instances_changed AFTER UPDATE ON instances FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.job_id IS DISTINCT FROM NEW.job_id
          OR OLD.return_values IS DISTINCT FROM NEW.return_values)
    EXECUTE FUNCTION launchbay_note_instance();

CREATE FUNCTION launchbay_forget_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM instance_events WHERE instance_id = OLD.id;
    PERFORM pg_notify('launchbay_events', OLD.id) FROM event_watches WHERE instance_id = OLD.id LIMIT 1;
    RETURN NULL;
END
$$;

CREATE TRIGGER instances_deleted AFTER DELETE ON instances FOR EACH ROW EXECUTE FUNCTION launchbay_forget_instance();

CREATE OR REPLACE FUNCTION launchbay_write_journal(
    of_job text, of_instance text,
    paths text[], names text[], statuses text[], percents smallint[], are_records boolean[], attempts integer[],
    outputs text[], errors text[], started timestamptz[], finished timestamptz[],
    log_steps text[], log_levels text[], log_texts text[], log_times timestamptz[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, error_message, started_at,
                       finished_at)
    SELECT of_job, step.*
    FROM unnest(paths, names, statuses, percents, are_records, attempts, outputs, errors, started, finished) AS step
    ON CONFLICT (job_id, path) DO UPDATE SET
        status = excluded.status, percent = greatest(steps.percent, excluded.percent), attempt = excluded.attempt,
        outputs = excluded.outputs, error_message = excluded.error_message,
        started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at,
        changed = excluded.changed;
    INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
    SELECT of_instance, of_job, line.*
    FROM unnest(log_steps, log_levels, log_texts, log_times) AS line;
    SELECT pg_notify('launchbay_events', of_instance) FROM event_watches WHERE instance_id = of_instance LIMIT 1;
$$;
