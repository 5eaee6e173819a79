-- The attempt of a step for which a session was made. Servers of the version before leave both out, and such sessions last as long as the job.
ALTER TABLE secret_sessions ADD COLUMN path text NOT NULL DEFAULT '', ADD COLUMN attempt integer NOT NULL DEFAULT 0;
CREATE INDEX secret_sessions_provider ON secret_sessions (organization_id, provider, next_at);

-- Sessions whose attempt goes on, as far as the journal says. After a crash a step repeats an attempt with the same number, and may adopt a
-- command that has the values of the first session: both are needed until the attempt has an outcome, or the next one has begun.
CREATE VIEW needed_secret_sessions AS
SELECT secret_sessions.id
FROM secret_sessions JOIN jobs ON jobs.id = secret_sessions.job_id AND jobs.status = 'Executing'
WHERE NOT EXISTS (
    SELECT FROM steps
    WHERE steps.job_id = secret_sessions.job_id AND steps.path = secret_sessions.path
      AND (steps.status IN ('Succeeded', 'Failed') OR steps.attempt > secret_sessions.attempt));

-- The last read of each secret by a step of an instance, without its value.
CREATE TABLE secret_reads (
    service_id  text NOT NULL REFERENCES services ON DELETE CASCADE,
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    component   text NOT NULL,
    step        text NOT NULL,
    secret      text NOT NULL,
    job_id      text NOT NULL,
    read_at     timestamptz NOT NULL,
    PRIMARY KEY (service_id, instance_id, component, step, secret)
);
CREATE INDEX secret_reads_instance ON secret_reads (instance_id);
