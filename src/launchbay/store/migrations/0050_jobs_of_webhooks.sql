-- A job as webhooks show it.
CREATE FUNCTION launchbay_job_shown(job_id text) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'id', jobs.id, 'number', jobs.number, 'name', jobs.name, 'status', jobs.status, 'errorMessage', jobs.error_message,
        'startedAt', floor(extract(epoch FROM jobs.started_at) * 1000)::bigint,
        'finishedAt', floor(extract(epoch FROM jobs.finished_at) * 1000)::bigint
    ) FROM jobs WHERE jobs.id = job_id
$$;

-- Puts an event on its way to the webhooks of the instance's organization that ask for it; with the job that it is about, if any.
CREATE FUNCTION launchbay_post(instance instances, kind text, detail json, job json) RETURNS void LANGUAGE sql AS $$
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT launchbay_new_id(), webhooks.id, kind, (
        SELECT json_object_agg(name, value ORDER BY place)::text FROM (VALUES
            (1, 'event', to_json(kind)),
            (2, 'at', to_json(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)),
            (3, 'organization', to_json(instance.organization_id)),
            (4, 'application', to_json(instance.application_id)),
            (5, 'environment', to_json(instance.environment_id)),
            (6, 'instance', to_json(instance.id)),
            (7, 'instanceName', to_json(instance.name)),
            (8, 'labels', to_json(instance.labels)),
            (9, kind, detail),
            (10, 'job', job)
        ) AS field (place, name, value) WHERE place < 10 OR job IS NOT NULL
    )
    FROM webhooks
    WHERE webhooks.organization_id = instance.organization_id AND webhooks.enabled AND kind = ANY (webhooks.events)
$$;

CREATE OR REPLACE FUNCTION launchbay_post(instance instances, kind text, detail json) RETURNS void LANGUAGE sql AS $$
    SELECT launchbay_post(instance, kind, detail, NULL)
$$;

CREATE OR REPLACE FUNCTION launchbay_note_instance() RETURNS trigger LANGUAGE plpgsql AS $$
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
    PERFORM FROM webhooks WHERE organization_id = NEW.organization_id LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NEW.return_values IS DISTINCT FROM OLD.return_values THEN
        PERFORM launchbay_post(NEW, 'signal', (
            SELECT json_object_agg(now.key, now.value)
            FROM json_each(NEW.return_values::json) AS now
            LEFT JOIN json_each(OLD.return_values::json) AS before ON before.key = now.key
            WHERE now.value::text IS DISTINCT FROM before.value::text
        ));
    END IF;
    IF OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id THEN
        PERFORM launchbay_post(NEW, 'job', launchbay_job_shown(OLD.job_id));
    END IF;
    IF NEW.status IS DISTINCT FROM OLD.status THEN
        PERFORM launchbay_post(NEW, 'status', to_json(NEW.status), launchbay_job_shown(coalesce(NEW.job_id, OLD.job_id)));
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION launchbay_note_launch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM webhooks WHERE organization_id = NEW.organization_id LIMIT 1;
    IF FOUND THEN
        PERFORM launchbay_post(NEW, 'status', to_json(NEW.status), launchbay_job_shown(NEW.job_id));
    END IF;
    RETURN NULL;
END
$$;
