-- What steps were given for themselves alone, sealed until their job ends. A process that takes the job over adopts commands that have it,
-- and must mask it in what they write.
CREATE TABLE passing_values (
    id     text PRIMARY KEY,
    job_id text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    sealed bytea NOT NULL
);
CREATE INDEX passing_values_job ON passing_values (job_id);
CREATE TRIGGER passing_values_sealed_key BEFORE INSERT OR UPDATE OF sealed ON passing_values FOR EACH ROW EXECUTE FUNCTION launchbay_check_key('sealed');

-- Whoever ends the job, also a server of an earlier version.
CREATE FUNCTION launchbay_drop_passing_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passing_values WHERE job_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_passing_values AFTER UPDATE OF status ON jobs
FOR EACH ROW WHEN (OLD.status = 'Executing' AND NEW.status <> 'Executing') EXECUTE FUNCTION launchbay_drop_passing_values();
