-- Bounds of organizations: what the operator allows one of them, and what they use.

CREATE TABLE organization_quotas (
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    quota           text NOT NULL,
    -- 0 allows any amount.
    allowed         bigint NOT NULL CHECK (allowed >= 0),
    PRIMARY KEY (organization_id, quota)
);

-- Bytes of logs and journals. Workers add what they write; a look at the rows corrects it, because deletions don't.
CREATE TABLE organization_bytes (
    organization_id text PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
    log_bytes       bigint NOT NULL DEFAULT 0,
    journal_bytes   bigint NOT NULL DEFAULT 0,
    -- When the rows were looked at last, and how long that took.
    measured_at     timestamptz NOT NULL DEFAULT '-infinity',
    took_s          float8 NOT NULL DEFAULT 0
);

-- Null in jobs of older servers, which are not counted.
ALTER TABLE jobs ADD COLUMN organization_id text;
UPDATE jobs SET organization_id = instances.organization_id
FROM instances WHERE instances.id = jobs.instance_id AND jobs.status = 'Executing';
CREATE INDEX jobs_under_way ON jobs (organization_id) WHERE status = 'Executing' AND parent_job_id IS NULL;

ALTER TABLE schedules ADD COLUMN organization_id text;
UPDATE schedules SET organization_id = instances.organization_id
FROM instances WHERE instances.id = schedules.instance_id AND schedules.kind = 'workflow';
CREATE INDEX schedules_of_organization ON schedules (organization_id) WHERE kind = 'workflow';

-- `destroyed_at` is in the condition of an index already: another column would make each of its updates write all indexes.
CREATE INDEX instances_alive ON instances (organization_id) WHERE destroyed_at IS NULL;

-- How much an organization uses, counted no further than `most`; null counts all.
CREATE FUNCTION launchbay_usage(of_organization text, quota text, most bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    CASE quota
    WHEN 'applications' THEN
        RETURN (SELECT count(*) FROM (SELECT FROM applications WHERE organization_id = of_organization LIMIT most) AS found);
    WHEN 'instances' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM instances WHERE organization_id = of_organization AND destroyed_at IS NULL LIMIT most) AS found);
    WHEN 'jobs' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM jobs
            WHERE organization_id = of_organization AND status = 'Executing' AND parent_job_id IS NULL LIMIT most) AS found);
    WHEN 'queuedJobs' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM ready
            WHERE organization_id = of_organization AND (due_at IS NULL OR due_at <= now()) LIMIT most) AS found);
    WHEN 'schedules' THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM schedules WHERE organization_id = of_organization AND kind = 'workflow' LIMIT most) AS found);
    WHEN 'webhooks' THEN
        RETURN (SELECT count(*) FROM (SELECT FROM webhooks WHERE organization_id = of_organization LIMIT most) AS found);
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
