-- Rules for when instances sleep, and whether each instance that has one sleeps. `fires_at` is when it has its next turn: at `due_at`, the
-- next begin or end of a window, or later while it is busy. Without `due_at`, the rule is new to the instance.

CREATE TABLE sleep_rules (
    application_id  text UNIQUE REFERENCES applications ON DELETE CASCADE,
    environment_id  text UNIQUE REFERENCES environments ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    rules           text NOT NULL,
    CHECK (num_nonnulls(application_id, environment_id) = 1)
);
CREATE INDEX sleep_rules_organization ON sleep_rules (organization_id);

CREATE TABLE instance_sleeps (
    instance_id     text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL,
    due_at          timestamptz,
    fires_at        timestamptz,
    is_asleep       boolean NOT NULL DEFAULT false,
    since           timestamptz,
    wake_workflow   text NOT NULL DEFAULT '',
    job_id          text,
    awake_until     timestamptz,
    awake_by        text,
    message         text
);
CREATE INDEX instance_sleeps_due ON instance_sleeps (fires_at);
