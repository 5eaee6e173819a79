-- Bulk runs: one act on many instances, a few at a time, with the outcome of each.

CREATE TABLE bulk_runs (
    id                  text PRIMARY KEY,
    organization_id     text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    -- On whose behalf: the account, from where, and with which access token, whose scope limits each turn.
    owner_id            text NOT NULL,
    owner_email         text NOT NULL,
    owner_name          text NOT NULL,
    address             text NOT NULL,
    method              text NOT NULL,
    token_id            text,
    -- What to do with each instance, as JSON.
    act                 text NOT NULL,
    status              text NOT NULL DEFAULT 'Running' CHECK (status IN ('Running', 'Paused', 'Cancelled', 'Stopped', 'Finished')),
    max_parallel        integer NOT NULL,
    stop_after_failures integer,
    created_at          timestamptz NOT NULL DEFAULT now(),
    finished_at         timestamptz
);
CREATE INDEX bulk_runs_organization ON bulk_runs (organization_id, id);
-- Those with work left: jobs of a paused or stopped one may still be under way.
CREATE INDEX bulk_runs_open ON bulk_runs (id) WHERE finished_at IS NULL;

CREATE TABLE bulk_instances (
    bulk_id        text NOT NULL REFERENCES bulk_runs ON DELETE CASCADE,
    place          integer NOT NULL,
    -- No references: the outcome outlives the instance.
    instance_id    text NOT NULL,
    instance_name  text NOT NULL,
    application_id text NOT NULL,
    environment_id text NOT NULL,
    status         text NOT NULL CHECK (status IN ('Waiting', 'Running', 'Succeeded', 'Failed', 'Refused', 'Cancelled')),
    job_id         text,
    message        text,
    -- An instance that was busy waits until then.
    not_before     timestamptz NOT NULL DEFAULT '-infinity',
    started_at     timestamptz,
    finished_at    timestamptz,
    PRIMARY KEY (bulk_id, place)
);
CREATE INDEX bulk_instances_under_way ON bulk_instances (bulk_id, status, not_before, place) WHERE status IN ('Waiting', 'Running');
