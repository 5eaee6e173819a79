-- Sessions of steps at providers of secrets, until they are revoked. `sealed` is what revokes one; the secrets themselves
-- are nowhere. There is no reference to the job, since a session must outlive what is deleted.
CREATE TABLE secret_sessions (
    id              text PRIMARY KEY,
    organization_id text NOT NULL,
    environment_id  text NOT NULL,
    job_id          text NOT NULL,
    provider        text NOT NULL,
    type_id         text NOT NULL,
    sealed          bytea NOT NULL,
    leases          text NOT NULL DEFAULT '[]',
    lease_s         integer NOT NULL,
    renew_at        timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    next_at         timestamptz NOT NULL,
    failures        integer NOT NULL DEFAULT 0,
    message         text
);
CREATE INDEX secret_sessions_job ON secret_sessions (job_id);
CREATE TRIGGER secret_sessions_sealed_key BEFORE INSERT OR UPDATE OF sealed ON secret_sessions FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');
