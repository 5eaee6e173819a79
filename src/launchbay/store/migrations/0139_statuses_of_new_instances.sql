-- As before, but only a launch is first Requested: an instance of what runs already is Running from the beginning.
CREATE OR REPLACE FUNCTION launchbay_note_launch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'Executing' THEN
        INSERT INTO instance_events (instance_id, kind, subject) VALUES (NEW.id, 'status', NEW.status);
    END IF;
    PERFORM FROM webhooks WHERE organization_id = NEW.organization_id LIMIT 1;
    IF FOUND THEN
        IF NEW.status = 'Executing' THEN
            PERFORM launchbay_post(NEW, 'status', to_json('Requested'::text), launchbay_job_shown(NEW.job_id));
        END IF;
        PERFORM launchbay_post(NEW, 'status', to_json(NEW.status), launchbay_job_shown(NEW.job_id));
    END IF;
    RETURN NULL;
END
$$;
