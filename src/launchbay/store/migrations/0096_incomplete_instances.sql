-- Whether the last job left components of an instance that aren't launched, as its counts say: a list must find these.
ALTER TABLE fleet ADD COLUMN lacks_components boolean NOT NULL DEFAULT false;
UPDATE fleet SET lacks_components = true FROM instances
WHERE instances.id = fleet.instance_id AND instances.status = 'Running' AND instances.running_count < instances.component_count;

-- Only the end of a job changes that. It writes the entries of all indexes anyway.
INSERT INTO index_changes
SELECT coalesce(max(number), 0) + 1, 'fleet_lacking',
       'ON fleet (organization_id, instance_id) WHERE lacks_components AND status = ''Running'''
FROM index_changes;
DO $$
DECLARE
    change index_changes;
BEGIN
    IF NOT EXISTS (SELECT FROM instances) AND NOT EXISTS (SELECT FROM fleet_jobs) THEN
        FOR change IN SELECT * FROM index_changes ORDER BY number LOOP
            EXECUTE CASE WHEN change.definition IS NULL THEN format('DROP INDEX %I', change.name)
                         ELSE format('CREATE INDEX %I %s', change.name, change.definition) END;
        END LOOP;
        DELETE FROM index_changes;
    END IF;
END
$$;

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
        destroy_at = coalesce(NEW.destroy_at, 'infinity'), job_id = coalesce(ended_id, job_id), job_name = coalesce(ended_name, job_name),
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

-- The instances of which not all components run, though their last job may have succeeded: some aren't launched, or a submodule has failed.
-- One that runs is degraded then (`model/instance.py`). PostgreSQL puts the body into the statement, with the conditions for each part.
CREATE FUNCTION launchbay_incomplete(of_organization text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT instance_id FROM fleet WHERE organization_id = of_organization AND status = 'Running' AND lacks_components
    UNION ALL
    SELECT child.parent_id FROM fleet AS failed JOIN instances AS child ON child.id = failed.instance_id
    WHERE failed.organization_id = of_organization AND failed.status = 'Failed' AND child.parent_id IS NOT NULL
$$;
