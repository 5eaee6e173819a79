-- Change sets: changes of instances that are shown, kept, approved and then applied as they were shown.

CREATE TABLE change_sets (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    owner_id        text NOT NULL,
    owner_email     text NOT NULL,
    token_id        text,
    -- What to do, as JSON that is sealed with the secret key: it has parameters.
    act             bytea NOT NULL,
    kind            text NOT NULL,
    comment         text NOT NULL,
    on_failure      text NOT NULL,
    -- How many have to approve, and the roles that each of them needs.
    needed          integer NOT NULL,
    role_ids        text[] NOT NULL,
    status          text NOT NULL CHECK (status IN ('Pending', 'Ready', 'Rejected', 'Applying', 'Succeeded', 'Failed')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    applied_by      text,
    applied_at      timestamptz,
    finished_at     timestamptz
);
CREATE INDEX change_sets_organization ON change_sets (organization_id, id);
CREATE INDEX change_sets_applying ON change_sets (id) WHERE status = 'Applying';

CREATE TABLE change_set_instances (
    change_set_id  text NOT NULL REFERENCES change_sets ON DELETE CASCADE,
    place          integer NOT NULL,
    -- No references: the record outlives the instance. Null for a launch until it is applied.
    instance_id    text,
    instance_name  text NOT NULL,
    application_id text NOT NULL,
    environment_id text NOT NULL,
    -- What was shown, and what it was made from: JSON.
    promise        text NOT NULL,
    facts          text NOT NULL,
    status         text NOT NULL DEFAULT 'Planned' CHECK (status IN ('Planned', 'Running', 'Succeeded', 'Failed')),
    job_id         text,
    message        text,
    -- How the result differs from what was shown: a JSON list, null until it is known.
    differences    text,
    PRIMARY KEY (change_set_id, place)
);

CREATE TABLE change_set_answers (
    change_set_id text NOT NULL REFERENCES change_sets ON DELETE CASCADE,
    user_id       text NOT NULL,
    email         text NOT NULL,
    approves      boolean NOT NULL,
    comment       text NOT NULL,
    at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (change_set_id, user_id)
);

-- Who approves change sets of an environment: {"approvals": 2, "roleId": "…"}. Null: nobody has to.
ALTER TABLE environments ADD COLUMN change_policy text;

CREATE FUNCTION launchbay_post_change_set(of_id text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT launchbay_new_id(), webhooks.id, 'changeSet', json_build_object(
        'event', 'changeSet',
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        'organization', change_sets.organization_id,
        'changeSet', json_build_object(
            'id', change_sets.id, 'act', change_sets.kind, 'status', change_sets.status, 'comment', change_sets.comment,
            'ownerId', change_sets.owner_id,
            'instances', (SELECT count(*) FROM change_set_instances WHERE change_set_id = of_id)
        )
    )::text
    FROM change_sets JOIN webhooks ON webhooks.organization_id = change_sets.organization_id
    WHERE change_sets.id = of_id AND webhooks.enabled AND 'changeSet' = ANY (webhooks.events)
$$;

-- A change set can ask for the way back as well as the application.
CREATE OR REPLACE FUNCTION launchbay_note_configured() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    plan json := NEW.plan::json;
BEGIN
    IF plan ->> 'kind' NOT IN ('launch', 'reconfigure') THEN
        RETURN NULL;
    END IF;
    IF NEW.status = 'Succeeded' THEN
        PERFORM launchbay_keep_generation(NEW.instance_id, NEW.id, NEW.owner_id, plan);
    ELSIF plan ->> 'kind' = 'reconfigure' AND plan #>> '{origin,cause,kind}' IS DISTINCT FROM 'rollback' THEN
        INSERT INTO rollbacks_due (job_id, instance_id, owner_id)
        SELECT NEW.id, instances.id, NEW.owner_id
        FROM instances JOIN applications ON applications.id = instances.application_id
        WHERE instances.id = NEW.instance_id AND instances.parent_id IS NULL AND (
            applications.on_failure = 'rollback'
            OR EXISTS (SELECT FROM change_sets WHERE id = plan #>> '{origin,cause,id}' AND on_failure = 'rollback')
        );
    END IF;
    RETURN NULL;
END
$$;
