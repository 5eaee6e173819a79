-- Instances with the rule "no run for so long". A run moves the end, not the row: it is moved when its time comes near. `own_job_id` is a
-- job that doesn't count as a run, and `ended_at` when the rule began to destroy the instance.

CREATE TABLE idle_ends (
    instance_id     text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL,
    idle_ms         bigint NOT NULL,
    since           timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    own_job_id      text,
    ended_at        timestamptz
);
CREATE INDEX idle_ends_due ON idle_ends (due_at);
