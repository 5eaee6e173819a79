-- Roll-outs: a manifest version for many instances, wave after wave.

CREATE TABLE rollouts (
    id                  text PRIMARY KEY,
    organization_id     text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id      text NOT NULL,
    version             integer NOT NULL,
    -- On whose behalf, as in `bulk_runs`.
    owner_id            text NOT NULL,
    owner_email         text NOT NULL,
    owner_name          text NOT NULL,
    address             text NOT NULL,
    method              text NOT NULL,
    token_id            text,
    comment             text NOT NULL,
    -- How many instances each wave has.
    waves               integer[] NOT NULL,
    -- The wave under way, from 1, and when its last instance was done.
    wave                integer NOT NULL DEFAULT 1,
    wave_done_at        timestamptz,
    -- Between two waves; null waits until somebody continues.
    pause_ms            bigint,
    health_workflow     text,
    max_parallel        integer NOT NULL,
    -- So many failures stop it or take it back, besides those from before it was continued.
    stop_after_failures integer NOT NULL,
    forgiven            integer NOT NULL DEFAULT 0,
    on_failure          text NOT NULL,
    status              text NOT NULL DEFAULT 'Running'
        CHECK (status IN ('Running', 'Waiting', 'Stopped', 'Finished', 'Returning', 'Returned')),
    created_at          timestamptz NOT NULL DEFAULT now(),
    finished_at         timestamptz
);
CREATE INDEX rollouts_organization ON rollouts (organization_id, id);
CREATE INDEX rollouts_open ON rollouts (id) WHERE finished_at IS NULL;

CREATE TABLE rollout_instances (
    rollout_id     text NOT NULL REFERENCES rollouts ON DELETE CASCADE,
    place          integer NOT NULL,
    wave           integer NOT NULL,
    -- No references: the outcome outlives the instance.
    instance_id    text NOT NULL,
    instance_name  text NOT NULL,
    application_id text NOT NULL,
    environment_id text NOT NULL,
    former_version integer NOT NULL,
    -- The generation to go back to.
    generation     integer,
    status         text NOT NULL CHECK (status IN ('Waiting', 'Running', 'Unchecked', 'Checking', 'Succeeded', 'Failed', 'Refused',
                                                   'Returning', 'Returned', 'Lost', 'Skipped')),
    job_id         text,
    message        text,
    not_before     timestamptz NOT NULL DEFAULT '-infinity',
    started_at     timestamptz,
    finished_at    timestamptz,
    PRIMARY KEY (rollout_id, place)
);
CREATE INDEX rollout_instances_status ON rollout_instances (rollout_id, status, wave, place);

CREATE FUNCTION launchbay_post_rollout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT launchbay_new_id(), webhooks.id, 'rollout', json_build_object(
        'event', 'rollout',
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        'organization', NEW.organization_id,
        'application', NEW.application_id,
        'rollout', json_build_object(
            'id', NEW.id, 'version', NEW.version, 'status', NEW.status, 'comment', NEW.comment, 'ownerId', NEW.owner_id,
            'wave', NEW.wave, 'waves', cardinality(NEW.waves)
        )
    )::text
    FROM webhooks
    WHERE webhooks.organization_id = NEW.organization_id AND webhooks.enabled AND 'rollout' = ANY (webhooks.events);
    RETURN NULL;
END
$$;
CREATE TRIGGER rollouts_begun AFTER INSERT ON rollouts FOR EACH ROW EXECUTE FUNCTION launchbay_post_rollout();
CREATE TRIGGER rollouts_changed AFTER UPDATE ON rollouts FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.wave <> NEW.wave) EXECUTE FUNCTION launchbay_post_rollout();
