-- Bounds for waiting jobs and for access tokens.

CREATE INDEX parked_organization ON parked (organization_id);

-- How much an organization uses, counted no further than `most`; null counts all.
CREATE OR REPLACE FUNCTION launchbay_usage(of_organization text, quota text, most bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
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
