-- How many instances an organization has that aren't destroyed, which launches ask for once a second.
-- Each change is a row of its own: a sum that all launches change would let them wait for one another. `fold_instance_counts` adds up.
CREATE TABLE instance_counts (
    organization_id text PRIMARY KEY,
    live            bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE instance_count_changes (
    organization_id text    NOT NULL,
    added           integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Whoever writes instances, also a server of an earlier version.
CREATE FUNCTION launchbay_count_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.destroyed_at IS NULL THEN
        INSERT INTO instance_count_changes VALUES (OLD.organization_id, -1);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.destroyed_at IS NULL THEN
        INSERT INTO instance_count_changes VALUES (NEW.organization_id, 1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER instances_count_new AFTER INSERT ON instances FOR EACH ROW EXECUTE FUNCTION launchbay_count_instance();
CREATE TRIGGER instances_count_changed AFTER UPDATE ON instances FOR EACH ROW
    WHEN ((OLD.destroyed_at IS NULL) <> (NEW.destroyed_at IS NULL)) EXECUTE FUNCTION launchbay_count_instance();
CREATE TRIGGER instances_count_deleted AFTER DELETE ON instances FOR EACH ROW
    WHEN (OLD.destroyed_at IS NULL) EXECUTE FUNCTION launchbay_count_instance();

-- The instances that there are. The triggers' locks keep others from being launched meanwhile.
INSERT INTO instance_counts SELECT organization_id, count(*) FROM instances WHERE destroyed_at IS NULL GROUP BY organization_id;

-- How much an organization uses, where it is counted no further than `most`; null counts all.
CREATE OR REPLACE FUNCTION launchbay_usage(of_organization text, quota text, most bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    CASE quota
    WHEN 'applications' THEN
        RETURN (SELECT count(*) FROM (SELECT FROM applications WHERE organization_id = of_organization LIMIT most) AS found);
    WHEN 'instances' THEN
        RETURN coalesce((SELECT live FROM instance_counts WHERE organization_id = of_organization), 0)
               + coalesce((SELECT sum(added) FROM instance_count_changes WHERE organization_id = of_organization), 0);
    WHEN 'jobs' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM jobs
            WHERE organization_id = of_organization AND status = 'Executing' AND parent_job_id IS NULL LIMIT most) AS found);
    WHEN 'queuedJobs' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM ready
            WHERE organization_id = of_organization AND (due_at IS NULL OR due_at <= now()) LIMIT most) AS found);
    WHEN 'waitingJobs' THEN
        RETURN (SELECT count(*) FROM (SELECT FROM parked WHERE organization_id = of_organization LIMIT most) AS found);
    WHEN 'schedules' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM schedules WHERE organization_id = of_organization AND kind = 'workflow' LIMIT most) AS found);
    WHEN 'webhooks' THEN
        RETURN (SELECT count(*) FROM (SELECT FROM webhooks WHERE organization_id = of_organization LIMIT most) AS found);
    WHEN 'accessTokens' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM access_tokens WHERE organization_id = of_organization AND expires_at > now() LIMIT most) AS found);
    WHEN 'manifestBytes' THEN
        RETURN (SELECT coalesce(sum(octet_length(manifests.content)), 0)
                FROM applications JOIN manifests ON manifests.application_id = applications.id
                WHERE applications.organization_id = of_organization);
    WHEN 'logBytes' THEN
        RETURN coalesce((SELECT log_bytes FROM organization_bytes WHERE organization_id = of_organization), 0);
    WHEN 'journalBytes' THEN
        RETURN coalesce((SELECT journal_bytes FROM organization_bytes WHERE organization_id = of_organization), 0);
    END CASE;
END
$$;
