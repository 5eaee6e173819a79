-- As before. At the end of a job of an instance that nobody checks, which is nearly each, two look-ups find that there is nothing to do.
CREATE OR REPLACE FUNCTION launchbay_note_drift() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The first launch of what a schedule checks: what it shows then is known.
    IF NEW.status = 'Succeeded' AND NEW.name = 'launch' AND EXISTS (SELECT FROM drift_schedules WHERE organization_id = (
        SELECT organization_id FROM instances WHERE id = NEW.instance_id)) THEN
        INSERT INTO drift_reports (instance_id, organization_id)
        SELECT id, organization_id FROM instances
        WHERE id = NEW.instance_id AND EXISTS (SELECT FROM drift_schedules WHERE object_id IN (id, instances.application_id, instances.environment_id))
        ON CONFLICT DO NOTHING;
    END IF;
    IF NOT EXISTS (SELECT FROM drift_reports WHERE instance_id = NEW.instance_id) THEN
        RETURN NULL;
    END IF;
    UPDATE drift_reports
    SET fence = fence + 1, lease_until = NULL, attempts = 0,
        waiting_since = CASE WHEN NEW.status = 'Succeeded' AND NEW.name IN ('launch', 'reconfigure') THEN coalesce(waiting_since, now())
                             ELSE waiting_since END,
        learns = CASE WHEN NEW.status <> 'Succeeded' THEN learns WHEN NEW.name = 'launch' THEN 'launch'
                      WHEN NEW.name = 'reconfigure' THEN coalesce(learns, 'reconfigure') ELSE learns END,
        -- Without what a job that resumes another took over: somebody may have changed that between the two.
        ran = CASE WHEN NEW.status = 'Succeeded' AND NEW.name = 'reconfigure' THEN ran || ARRAY(
            SELECT path FROM steps WHERE job_id = NEW.id AND status = 'Succeeded' AND attempt > 0 AND NOT EXISTS (
                SELECT FROM json_array_elements_text(NEW.plan::json -> 'resumes') AS resumed
                JOIN steps AS earlier ON earlier.job_id = resumed
                WHERE earlier.path = steps.path AND earlier.started_at = steps.started_at)) ELSE ran END
    WHERE instance_id = NEW.instance_id;
    RETURN NULL;
END $$;
