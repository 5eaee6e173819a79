-- A submodule ends with the instance that it belongs to, at any depth. This is that instance, or the one itself.
CREATE FUNCTION launchbay_outermost(of_instance text) RETURNS text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE upwards AS (
        SELECT id, parent_id FROM instances WHERE id = of_instance
        UNION ALL
        SELECT instances.id, instances.parent_id FROM upwards JOIN instances ON instances.id = upwards.parent_id
    )
    SELECT id FROM upwards WHERE parent_id IS NULL
$$;

-- What ends an instance, as far as that is known: its lifetime, the first destroy that is scheduled, and one that can be taken back.
CREATE FUNCTION launchbay_ends(of_instance text) RETURNS TABLE (lifetime timestamptz, scheduled timestamptz, undoable timestamptz, is_idle boolean)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT destroy_at FROM instances WHERE id = launchbay_outermost(of_instance)),
           min(due_at) FILTER (WHERE undo_workflow IS NULL), min(due_at) FILTER (WHERE undo_workflow IS NOT NULL),
           coalesce(bool_or(undo_workflow IS NOT NULL AND launchbay_is_idle_destroy(instance_id, created_at)), false)
    FROM schedules
    WHERE schedules.instance_id = launchbay_outermost(of_instance) AND kind = 'workflow' AND workflow = 'destroy'
$$;

-- Whether a destroy that can be taken back waits.
CREATE FUNCTION launchbay_is_ending(of_instance text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM schedules WHERE instance_id = launchbay_outermost(of_instance) AND undo_workflow IS NOT NULL)
$$;

CREATE OR REPLACE FUNCTION launchbay_ends_at(of_instance text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN instances.status = 'Destroyed'
        THEN coalesce((SELECT max(finished_at) FROM jobs WHERE jobs.instance_id = of_instance), instances.created_at)
        ELSE (SELECT least(lifetime, scheduled, undoable) FROM launchbay_ends(of_instance)) END
    FROM instances WHERE id = of_instance
$$;

-- When lists say that an instance expires: by the end of its lifetime, or by a destroy that is scheduled or can be taken back.
-- Submodules have no end of their own. The functions are volatile so that an UPDATE of `fleet` that has waited for another one
-- computes the end again, with what that one has committed.
CREATE OR REPLACE FUNCTION launchbay_listed_end(of_instance text, destroy_at timestamptz) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT least(coalesce(launchbay_listed_end.destroy_at, 'infinity'), (
        SELECT min(due_at) FROM schedules WHERE schedules.instance_id = of_instance AND kind = 'workflow' AND workflow = 'destroy'
    ))
$$;
CREATE FUNCTION launchbay_listed_end(of_instance text) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT CASE status WHEN 'Destroyed' THEN 'infinity' ELSE launchbay_listed_end(id, instances.destroy_at) END
    FROM instances WHERE id = of_instance
$$;

-- Whoever schedules, moves, cancels or begins a destroy, servers of the former version too.
CREATE FUNCTION launchbay_list_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fleet SET destroy_at = launchbay_listed_end(instances.id)
    FROM instances
    WHERE instances.id = CASE TG_OP WHEN 'DELETE' THEN OLD.instance_id ELSE NEW.instance_id END
      AND fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER schedules_list_end AFTER INSERT ON schedules FOR EACH ROW
    WHEN (NEW.kind = 'workflow' AND NEW.workflow = 'destroy') EXECUTE FUNCTION launchbay_list_end();
CREATE TRIGGER schedules_list_moved_end AFTER UPDATE OF due_at ON schedules FOR EACH ROW
    WHEN (NEW.kind = 'workflow' AND NEW.workflow = 'destroy') EXECUTE FUNCTION launchbay_list_end();
CREATE TRIGGER schedules_list_former_end AFTER DELETE ON schedules FOR EACH ROW
    WHEN (OLD.kind = 'workflow' AND OLD.workflow = 'destroy') EXECUTE FUNCTION launchbay_list_end();
UPDATE fleet SET destroy_at = launchbay_listed_end(fleet.instance_id)
WHERE EXISTS (SELECT FROM schedules WHERE schedules.instance_id = fleet.instance_id AND kind = 'workflow' AND workflow = 'destroy');

-- As before, and with destroys that are scheduled, and those of the instance that a submodule goes with.
-- `scheduled` is a field of its own: servers of the former version say of `destroying` that it can be taken back.
CREATE OR REPLACE FUNCTION launchbay_awaited(of_instance text, of_job text, of_organization text, grace_s float8) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
    outermost text := launchbay_outermost(of_instance);
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
        UNION ALL SELECT FROM schedules WHERE instance_id = outermost AND kind = 'workflow' AND workflow = 'destroy'
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
