-- Retention deletes jobs by the thousand. A trigger for each of them took two fifths of the time.
DROP TRIGGER jobs_unlist ON jobs;
DROP FUNCTION launchbay_unlist_job();

CREATE FUNCTION launchbay_unlist_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fleet_jobs USING deleted WHERE job_id = deleted.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_unlist AFTER DELETE ON jobs REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION launchbay_unlist_jobs();
