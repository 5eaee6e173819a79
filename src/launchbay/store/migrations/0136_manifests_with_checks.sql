-- Whether a manifest may say when its instances are checked, so that the end of a launch needn't read the whole text. Null for versions
-- of before: their text is read as it was. A trigger sets it, also for servers of the version before.
ALTER TABLE manifests ADD COLUMN may_have_checks boolean;

CREATE FUNCTION launchbay_note_checks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.may_have_checks := strpos(NEW.content, 'checks') > 0;
    RETURN NEW;
END $$;
CREATE TRIGGER manifests_note_checks BEFORE INSERT ON manifests FOR EACH ROW EXECUTE FUNCTION launchbay_note_checks();

-- As before, but for the column.
CREATE OR REPLACE FUNCTION launchbay_note_check_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO check_times_to_read (instance_id, organization_id, is_launched)
    SELECT instances.id, instances.organization_id, NEW.name = 'launch'
    FROM instances JOIN manifests ON manifests.application_id = instances.application_id AND manifests.version = instances.version
    WHERE instances.id = NEW.instance_id
      AND (CASE WHEN may_have_checks IS NULL THEN strpos(content, 'checks') > 0 ELSE may_have_checks END
           OR EXISTS (SELECT FROM drift_schedules WHERE object_id = instances.id AND of_manifest))
    ON CONFLICT (instance_id) DO UPDATE SET is_launched = check_times_to_read.is_launched OR EXCLUDED.is_launched;
    RETURN NULL;
END $$;
