-- How a job ended: its status, except that one that somebody cancelled hasn't failed (`is_cancellation` in `model/job.py`).
CREATE FUNCTION launchbay_outcome(of_job text, of_status text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN of_status = 'Failed'
                     AND EXISTS (SELECT FROM jobs WHERE id = of_job AND starts_with(error_message, 'Cancelled by '))
           THEN 'Cancelled' ELSE of_status END
$$;

-- The instances of which not all components run well, though their last job may have succeeded: some aren't launched, or a submodule,
-- or one inside it, has failed or is degraded. One that runs is degraded then (`model/instance.py`). This is for statements about all
-- instances of an organization; `launchbay_is_incomplete` says the same of one.
CREATE OR REPLACE FUNCTION launchbay_incomplete(of_organization text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE incomplete (id) AS (
        SELECT instance_id FROM fleet WHERE organization_id = of_organization AND status = 'Running' AND lacks_components
        UNION
        SELECT child.parent_id FROM fleet AS ill JOIN instances AS child ON child.id = ill.instance_id
        WHERE ill.organization_id = of_organization AND ill.status = 'Failed' AND child.parent_id IS NOT NULL
        UNION
        SELECT child.parent_id FROM fleet AS ill JOIN instances AS child ON child.id = ill.instance_id
        WHERE ill.organization_id = of_organization AND ill.status = 'Running' AND ill.job_status = 'Failed' AND child.parent_id IS NOT NULL
          AND launchbay_outcome(ill.job_id, ill.job_status) = 'Failed'
        UNION
        SELECT child.parent_id FROM incomplete JOIN instances AS child ON child.id = incomplete.id
        WHERE child.parent_id IS NOT NULL AND child.status <> 'Destroyed'
    )
    SELECT id FROM incomplete
$$;

CREATE FUNCTION launchbay_is_incomplete(of_instance text) RETURNS boolean LANGUAGE sql STABLE AS $$
    WITH RECURSIVE inside (id, is_own) AS (
        SELECT of_instance, true
        UNION
        SELECT child.id, false FROM inside JOIN instances AS child ON child.parent_id = inside.id WHERE child.status <> 'Destroyed'
    )
    SELECT EXISTS (
        SELECT FROM inside JOIN instances ON instances.id = inside.id
            JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
        WHERE fleet.status = 'Running' AND fleet.lacks_components
           OR NOT inside.is_own AND (fleet.status = 'Failed'
               OR fleet.status = 'Running' AND launchbay_outcome(fleet.job_id, fleet.job_status) = 'Failed')
    )
$$;

-- The newest job of an instance: the one under way, or that with the highest number. The time of a job is when its transaction began,
-- which may be before that of an earlier job. So only the order of the last ones is looked at.
CREATE FUNCTION launchbay_newest_job(of_instance text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT job_id FROM instances WHERE id = of_instance),
        (SELECT id FROM (
            SELECT id, number, created_at FROM jobs WHERE instance_id = of_instance ORDER BY created_at DESC LIMIT 10
        ) AS last ORDER BY number DESC NULLS LAST, created_at DESC, id DESC LIMIT 1))
$$;
