-- Retention deletes jobs by the thousand. A trigger for each of them took two fifths of the time.
DROP TRIGGER jobs_unlist ON jobs;

CREATE OR REPLACE FUNCTION launchbay_unlist_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- An array, not a join: a plan made for thousands would read the whole table for a single job later.
    DELETE FROM fleet_jobs WHERE job_id = ANY (ARRAY(SELECT id FROM deleted));
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_unlist AFTER DELETE ON jobs REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION launchbay_unlist_job();
