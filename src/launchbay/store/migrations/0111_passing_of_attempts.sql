-- The attempt that has the values: the next attempt of its step replaces them, and nobody reads those of an ended step. Servers of the
-- version before leave both out, and such rows stay until the job's end.
ALTER TABLE passing_values ADD COLUMN path text NOT NULL DEFAULT '', ADD COLUMN attempt integer NOT NULL DEFAULT 0;
CREATE INDEX passing_values_path ON passing_values (job_id, path);
DROP INDEX passing_values_job;
