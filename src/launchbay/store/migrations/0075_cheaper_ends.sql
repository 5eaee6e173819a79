-- The end of a job asks for no submodules where there are none, and reads no more of the job than the list shows.

CREATE OR REPLACE FUNCTION launchbay_keep_generation(of_instance text, of_job text, by_owner text, plan json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest generations;
    inside text := '[]';
BEGIN
    IF EXISTS (SELECT FROM instance_links WHERE instance_id = of_instance AND kind IN ('own', 'shared')) THEN
        inside := launchbay_submodules(of_instance);
    END IF;
    SELECT * INTO newest FROM generations WHERE instance_id = of_instance ORDER BY number DESC LIMIT 1;
    INSERT INTO generations (instance_id, number, version, revision_id, parameters, submodules, environment_view, job_id, owner_id,
                             cause_kind, cause_id)
    SELECT id, coalesce(newest.number, 0) + 1, version, revision_id, parameters, inside, environment_view, of_job,
           coalesce(by_owner, owner_id), plan #>> '{origin,cause,kind}', plan #>> '{origin,cause,id}'
    FROM instances
    WHERE id = of_instance AND parent_id IS NULL
      AND (newest IS NULL OR (newest.version, newest.revision_id, newest.parameters, newest.submodules, newest.environment_view)
           IS DISTINCT FROM (instances.version, instances.revision_id, instances.parameters, inside, instances.environment_view));
    IF FOUND AND newest.number >= 50 THEN
        DELETE FROM generations WHERE instance_id = of_instance AND number <= newest.number - 49;
    END IF;
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
    SET version = NEW.version, name = NEW.name, status = NEW.status, labels = NEW.labels,
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
