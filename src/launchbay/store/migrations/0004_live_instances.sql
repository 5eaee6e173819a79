-- Instances inside of instances, and what happens to them by itself.

ALTER TABLE instances
    -- The instance that launched this one as its submodule; null for what a caller launched.
    ADD COLUMN parent_id text REFERENCES instances ON DELETE CASCADE,
    -- What the parent gives to the needs of this instance's application: `interface.pin` → peer → value.
    ADD COLUMN fed_signals text NOT NULL DEFAULT '{}',
    -- What a reconfiguration under way comes from: version, parameters and links; null otherwise.
    ADD COLUMN before text;
CREATE INDEX instances_parent ON instances (parent_id) WHERE parent_id IS NOT NULL;

-- The instance behind each component that stands for one. A target may be gone; who uses the link says so then.
CREATE TABLE instance_links (
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    component   text NOT NULL,
    target_id   text NOT NULL,
    -- 'own' is launched and destroyed with the instance; 'shared' and 'service' live on their own.
    kind        text NOT NULL CHECK (kind IN ('own', 'shared', 'service')),
    PRIMARY KEY (instance_id, component)
);
CREATE INDEX instance_links_target ON instance_links (target_id);

-- A job that another job runs in its own course; when that one ends without it, this one is given up.
ALTER TABLE jobs ADD COLUMN parent_job_id text, ADD COLUMN results text;
CREATE INDEX jobs_inner ON jobs (parent_job_id) WHERE parent_job_id IS NOT NULL AND status = 'Executing';

-- 'cron' comes again by the manifest's own schedule; 'trigger' waits for its turn behind the running job; 'signals' looks
-- again at the signals of linked instances.
ALTER TABLE schedules DROP CONSTRAINT schedules_kind_check;
ALTER TABLE schedules
    ADD CONSTRAINT schedules_kind_check CHECK (kind IN ('workflow', 'expiry', 'cron', 'trigger', 'signals')),
    ADD COLUMN component text NOT NULL DEFAULT '';
-- The same trigger, cron entry or look is pending at most once.
CREATE UNIQUE INDEX schedules_pending_once ON schedules (instance_id, kind, component, workflow)
    WHERE kind IN ('cron', 'trigger', 'signals');

-- An id of the same form as those that the servers make, for rows that a statement makes by itself.
CREATE FUNCTION launchbay_new_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT lpad(to_hex(extract(epoch FROM clock_timestamp())::bigint & 4294967295), 8, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 16)
$$;

-- What follows from a change of an instance's signals: workflows that run by themselves, a look of the instances that stand
-- on it (except for the one whose job has just run this one), and what its submodules get from their peers in it.
CREATE FUNCTION launchbay_follow_up(
    of_instance text, of_owner text, outer_job text, signals_changed boolean,
    next_kinds text[], next_components text[], next_workflows text[], next_times timestamptz[],
    fed_ids text[], fed_values text[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF cardinality(next_kinds) > 0 THEN
        INSERT INTO schedules (id, instance_id, kind, workflow, component, owner_id, due_at)
        SELECT launchbay_new_id(), of_instance, next.kind, next.workflow, next.component, of_owner,
               coalesce(next.due_at, now())
        FROM unnest(next_kinds, next_components, next_workflows, next_times) AS next (kind, component, workflow, due_at)
        ON CONFLICT DO NOTHING;
    END IF;
    IF signals_changed THEN
        INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
        SELECT DISTINCT ON (consumer.id) launchbay_new_id(), consumer.id, 'signals', '', consumer.owner_id, now()
        FROM instance_links JOIN instances consumer ON consumer.id = instance_links.instance_id
        WHERE instance_links.target_id = of_instance AND consumer.status NOT IN ('Destroying', 'Destroyed')
          AND (outer_job IS NULL OR consumer.job_id IS DISTINCT FROM outer_job)
        ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(fed_ids) > 0 THEN
        WITH fed AS (
            UPDATE instances SET fed_signals = given.signals
            FROM unnest(fed_ids, fed_values) AS given (id, signals)
            WHERE instances.id = given.id AND instances.fed_signals <> given.signals
              AND instances.status NOT IN ('Destroying', 'Destroyed')
            RETURNING instances.id, instances.owner_id
        )
        INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
        SELECT launchbay_new_id(), fed.id, 'signals', '', fed.owner_id, now() FROM fed
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;
