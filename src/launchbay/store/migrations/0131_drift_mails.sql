-- Whether owners hear by email of what the checks of a schedule find. A server of the version before leaves it.
ALTER TABLE drift_schedules ADD COLUMN mail boolean NOT NULL DEFAULT false;

-- Who is to have an email about new findings in their instances, and when: at most one a day. `noted_at` is when there was a finding last.
CREATE TABLE drift_mails (
    user_id         text NOT NULL REFERENCES users ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    mail_at         timestamptz,
    sent_at         timestamptz,
    noted_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, organization_id)
);
CREATE INDEX drift_mails_due ON drift_mails (mail_at) WHERE mail_at IS NOT NULL;
CREATE INDEX drift_mails_organization ON drift_mails (organization_id);

-- A finding newly counts, also if another is gone meanwhile. An email waits some minutes for those of the same round of checks.
CREATE OR REPLACE FUNCTION launchbay_post_drift() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT each -> 'difference' ->> 'step', each -> 'difference' ->> 'address' FROM json_array_elements(NEW.findings::json) AS each
        WHERE each ->> 'state' = 'new'
        EXCEPT
        SELECT each -> 'difference' ->> 'step', each -> 'difference' ->> 'address' FROM json_array_elements(OLD.findings::json) AS each
        WHERE each ->> 'state' = 'new') THEN
        RETURN NULL;
    END IF;
    PERFORM launchbay_post(instances, 'drift', json_build_object('new', NEW.new_findings)) FROM instances WHERE id = NEW.instance_id;
    INSERT INTO drift_mails (user_id, organization_id, mail_at)
    SELECT users.id, instances.organization_id, now() + interval '15 minutes' FROM instances JOIN users ON users.id = owner_id
    WHERE instances.id = NEW.instance_id AND EXISTS (
        SELECT FROM drift_schedules WHERE mail AND object_id IN (instances.id, instances.application_id, instances.environment_id))
    ON CONFLICT (user_id, organization_id) DO UPDATE
    SET noted_at = now(), mail_at = coalesce(drift_mails.mail_at, greatest(EXCLUDED.mail_at, drift_mails.sent_at + interval '1 day'));
    RETURN NULL;
END $$;
