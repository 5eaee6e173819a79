-- Nearly all reads of an instance with work under way find nothing that it waits for. Six looks at indexes say so, and the rest,
-- whose parts PostgreSQL prepares each time, runs only where one of them finds something.
CREATE OR REPLACE FUNCTION launchbay_waits(of_instance text, of_job text, of_organization text) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM jobs WHERE id = of_job AND (is_limited OR started_at IS NULL AND created_at < now() - interval '1 second')
        UNION ALL SELECT FROM approvals WHERE job_id = of_job AND status = 'pending'
        UNION ALL SELECT FROM jobs WHERE parent_job_id = of_job AND status = 'Executing'
        UNION ALL SELECT FROM instance_links WHERE instance_id = of_instance AND kind <> 'own'
        UNION ALL SELECT FROM step_waits WHERE job_id = of_job
        UNION ALL SELECT FROM schedules WHERE instance_id = of_instance AND blocked
    ) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT json_build_object(
            'job', job.name,
            'owner', (SELECT name FROM users WHERE users.id = job.owner_id),
            'queued', CASE WHEN job.started_at IS NULL AND job.created_at < now() - interval '1 second' AND NOT (job.is_limited AND EXISTS (
                SELECT FROM concurrency_places WHERE job_id = job.id AND NOT is_held)) THEN json_build_array(
                (SELECT count(*) FROM (SELECT FROM ready WHERE organization_id = of_organization LIMIT 1000) AS waiting),
                (SELECT count(*) FROM workers WHERE beat_at > now() - interval '10 seconds')
            ) END,
            'approvals', (
                SELECT json_agg(json_build_array(text, permission, role, needed, json_array_length(answers::json)) ORDER BY id)
                FROM approvals_shown WHERE job_id = of_job AND status = 'pending'
            ),
            'inner', (
                SELECT json_agg(json_build_array(inner_job.name, link.component, inner_job.instance_id) ORDER BY inner_job.created_at)
                FROM jobs AS inner_job
                LEFT JOIN instance_links AS link ON link.instance_id = of_instance AND link.target_id = inner_job.instance_id
                WHERE inner_job.parent_job_id = of_job AND inner_job.status = 'Executing'
            ),
            'launching', (
                SELECT json_agg(json_build_array(link.component, link.target_id) ORDER BY link.component)
                FROM instance_links AS link JOIN instances AS target ON target.id = link.target_id
                WHERE link.instance_id = of_instance AND link.kind <> 'own' AND job.name = 'launch'
                  AND EXISTS (SELECT FROM jobs AS its WHERE its.id = target.job_id AND its.name = 'launch')
                  AND NOT EXISTS (SELECT FROM steps WHERE steps.job_id = job.id AND steps.status = 'Executing')
            ),
            'steps', (
                SELECT json_agg(wait::json ->> 'text' ORDER BY path)
                FROM (SELECT path, wait FROM step_waits WHERE job_id = job.id AND fence = job.fence ORDER BY path LIMIT 10) AS told
            ),
            'places', CASE WHEN job.is_limited THEN (
                SELECT json_agg(json_build_array(mine.title, mine.most, (
                    SELECT count(*) FROM concurrency_places AS other
                    WHERE other.organization_id = mine.organization_id AND other.bucket = mine.bucket AND other.is_held
                ), (
                    SELECT count(*) FROM concurrency_places AS other
                    WHERE other.organization_id = mine.organization_id AND other.bucket = mine.bucket AND NOT other.is_held
                      AND other.number < mine.number
                )) ORDER BY mine.bucket)
                FROM concurrency_places AS mine WHERE mine.job_id = job.id AND NOT mine.is_held
            ) END,
            'due', (
                SELECT json_agg(json_build_array(kind, workflow, component, extract(epoch FROM due_at)::float8) ORDER BY due_at, id)
                FROM (SELECT * FROM schedules WHERE instance_id = of_instance AND blocked ORDER BY due_at, id LIMIT 3) AS due
            )
        )
        FROM (VALUES (of_job)) AS under_way (id) LEFT JOIN jobs AS job ON job.id = under_way.id
    );
END $$;
