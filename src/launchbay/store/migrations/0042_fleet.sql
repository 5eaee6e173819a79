-- Labels, and what the lists of an organization need: a narrow row for each instance, with an index for each filter and order.

ALTER TABLE instances ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
ALTER TABLE applications ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
ALTER TABLE environments ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';

-- How many components the instance has, and how many of them are launched. Null until the end of its next job.
ALTER TABLE instances ADD COLUMN component_count integer, ADD COLUMN running_count integer;

-- Not columns and indexes of `instances`: its rows are wide, and jobs update them in place as long as no index has what changes.
CREATE TABLE fleet (
    organization_id text NOT NULL,
    instance_id     text NOT NULL,
    application_id  text NOT NULL,
    environment_id  text NOT NULL,
    version         integer NOT NULL,
    name            text NOT NULL,
    owner_id        text NOT NULL,
    status          text NOT NULL,
    labels          jsonb NOT NULL,
    -- Infinity: never.
    destroy_at      timestamptz NOT NULL,
    -- The job that ended last, and -infinity where none has.
    job_id          text,
    job_name        text,
    job_status      text,
    job_ended_at    timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (organization_id, instance_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- For selectors: labels of instances by value.
CREATE TABLE fleet_labels (
    organization_id text NOT NULL,
    name            text NOT NULL,
    value           text NOT NULL,
    instance_id     text NOT NULL,
    PRIMARY KEY (organization_id, name, value, instance_id)
);
CREATE INDEX fleet_labels_instance ON fleet_labels (instance_id);

CREATE FUNCTION launchbay_list_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fleet (organization_id, instance_id, application_id, environment_id, version, name, owner_id, status, labels, destroy_at)
    VALUES (NEW.organization_id, NEW.id, NEW.application_id, NEW.environment_id, NEW.version, NEW.name, NEW.owner_id, NEW.status,
            NEW.labels, coalesce(NEW.destroy_at, 'infinity'));
    IF NEW.labels <> '{}' THEN
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER instances_list_new AFTER INSERT ON instances FOR EACH ROW EXECUTE FUNCTION launchbay_list_new();

-- Triggers run at the end of the statement: the one that ends a job has written the job by then.
CREATE FUNCTION launchbay_list_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended jobs;
BEGIN
    IF OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id THEN
        SELECT * INTO ended FROM jobs WHERE jobs.id = OLD.job_id;
    END IF;
    UPDATE fleet
    SET version = NEW.version, name = NEW.name, status = NEW.status, labels = NEW.labels,
        destroy_at = coalesce(NEW.destroy_at, 'infinity'), job_id = coalesce(ended.id, job_id), job_name = coalesce(ended.name, job_name),
        job_status = coalesce(ended.status, job_status), job_ended_at = coalesce(ended.finished_at, job_ended_at)
    WHERE organization_id = NEW.organization_id AND instance_id = NEW.id;
    IF NEW.labels IS DISTINCT FROM OLD.labels THEN
        DELETE FROM fleet_labels WHERE instance_id = NEW.id;
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER instances_list_changed AFTER UPDATE ON instances FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id
          OR OLD.name IS DISTINCT FROM NEW.name OR OLD.version IS DISTINCT FROM NEW.version
          OR OLD.destroy_at IS DISTINCT FROM NEW.destroy_at OR OLD.labels IS DISTINCT FROM NEW.labels)
    EXECUTE FUNCTION launchbay_list_changed();

CREATE FUNCTION launchbay_unlist() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fleet WHERE organization_id = OLD.organization_id AND instance_id = OLD.id;
    DELETE FROM fleet_labels WHERE instance_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER instances_unlist AFTER DELETE ON instances FOR EACH ROW EXECUTE FUNCTION launchbay_unlist();

-- The instances that there are. The triggers' locks keep others from being launched meanwhile.
INSERT INTO fleet (organization_id, instance_id, application_id, environment_id, version, name, owner_id, status, labels, destroy_at,
                   job_id, job_name, job_status, job_ended_at)
SELECT instances.organization_id, instances.id, instances.application_id, instances.environment_id, instances.version, instances.name,
       instances.owner_id, instances.status, '{}', coalesce(instances.destroy_at, 'infinity'), last.id, last.name, last.status,
       coalesce(last.finished_at, '-infinity')
FROM instances LEFT JOIN LATERAL (
    SELECT id, name, status, finished_at FROM jobs
    WHERE jobs.instance_id = instances.id AND jobs.status <> 'Executing' ORDER BY created_at DESC, id DESC LIMIT 1
) AS last ON true;

CREATE INDEX fleet_name ON fleet (organization_id, name, instance_id);
CREATE INDEX fleet_last_job ON fleet (organization_id, job_ended_at, instance_id);
CREATE INDEX fleet_expiry ON fleet (organization_id, destroy_at, instance_id);
CREATE INDEX fleet_status ON fleet (organization_id, status, instance_id);
CREATE INDEX fleet_job_status ON fleet (organization_id, job_status, instance_id);
CREATE INDEX fleet_job_name ON fleet (organization_id, job_name, instance_id);
CREATE INDEX fleet_application ON fleet (application_id, version, instance_id);
CREATE INDEX fleet_environment ON fleet (environment_id, instance_id);
CREATE INDEX fleet_owner ON fleet (owner_id, instance_id);

-- A part of a name is found by its groups of three characters. They and labels hardly ever change, so the index is of `instances`.
CREATE FUNCTION launchbay_search_text(name text, labels jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(concat_ws(' ', name, (SELECT string_agg(label.value, ' ') FROM jsonb_each_text(labels) AS label)))
$$;
CREATE FUNCTION launchbay_trigrams(search text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(DISTINCT substr(search, place, 3)), '{}') FROM generate_series(1, length(search) - 2) AS place
$$;
CREATE INDEX instances_search ON instances USING gin (launchbay_trigrams(launchbay_search_text(name, labels)));

-- By the index in any case: to compute the groups of all instances takes seconds.
CREATE FUNCTION launchbay_search(of_organization text, word text, most integer) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN QUERY
    (SELECT found.id FROM (
         -- OFFSET keeps the other condition, and its index, out.
         SELECT id, organization_id FROM instances
         WHERE launchbay_trigrams(launchbay_search_text(name, labels)) @> launchbay_trigrams(word) OFFSET 0
     ) AS found WHERE found.organization_id = of_organization LIMIT most)
    UNION ALL
    (SELECT instance_id FROM fleet
     WHERE organization_id = of_organization AND instance_id >= word AND instance_id < word || 'g' LIMIT most);
END
$$;
