-- When an instance ends as far as that is known: by its lifetime, or by a destroy that somebody has asked for or scheduled. What is due after
-- that doesn't happen. Null: nobody knows. One that is destroyed ended with its last job.
CREATE FUNCTION launchbay_ends_at(of_instance text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN instances.status = 'Destroyed'
        THEN coalesce((SELECT max(finished_at) FROM jobs WHERE jobs.instance_id = of_instance), instances.created_at)
        ELSE least(instances.destroy_at, (
            SELECT min(due_at) FROM schedules
            WHERE schedules.instance_id = of_instance AND kind = 'workflow' AND workflow = 'destroy'
        )) END
    FROM instances WHERE id = of_instance
$$;

-- Whether the rule for idle instances has asked for a destroy that can be taken back.
CREATE FUNCTION launchbay_is_idle_destroy(of_instance text, asked_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM idle_ends WHERE idle_ends.instance_id = of_instance AND idle_ends.ended_at = asked_at)
$$;

-- When lists say that an instance expires, by the end of its lifetime and by a destroy that can be taken back.
CREATE FUNCTION launchbay_listed_end(of_instance text, destroy_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least(coalesce(launchbay_listed_end.destroy_at, 'infinity'), (
        SELECT min(due_at) FROM schedules WHERE schedules.instance_id = of_instance AND undo_workflow IS NOT NULL
    ))
$$;
UPDATE fleet SET destroy_at = schedules.due_at FROM schedules
WHERE schedules.instance_id = fleet.instance_id AND schedules.undo_workflow IS NOT NULL AND fleet.destroy_at > schedules.due_at;

CREATE OR REPLACE FUNCTION launchbay_list_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended_id text;
    ended_name text;
    ended_status text;
    ended_at timestamptz;
BEGIN
    IF OLD.job_id IS NOT NULL AND NEW.job_id IS DISTINCT FROM OLD.job_id THEN
        SELECT id, name, status, finished_at INTO ended_id, ended_name, ended_status, ended_at FROM jobs WHERE jobs.id = OLD.job_id;
    END IF;
    UPDATE fleet
    SET version = NEW.version, name = NEW.name, status = CASE NEW.status WHEN 'Requested' THEN 'Executing' ELSE NEW.status END,
        is_requested = NEW.status = 'Requested', labels = NEW.labels,
        destroy_at = launchbay_listed_end(NEW.id, NEW.destroy_at), job_id = coalesce(ended_id, job_id), job_name = coalesce(ended_name, job_name),
        job_status = coalesce(ended_status, job_status), job_ended_at = coalesce(ended_at, job_ended_at),
        lacks_components = coalesce(NEW.running_count < NEW.component_count, false)
    WHERE organization_id = NEW.organization_id AND instance_id = NEW.id;
    IF NEW.labels IS DISTINCT FROM OLD.labels THEN
        DELETE FROM fleet_labels WHERE instance_id = NEW.id;
        INSERT INTO fleet_labels (organization_id, name, value, instance_id)
        SELECT NEW.organization_id, label.key, label.value, NEW.id FROM jsonb_each_text(NEW.labels) AS label;
    END IF;
    RETURN NULL;
END
$$;

-- As before, and what an instance waits for includes the destroy that can be taken back.
CREATE OR REPLACE FUNCTION launchbay_awaited(of_instance text, of_job text, of_organization text, grace_s float8) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM jobs WHERE id = of_job AND (is_limited OR started_at IS NULL AND created_at <= now() - grace_s * interval '1 second')
        UNION ALL SELECT FROM approvals WHERE job_id = of_job AND status = 'pending'
        UNION ALL SELECT FROM jobs WHERE parent_job_id = of_job AND status = 'Executing'
        UNION ALL SELECT FROM instance_links WHERE instance_id = of_instance AND kind <> 'own'
        UNION ALL SELECT FROM step_waits WHERE job_id = of_job
        UNION ALL SELECT FROM steps WHERE job_id = of_job AND status = 'Executing' AND ends_at > now()
        UNION ALL SELECT FROM schedules WHERE instance_id = of_instance AND blocked
        UNION ALL SELECT FROM instance_sleeps WHERE instance_id = of_instance AND is_asleep
        UNION ALL SELECT FROM schedules WHERE instance_id = of_instance AND undo_workflow IS NOT NULL
    ) THEN
        RETURN NULL;
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
            'destroying', (
                SELECT json_build_array(floor(extract(epoch FROM created_at) * 1000)::bigint, floor(extract(epoch FROM due_at) * 1000)::bigint,
                    launchbay_is_idle_destroy(of_instance, created_at))
                FROM schedules WHERE instance_id = of_instance AND undo_workflow IS NOT NULL AND NOT blocked ORDER BY due_at LIMIT 1
            ),
            'destroy_at', (SELECT floor(extract(epoch FROM destroy_at) * 1000)::bigint FROM instances WHERE id = of_instance)
        )
        FROM (VALUES (of_job)) AS under_way (id) LEFT JOIN jobs AS job ON job.id = under_way.id
    );
END $$;
