-- What a launch writes into indexes: half as much for the list of instances, and nothing that no statement reads.

-- Whether the status is Requested. `status` is Executing meanwhile: no index has what the start of the job changes, so PostgreSQL updates
-- the row in place instead of writing an entry into each index.
ALTER TABLE fleet ADD COLUMN is_requested boolean NOT NULL DEFAULT false;
UPDATE fleet SET status = 'Executing', is_requested = true WHERE status = 'Requested';

CREATE OR REPLACE FUNCTION launchbay_list_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fleet (organization_id, instance_id, application_id, environment_id, version, name, owner_id, status, is_requested,
                       labels, destroy_at)
    VALUES (NEW.organization_id, NEW.id, NEW.application_id, NEW.environment_id, NEW.version, NEW.name, NEW.owner_id,
            CASE NEW.status WHEN 'Requested' THEN 'Executing' ELSE NEW.status END, NEW.status = 'Requested', NEW.labels,
            coalesce(NEW.destroy_at, 'infinity'));
    IF NEW.labels <> '{}' THEN
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;

-- Triggers run at the end of the statement: the one that ends a job has written the job by then.
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
        job_status = coalesce(ended_status, job_status), job_ended_at = coalesce(ended_at, job_ended_at)
    WHERE organization_id = NEW.organization_id AND instance_id = NEW.id;
    IF NEW.labels IS DISTINCT FROM OLD.labels THEN
        DELETE FROM fleet_labels WHERE instance_id = NEW.id;
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;

-- Lines are found by their instance, and `log_lines_instance` orders them. Their numbers come from a sequence.
ALTER TABLE log_lines DROP CONSTRAINT log_lines_pkey;

-- Most jobs succeed: a list of these walks all of them in its order, and passes by the rest.
INSERT INTO index_changes
SELECT (SELECT coalesce(max(number), 0) FROM index_changes) + change.number, change.name, change.definition
FROM (VALUES
    (1, 'fleet_failed_jobs', 'ON fleet (organization_id, job_status, instance_id) WHERE job_status <> ''Succeeded'''),
    (2, 'fleet_job_status', NULL),
    (3, 'fleet_last_workflow', 'ON fleet (organization_id, job_name, instance_id) WHERE job_name IS NOT NULL'),
    (4, 'fleet_job_name', NULL),
    (5, 'fleet_jobs_unsuccessful', 'ON fleet_jobs (organization_id, status, created_at, job_id) WHERE status <> ''Succeeded'''),
    (6, 'fleet_jobs_status', NULL)
) AS change (number, name, definition);

-- A new database has nothing to hold up.
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
