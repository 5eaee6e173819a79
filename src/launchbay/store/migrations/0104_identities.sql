-- Keys that sign tokens of jobs, sealed as session keys are.
CREATE TABLE identity_keys (
    id         text PRIMARY KEY,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- For whom steps in an environment may get tokens. An environment without a row has none.
CREATE TABLE identity_audiences (
    environment_id  text PRIMARY KEY REFERENCES environments ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    audiences       text NOT NULL
);
CREATE INDEX identity_audiences_organization ON identity_audiences (organization_id);
CREATE TRIGGER identity_keys_sealed_key BEFORE INSERT OR UPDATE OF sealed ON identity_keys FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
