-- A schedule of an instance that its manifest gives, unless somebody sets another one, and one that is paused.
-- A server of the version before fires the first as any other; it fires none that is paused, since that has no next time.
ALTER TABLE drift_schedules ADD COLUMN of_manifest boolean NOT NULL DEFAULT false;
ALTER TABLE drift_schedules ADD COLUMN is_paused   boolean NOT NULL DEFAULT false;

-- Instances whose manifest may say when they are checked, since their last change or since somebody took another schedule back.
CREATE TABLE check_times_to_read (
    instance_id     text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    is_launched     boolean NOT NULL DEFAULT false, -- its next check takes a baseline, as it is the first after a launch
    noted_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX check_times_to_read_noted ON check_times_to_read (noted_at);
CREATE INDEX check_times_to_read_organization ON check_times_to_read (organization_id);

CREATE FUNCTION launchbay_note_check_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO check_times_to_read (instance_id, organization_id, is_launched)
    SELECT instances.id, instances.organization_id, NEW.name = 'launch'
    FROM instances JOIN manifests ON manifests.application_id = instances.application_id AND manifests.version = instances.version
    WHERE instances.id = NEW.instance_id
      AND (strpos(content, 'checks') > 0 OR EXISTS (SELECT FROM drift_schedules WHERE object_id = instances.id AND of_manifest))
    ON CONFLICT (instance_id) DO UPDATE SET is_launched = check_times_to_read.is_launched OR EXCLUDED.is_launched;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_note_check_times AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'Executing' AND NEW.status = 'Succeeded' AND NEW.name IN ('launch', 'reconfigure'))
    EXECUTE FUNCTION launchbay_note_check_times();
