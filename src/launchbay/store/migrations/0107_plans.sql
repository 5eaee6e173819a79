-- What launches, reconfigurations and destructions would do, step by step. A process takes one by a lease. `request` is
-- what was asked, sealed, since it may have secrets; `result` has none.
CREATE TABLE plans (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    owner_id        text NOT NULL,
    change_set_id   text,
    place           integer,
    job_id          text,
    request         bytea NOT NULL,
    status          text NOT NULL DEFAULT 'Waiting' CHECK (status IN ('Waiting', 'Planned', 'Failed')),
    result          text,
    problem         text,
    digest          text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    lease_until     timestamptz,
    fence           integer NOT NULL DEFAULT 0
);
CREATE INDEX plans_waiting ON plans (created_at) WHERE status = 'Waiting';
CREATE INDEX plans_organization ON plans (organization_id, created_at);
CREATE INDEX plans_change_set ON plans (change_set_id, place) WHERE change_set_id IS NOT NULL;
CREATE INDEX plans_job ON plans (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX plans_expire ON plans (expires_at);
CREATE TRIGGER plans_request_key BEFORE INSERT OR UPDATE OF request ON plans FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('request');

-- With what a step does exactly what was planned.
CREATE TABLE plan_artifacts (
    plan_id text NOT NULL REFERENCES plans ON DELETE CASCADE,
    path    text NOT NULL,
    sealed  bytea NOT NULL,
    PRIMARY KEY (plan_id, path)
);
CREATE TRIGGER plan_artifacts_sealed_key BEFORE INSERT OR UPDATE OF sealed ON plan_artifacts
    FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
