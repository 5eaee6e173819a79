-- Webhooks: who wants to hear of an organization's instances, and what is on its way to them. A delivery is written in the transaction
-- of what it tells.

CREATE TABLE webhooks (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    url             text NOT NULL,
    -- Of 'status', 'job' and 'signal'.
    events          text[] NOT NULL,
    -- What signs the requests, sealed with the server's secret key.
    secret          bytea NOT NULL,
    enabled         boolean NOT NULL DEFAULT true,
    -- Why it was switched off, when nobody did it.
    disabled_reason text,
    -- Since when no delivery has succeeded; null after a success.
    failing_since   timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_organization ON webhooks (organization_id, id);

CREATE TABLE webhook_deliveries (
    id          text PRIMARY KEY,
    webhook_id  text NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event       text NOT NULL,
    -- What happened, a JSON document; it is on its way, so it stays when the instance is deleted.
    body        text NOT NULL,
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts    integer NOT NULL DEFAULT 0,
    -- When the next attempt is due; while one is under way, when it counts as lost.
    next_at     timestamptz NOT NULL DEFAULT now(),
    last_status integer,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (finished_at) WHERE status <> 'pending';

-- Puts an event on its way to the webhooks of the instance's organization that ask for it.
CREATE FUNCTION launchbay_post(instance instances, kind text, detail json) RETURNS void LANGUAGE sql AS $$
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT launchbay_new_id(), webhooks.id, kind, json_build_object(
        'event', kind,
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        'organization', instance.organization_id,
        'application', instance.application_id,
        'environment', instance.environment_id,
        'instance', instance.id,
        'instanceName', instance.name,
        kind, detail
    )::text
    FROM webhooks
    WHERE webhooks.organization_id = instance.organization_id AND webhooks.enabled AND kind = ANY (webhooks.events)
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
        PERFORM launchbay_post(NEW, 'job', json_build_object(
            'id', jobs.id, 'name', jobs.name, 'status', jobs.status, 'errorMessage', jobs.error_message
        )) FROM jobs WHERE jobs.id = OLD.job_id;
    END IF;
    IF NEW.status IS DISTINCT FROM OLD.status THEN
        PERFORM launchbay_post(NEW, 'status', to_json(NEW.status));
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION launchbay_note_launch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM webhooks WHERE organization_id = NEW.organization_id LIMIT 1;
    IF FOUND THEN
        PERFORM launchbay_post(NEW, 'status', to_json(NEW.status));
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER instances_launched AFTER INSERT ON instances FOR EACH ROW EXECUTE FUNCTION launchbay_note_launch();
