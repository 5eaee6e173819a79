-- How instances differ from what they are described as. `findings`, `known`, `unchecked` and `checks` are JSON without secrets. `known` is
-- what a plan showed right after the last change; null: nobody has looked yet. A process takes a row that waits by a lease.
CREATE TABLE drift_reports (
    instance_id     text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    findings        text NOT NULL DEFAULT '[]',
    -- Findings that nobody ignored, and until when each of the others is.
    new_findings    integer NOT NULL DEFAULT 0,
    ignored_until   timestamptz[] NOT NULL DEFAULT '{}',
    known           text,
    known_since     timestamptz,
    unchecked       text NOT NULL DEFAULT '[]',
    checks          text NOT NULL DEFAULT '[]',
    checked_at      timestamptz,
    problem         text,
    problem_at      timestamptz,
    waiting_since   timestamptz,
    is_asked        boolean NOT NULL DEFAULT false, -- by a person, who doesn't wait for what schedules ask
    -- Why the next check notes what is known: 'asked', or the workflow that changed the instance.
    learns          text CHECK (learns IN ('asked', 'launch', 'reconfigure')),
    -- Paths of the steps that reconfigurations have run since the last check: of these, it notes what is known.
    ran             text[] NOT NULL DEFAULT '{}',
    -- The finding whose value somebody wants as a parameter, and who that is, as JSON.
    take_over       text,
    attempts        integer NOT NULL DEFAULT 0,
    lease_until     timestamptz,
    fence           integer NOT NULL DEFAULT 0
);
CREATE INDEX drift_reports_waiting ON drift_reports (waiting_since) WHERE waiting_since IS NOT NULL;
CREATE INDEX drift_reports_organization ON drift_reports (organization_id, instance_id);

-- For the lists of the kernel.
CREATE VIEW drifted_instances AS
    SELECT drift_reports.organization_id, drift_reports.instance_id
    FROM drift_reports JOIN instances ON instances.id = drift_reports.instance_id
    WHERE (new_findings > 0 OR now() >= ANY (ignored_until)) AND instances.status <> 'Destroyed';

-- When instances are checked by themselves: all of an application or environment, or one.
CREATE TABLE drift_schedules (
    object_id       text PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('application', 'environment', 'instance')),
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text REFERENCES applications ON DELETE CASCADE,
    environment_id  text REFERENCES environments ON DELETE CASCADE,
    instance_id     text REFERENCES instances ON DELETE CASCADE,
    cron            text NOT NULL,
    zone            text NOT NULL,
    jitter_ms       bigint NOT NULL,
    due_at          timestamptz,
    fires_at        timestamptz
);
CREATE INDEX drift_schedules_due ON drift_schedules (fires_at);
CREATE INDEX drift_schedules_organization ON drift_schedules (organization_id);
CREATE INDEX drift_schedules_application ON drift_schedules (application_id);
CREATE INDEX drift_schedules_environment ON drift_schedules (environment_id);
CREATE INDEX drift_schedules_instance ON drift_schedules (instance_id);

-- A job makes what was planned meanwhile worthless. One that changed the instance has it looked at again.
CREATE FUNCTION launchbay_note_drift() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The first launch of what a schedule checks: what it shows then is known.
    IF NEW.status = 'Succeeded' AND NEW.name = 'launch' THEN
        INSERT INTO drift_reports (instance_id, organization_id)
        SELECT id, organization_id FROM instances
        WHERE id = NEW.instance_id AND EXISTS (SELECT FROM drift_schedules WHERE object_id IN (id, instances.application_id, instances.environment_id))
        ON CONFLICT DO NOTHING;
    END IF;
    UPDATE drift_reports
    SET fence = fence + 1, lease_until = NULL, attempts = 0,
        waiting_since = CASE WHEN NEW.status = 'Succeeded' AND NEW.name IN ('launch', 'reconfigure') THEN coalesce(waiting_since, now())
                             ELSE waiting_since END,
        learns = CASE WHEN NEW.status <> 'Succeeded' THEN learns WHEN NEW.name = 'launch' THEN 'launch'
                      WHEN NEW.name = 'reconfigure' THEN coalesce(learns, 'reconfigure') ELSE learns END,
        -- Without what a job that resumes another took over: somebody may have changed that between the two.
        ran = CASE WHEN NEW.status = 'Succeeded' AND NEW.name = 'reconfigure' THEN ran || ARRAY(
            SELECT path FROM steps WHERE job_id = NEW.id AND status = 'Succeeded' AND attempt > 0 AND NOT EXISTS (
                SELECT FROM json_array_elements_text(NEW.plan::json -> 'resumes') AS resumed
                JOIN steps AS earlier ON earlier.job_id = resumed
                WHERE earlier.path = steps.path AND earlier.started_at = steps.started_at)) ELSE ran END
    WHERE instance_id = NEW.instance_id;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_note_drift AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'Executing' AND NEW.status <> 'Executing') EXECUTE FUNCTION launchbay_note_drift();

-- Of what is destroyed, nothing differs any more, and nothing checks it.
CREATE FUNCTION launchbay_end_drift() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM drift_reports WHERE instance_id = NEW.id;
    DELETE FROM drift_schedules WHERE instance_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER instances_end_drift AFTER UPDATE OF status ON instances FOR EACH ROW
    WHEN (NEW.status = 'Destroyed' AND OLD.status <> 'Destroyed') EXECUTE FUNCTION launchbay_end_drift();

-- A finding newly counts, also if another is gone meanwhile.
CREATE FUNCTION launchbay_post_drift() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM launchbay_post(instances, 'drift', json_build_object('new', NEW.new_findings)) FROM instances
    WHERE id = NEW.instance_id AND EXISTS (
        SELECT each -> 'difference' ->> 'step', each -> 'difference' ->> 'address' FROM json_array_elements(NEW.findings::json) AS each
        WHERE each ->> 'state' = 'new'
        EXCEPT
        SELECT each -> 'difference' ->> 'step', each -> 'difference' ->> 'address' FROM json_array_elements(OLD.findings::json) AS each
        WHERE each ->> 'state' = 'new');
    RETURN NULL;
END $$;
CREATE TRIGGER drift_reports_found AFTER UPDATE OF findings ON drift_reports FOR EACH ROW
    WHEN (NEW.new_findings > 0 AND NEW.findings <> OLD.findings) EXECUTE FUNCTION launchbay_post_drift();
