-- A launch that begins in the transaction that accepts it is written as Executing. It has the events of both statuses, as one that is
-- claimed later. Nobody can watch its events yet.
CREATE OR REPLACE FUNCTION launchbay_note_launch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'Executing' THEN
        INSERT INTO instance_events (instance_id, kind, subject) VALUES (NEW.id, 'status', NEW.status);
    END IF;
    PERFORM FROM webhooks WHERE organization_id = NEW.organization_id LIMIT 1;
    IF FOUND THEN
        PERFORM launchbay_post(NEW, 'status', to_json('Requested'::text), launchbay_job_shown(NEW.job_id));
        IF NEW.status <> 'Requested' THEN
            PERFORM launchbay_post(NEW, 'status', to_json(NEW.status), launchbay_job_shown(NEW.job_id));
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- As before, but an instance whose list shows its own end, which hasn't changed, isn't looked up among destroys that are scheduled:
-- whoever changes one of those lists its end.
CREATE OR REPLACE FUNCTION launchbay_list_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended_id text;
    ended_name text;
    ended_status text;
    ended_at timestamptz;
BEGIN
    IF OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id THEN
        SELECT id, name, status, finished_at INTO ended_id, ended_name, ended_status, ended_at FROM jobs WHERE jobs.id = OLD.job_id;
    END IF;
    UPDATE fleet
    SET version = NEW.version, name = NEW.name, status = CASE NEW.status WHEN 'Requested' THEN 'Executing' ELSE NEW.status END,
        is_requested = NEW.status = 'Requested', labels = NEW.labels,
        destroy_at = CASE WHEN NEW.destroy_at IS NOT DISTINCT FROM OLD.destroy_at AND fleet.destroy_at = coalesce(NEW.destroy_at, 'infinity')
            THEN fleet.destroy_at ELSE launchbay_listed_end(NEW.id, NEW.destroy_at) END,
        job_id = coalesce(ended_id, job_id), job_name = coalesce(ended_name, job_name),
        job_status = coalesce(ended_status, job_status), job_ended_at = coalesce(ended_at, job_ended_at),
        lacks_components = coalesce(NEW.running_count < NEW.component_count, false)
    WHERE organization_id = NEW.organization_id AND instance_id = NEW.id;
    IF NEW.labels IS DISTINCT FROM OLD.labels THEN
        DELETE FROM fleet_labels WHERE instance_id = NEW.id;
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;

-- As before, but a look finds that there is nothing to write, which is nearly each time.
CREATE OR REPLACE FUNCTION launchbay_note_check_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM instances JOIN manifests ON manifests.application_id = instances.application_id AND manifests.version = instances.version
        WHERE instances.id = NEW.instance_id
          AND CASE WHEN may_have_checks IS NULL THEN strpos(content, 'checks') > 0 ELSE may_have_checks END
        UNION ALL SELECT FROM drift_schedules WHERE object_id = NEW.instance_id AND of_manifest
    ) THEN
        INSERT INTO check_times_to_read (instance_id, organization_id, is_launched)
        SELECT id, organization_id, NEW.name = 'launch' FROM instances WHERE id = NEW.instance_id
        ON CONFLICT (instance_id) DO UPDATE SET is_launched = check_times_to_read.is_launched OR EXCLUDED.is_launched;
    END IF;
    RETURN NULL;
END $$;
