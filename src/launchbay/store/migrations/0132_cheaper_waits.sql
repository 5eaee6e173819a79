-- The read of an instance asks both functions each time. A loop over parents costs a quarter of a recursive query, and
-- most instances have no parent.
CREATE OR REPLACE FUNCTION launchbay_outermost(of_instance text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    outermost text := of_instance;
    above text;
BEGIN
    LOOP
        SELECT parent_id INTO above FROM instances WHERE id = outermost;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        EXIT WHEN above IS NULL;
        outermost := above;
    END LOOP;
    RETURN outermost;
END $$;

-- As before. Whoever has no job waits for nothing that a job waits for, which was five of nine reads.
CREATE OR REPLACE FUNCTION launchbay_awaited(of_instance text, of_job text, of_organization text, grace_s float8) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
    outermost text := launchbay_outermost(of_instance);
BEGIN
    IF NOT EXISTS (
        SELECT FROM instance_links WHERE instance_id = of_instance AND kind <> 'own'
        UNION ALL SELECT FROM schedules WHERE instance_id = of_instance AND blocked
        UNION ALL SELECT FROM instance_sleeps WHERE instance_id = of_instance AND (is_asleep OR fires_at > due_at)
        UNION ALL SELECT FROM schedules WHERE instance_id = outermost AND kind = 'workflow' AND workflow = 'destroy'
    ) THEN
        IF of_job IS NULL THEN
            RETURN NULL;
        END IF;
        IF NOT EXISTS (
            SELECT FROM jobs WHERE id = of_job AND (is_limited OR started_at IS NULL AND created_at <= now() - grace_s * interval '1 second')
            UNION ALL SELECT FROM approvals WHERE job_id = of_job AND status = 'pending'
            UNION ALL SELECT FROM jobs WHERE parent_job_id = of_job AND status = 'Executing'
            UNION ALL SELECT FROM step_waits WHERE job_id = of_job
            UNION ALL SELECT FROM steps WHERE job_id = of_job AND status = 'Executing' AND ends_at > now()
        ) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN (
        SELECT json_build_object(
            'job', job.name,
            'owner', (SELECT name FROM users WHERE users.id = job.owner_id),
            'since', floor(extract(epoch FROM job.created_at) * 1000)::bigint,
            'workers', (SELECT count(*) FROM workers WHERE beat_at > now() - interval '10 seconds'),
            'queue', (
                SELECT json_build_array(count(*) FILTER (WHERE ready.number <= own.number), count(*))
                FROM ready JOIN ready AS own ON own.organization_id = ready.organization_id
                WHERE own.organization_id = of_organization AND own.job_id = job.id AND (own.due_at IS NULL OR own.due_at <= now())
                  AND (ready.due_at IS NULL OR ready.due_at <= now())
            ),
            'approvals', (
                SELECT json_agg(json_build_array(text, permission, role, needed, json_array_length(answers::json),
                    floor(extract(epoch FROM created_at) * 1000)::bigint, floor(extract(epoch FROM expires_at) * 1000)::bigint) ORDER BY id)
                FROM (SELECT * FROM approvals_shown WHERE job_id = job.id AND status = 'pending' ORDER BY id LIMIT 20) AS asking
            ),
            'jobs', (
                SELECT json_agg(json_build_array(inner_job.id, inner_job.number, inner_job.name, inner_job.instance_id, target.name,
                    floor(extract(epoch FROM inner_job.created_at) * 1000)::bigint) ORDER BY inner_job.created_at)
                FROM (SELECT * FROM jobs WHERE parent_job_id = of_job AND status = 'Executing' ORDER BY created_at LIMIT 20) AS inner_job
                JOIN instances AS target ON target.id = inner_job.instance_id
            ),
            'steps', (
                SELECT json_agg(json_build_array(name, path, floor(extract(epoch FROM started_at) * 1000)::bigint,
                    floor(extract(epoch FROM ends_at) * 1000)::bigint) ORDER BY path)
                FROM (
                    SELECT * FROM steps WHERE job_id = job.id AND status = 'Executing' AND ends_at > now() ORDER BY path LIMIT 20
                ) AS resting
            ),
            'told', (
                SELECT json_agg(json_build_array(floor(extract(epoch FROM since) * 1000)::bigint, wait::json) ORDER BY path)
                FROM (SELECT * FROM step_waits WHERE job_id = job.id AND fence = job.fence ORDER BY path LIMIT 20) AS told
            ),
            'places', CASE WHEN job.is_limited THEN (
                SELECT json_agg(json_build_array(mine.title, mine.most, floor(extract(epoch FROM mine.created_at) * 1000)::bigint, (
                    SELECT count(*) FROM concurrency_places AS other
                    WHERE other.organization_id = mine.organization_id AND other.bucket = mine.bucket AND other.is_held
                ), (
                    SELECT count(*) FROM concurrency_places AS other
                    WHERE other.organization_id = mine.organization_id AND other.bucket = mine.bucket AND NOT other.is_held
                      AND other.number < mine.number
                )) ORDER BY mine.bucket)
                FROM concurrency_places AS mine WHERE mine.job_id = job.id AND NOT mine.is_held
            ) END,
            'launching', (
                SELECT json_agg(json_build_array(component, target_id) ORDER BY component)
                FROM (
                    SELECT link.component, link.target_id
                    FROM instance_links AS link JOIN instances AS target ON target.id = link.target_id
                    WHERE link.instance_id = of_instance AND link.kind <> 'own' AND job.name = 'launch'
                      AND EXISTS (SELECT FROM jobs AS its WHERE its.id = target.job_id AND its.name = 'launch')
                      AND NOT EXISTS (SELECT FROM steps WHERE steps.job_id = job.id AND steps.status = 'Executing')
                    ORDER BY link.component LIMIT 20
                ) AS first
            ),
            -- How many there are in all of those that are cut above.
            'approvals_in_all', (SELECT count(*) FROM approvals WHERE job_id = job.id AND status = 'pending'),
            'jobs_in_all', (SELECT count(*) FROM jobs AS inner_job WHERE parent_job_id = of_job AND inner_job.status = 'Executing'),
            'steps_in_all', (SELECT count(*) FROM steps WHERE job_id = job.id AND status = 'Executing' AND ends_at > now()),
            'told_in_all', (SELECT count(*) FROM step_waits WHERE job_id = job.id AND fence = job.fence),
            'due', (
                SELECT json_agg(json_build_array(kind, workflow, component, floor(extract(epoch FROM due_at) * 1000)::bigint) ORDER BY due_at, id)
                FROM (SELECT * FROM schedules WHERE instance_id = of_instance AND blocked ORDER BY due_at, id LIMIT 3) AS due
            ),
            'sleeping', (
                SELECT json_build_array(floor(extract(epoch FROM since) * 1000)::bigint, floor(extract(epoch FROM due_at) * 1000)::bigint)
                FROM instance_sleeps WHERE instance_id = of_instance AND is_asleep AND since IS NOT NULL
            ),
            'due_to_sleep', (
                SELECT floor(extract(epoch FROM due_at) * 1000)::bigint
                FROM instance_sleeps WHERE instance_id = of_instance AND NOT is_asleep AND fires_at > due_at
            ),
            'destroying', (
                SELECT json_build_array(floor(extract(epoch FROM created_at) * 1000)::bigint, floor(extract(epoch FROM due_at) * 1000)::bigint,
                    launchbay_is_idle_destroy(outermost, created_at))
                FROM schedules WHERE instance_id = outermost AND undo_workflow IS NOT NULL AND NOT blocked ORDER BY due_at LIMIT 1
            ),
            'scheduled', (
                SELECT json_build_array(floor(extract(epoch FROM created_at) * 1000)::bigint, floor(extract(epoch FROM due_at) * 1000)::bigint)
                FROM schedules
                WHERE instance_id = outermost AND kind = 'workflow' AND workflow = 'destroy' AND undo_workflow IS NULL AND NOT blocked
                ORDER BY due_at LIMIT 1
            ),
            'is_submodule', outermost <> of_instance,
            'destroy_at', (SELECT floor(extract(epoch FROM destroy_at) * 1000)::bigint FROM instances WHERE id = outermost)
        )
        FROM (VALUES (of_job)) AS under_way (id) LEFT JOIN jobs AS job ON job.id = under_way.id
    );
END $$;
