-- Generations: each configuration of an instance that took effect, and the way back when one fails.

CREATE TABLE generations (
    instance_id      text NOT NULL REFERENCES instances ON DELETE CASCADE,
    number           integer NOT NULL,
    version          integer NOT NULL,
    revision_id      text,
    parameters       text NOT NULL,
    -- The instances behind the components at every level, as rows of `instance_links` with what the instances had.
    submodules       text NOT NULL,
    environment_view text NOT NULL,
    -- The job that brought it; null for what an instance had before the first generation was kept.
    job_id           text,
    owner_id         text NOT NULL,
    -- What asked for it: a change set, a roll-out or a rollback, if any.
    cause_kind       text,
    cause_id         text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (instance_id, number)
);

-- What an instance does when its reconfiguration fails: keep it as it is, or roll back to its newest generation.
ALTER TABLE applications ADD COLUMN on_failure text NOT NULL DEFAULT 'keep';

-- Instances whose rollback is due. Processes with an engine take turns at them.
CREATE TABLE rollbacks_due (
    job_id          text PRIMARY KEY,
    instance_id     text NOT NULL REFERENCES instances ON DELETE CASCADE,
    owner_id        text NOT NULL,
    not_before      timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION launchbay_submodules(root text) RETURNS text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below AS (
        SELECT link.instance_id, link.component, link.target_id, link.kind, 1 AS depth
        FROM instance_links link WHERE link.instance_id = root AND link.kind IN ('own', 'shared')
        UNION ALL
        SELECT link.instance_id, link.component, link.target_id, link.kind, below.depth + 1
        FROM below JOIN instance_links link ON link.instance_id = below.target_id
        WHERE below.kind = 'own' AND link.kind IN ('own', 'shared')
    )
    SELECT coalesce(json_agg(json_build_object(
        'outer', below.instance_id, 'component', below.component, 'target', below.target_id, 'kind', below.kind,
        'application', target.application_id, 'version', target.version, 'revision', target.revision_id,
        'parameters', target.parameters::json
    ) ORDER BY depth, below.instance_id, below.component), '[]')::text
    FROM below LEFT JOIN instances target ON target.id = below.target_id
$$;

-- Keep the configuration of an instance as its newest generation, unless it is that already. Fifty stay.
CREATE FUNCTION launchbay_keep_generation(of_instance text, of_job text, by_owner text, plan json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest generations;
    inside text := launchbay_submodules(of_instance);
BEGIN
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

-- The first reconfiguration of an older instance keeps what it had: the configuration is still the former one here.
CREATE FUNCTION launchbay_keep_former() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.plan::json ->> 'prior_status' = 'Running'
       AND NOT EXISTS (SELECT FROM generations WHERE instance_id = NEW.instance_id) THEN
        PERFORM launchbay_keep_generation(NEW.instance_id, NULL, NULL, '{}');
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_keep_former AFTER INSERT ON jobs FOR EACH ROW
    WHEN (NEW.name = 'reconfigure' AND NEW.parent_job_id IS NULL) EXECUTE FUNCTION launchbay_keep_former();

CREATE FUNCTION launchbay_note_configured() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    plan json := NEW.plan::json;
BEGIN
    IF plan ->> 'kind' NOT IN ('launch', 'reconfigure') THEN
        RETURN NULL;
    END IF;
    IF NEW.status = 'Succeeded' THEN
        PERFORM launchbay_keep_generation(NEW.instance_id, NEW.id, NEW.owner_id, plan);
    ELSIF plan ->> 'kind' = 'reconfigure' AND plan #>> '{origin,cause,kind}' IS DISTINCT FROM 'rollback' THEN
        INSERT INTO rollbacks_due (job_id, instance_id, owner_id)
        SELECT NEW.id, instances.id, NEW.owner_id
        FROM instances JOIN applications ON applications.id = instances.application_id
        WHERE instances.id = NEW.instance_id AND instances.parent_id IS NULL AND applications.on_failure = 'rollback';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_configured AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'Executing' AND NEW.status <> 'Executing' AND NEW.name IN ('launch', 'reconfigure') AND NEW.parent_job_id IS NULL)
    EXECUTE FUNCTION launchbay_note_configured();
