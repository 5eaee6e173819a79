-- Recurring schedules that people make: a workflow of an instance, a launch, or a bulk run at the times of a cron expression.

CREATE TABLE recurring_schedules (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    -- On whose behalf it fires: the account, from where, and with which access token, whose scope limits each firing.
    owner_id        text NOT NULL REFERENCES users ON DELETE CASCADE,
    owner_email     text NOT NULL,
    owner_name      text NOT NULL,
    address         text NOT NULL,
    method          text NOT NULL,
    token_id        text,
    kind            text NOT NULL CHECK (kind IN ('run', 'launch', 'bulk')),
    application_id  text REFERENCES applications ON DELETE CASCADE,
    instance_id     text REFERENCES instances ON DELETE CASCADE,
    -- What to do, as JSON, encrypted: its parameters may be secrets.
    act             bytea NOT NULL,
    cron            text NOT NULL,
    zone            text NOT NULL,
    starts_at       timestamptz,
    ends_at         timestamptz,
    is_paused       boolean NOT NULL DEFAULT false,
    when_busy       text NOT NULL CHECK (when_busy IN ('skip', 'queue')),
    jitter_ms       bigint NOT NULL DEFAULT 0,
    -- The next time of the expression, and when it fires: later by the jitter, or because the instance is busy.
    due_at          timestamptz,
    fires_at        timestamptz,
    -- The last firings as a JSON list, the newest first.
    firings         text NOT NULL DEFAULT '[]',
    fired           bigint NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX recurring_schedules_due ON recurring_schedules (fires_at) WHERE fires_at IS NOT NULL;
CREATE INDEX recurring_schedules_organization ON recurring_schedules (organization_id, id);
CREATE INDEX recurring_schedules_instance ON recurring_schedules (instance_id) WHERE instance_id IS NOT NULL;
CREATE INDEX recurring_schedules_application ON recurring_schedules (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX recurring_schedules_owner ON recurring_schedules (owner_id);
