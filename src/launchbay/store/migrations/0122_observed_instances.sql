-- An instance that was adopted and isn't taken over yet: no job may change what it has. `harmless_job_id` is the job under way that
-- only forgets it, or only fails.
ALTER TABLE instances ADD COLUMN is_observed boolean NOT NULL DEFAULT false, ADD COLUMN harmless_job_id text;

-- Servers of the version before know nothing of this: they find the instance busy.
CREATE FUNCTION launchbay_keep_observed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$;
CREATE TRIGGER instances_keep_observed BEFORE UPDATE OF job_id ON instances FOR EACH ROW
    WHEN (NEW.is_observed AND NEW.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM NEW.harmless_job_id)
    EXECUTE FUNCTION launchbay_keep_observed();

-- What instances have adopted. It stays theirs after they are taken over, until they are destroyed: nothing else adopts it. `identity`
-- is the lineage of a state, or what names a release.
CREATE TABLE adoptions (
    instance_id     text NOT NULL REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    component       text NOT NULL,
    action          text NOT NULL,
    name            text NOT NULL,
    identity        text NOT NULL,
    resources       text NOT NULL, -- addresses, as a JSON array
    adopted_at      timestamptz NOT NULL DEFAULT now(),
    adopted_by      text NOT NULL,
    PRIMARY KEY (instance_id, component, action, name)
);
CREATE UNIQUE INDEX adoptions_identity ON adoptions (organization_id, action, identity);

-- For the lists of the kernel.
CREATE VIEW observed_instances AS
    SELECT DISTINCT adoptions.organization_id, adoptions.instance_id
    FROM adoptions JOIN instances ON instances.id = adoptions.instance_id WHERE instances.is_observed;

CREATE FUNCTION launchbay_end_adoptions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM adoptions WHERE instance_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER instances_end_adoptions AFTER UPDATE OF status ON instances FOR EACH ROW
    WHEN (NEW.status = 'Destroyed' AND OLD.status <> 'Destroyed') EXECUTE FUNCTION launchbay_end_adoptions();
