-- name: accept_launch
-- A new instance with its launch job, its expiry and the queued task, in one statement. When it expires is told by the
-- clock that schedules fire by.
WITH instance AS (
    INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status,
                           job_id, parameters, components, environment_view, destroy_at)
    VALUES (%(instance_id)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(revision_id)s, %(version)s,
            %(name)s, %(owner_id)s, %(status)s, %(job_id)s, %(parameters)s, %(components)s, %(environment_view)s,
            now() + %(destroy_after_ms)s::bigint * interval '1 millisecond')
    RETURNING id, job_id, owner_id, destroy_at
), job AS (
    INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps)
    SELECT job_id, id, 'launch', owner_id, %(job_status)s, %(plan)s, %(steps)s FROM instance
    RETURNING id, instance_id
), expiry AS (
    INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
    SELECT %(schedule_id)s, id, 'expiry', 'destroy', owner_id, destroy_at FROM instance WHERE destroy_at IS NOT NULL
)
SELECT launchbay_defer('run_job', instance_id, jsonb_build_object('job_id', id), queue => %(organization_id)s) FROM job;

-- name: accept_work
-- A job on an instance that has none under way and still is in the status that the plan was made for. No row: it lost.
WITH claimed AS (
    UPDATE instances SET job_id = %(job_id)s, status = %(status)s
    WHERE id = %(instance_id)s AND job_id IS NULL AND status = %(prior_status)s
    RETURNING id, organization_id
), job AS (
    INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps)
    SELECT %(job_id)s, id, %(name)s, %(owner_id)s, %(job_status)s, %(plan)s, %(steps)s FROM claimed
    RETURNING id, instance_id
)
SELECT launchbay_defer('run_job', instance_id, jsonb_build_object('job_id', job.id), queue => claimed.organization_id)
FROM job JOIN claimed ON claimed.id = job.instance_id;

-- name: supersede_job
-- Ends the job under way in favour of a forced destroy. The fence keeps its worker from writing anything more, and the
-- interruption stops it soon.
WITH ended AS (
    UPDATE jobs SET status = %(job_status)s, error_message = %(error_message)s, finished_at = now(), fence = fence + 1
    WHERE id = %(job_id)s AND status = 'Executing'
    RETURNING instance_id
), freed AS (
    UPDATE instances SET job_id = NULL, status = %(status)s, error_message = %(error_message)s
    FROM ended WHERE instances.id = ended.instance_id
    RETURNING instances.id
)
SELECT launchbay_interrupt(id) FROM freed;

-- name: claim_job
-- Raises the fence: from now on only this claim may write. No row: the job has ended already, or is for a newer program.
-- Where the instance's status changes too, it is locked first (`end_job` says why).
WITH held AS (
    SELECT instances.id FROM instances JOIN jobs ON jobs.instance_id = instances.id
    WHERE jobs.id = %(job_id)s AND instances.status = %(requested_status)s
    FOR NO KEY UPDATE OF instances
), claimed AS (
    UPDATE jobs SET fence = fence + 1, started_at = coalesce(started_at, now())
    WHERE id = %(job_id)s AND status = 'Executing' AND (SELECT count(*) FROM held) >= 0
      AND launchbay_plan_version(plan) <= %(plan_version)s
      AND (SELECT state_version FROM instances WHERE instances.id = jobs.instance_id) <= %(state_version)s
    RETURNING id, instance_id, fence, plan, steps, parent_job_id,
              extract(epoch FROM started_at - created_at)::float8 AS waited_s
), started AS (
    UPDATE instances SET status = %(started_status)s FROM claimed
    WHERE instances.id = claimed.instance_id AND instances.status = %(requested_status)s
)
SELECT claimed.fence, claimed.plan, claimed.steps, claimed.parent_job_id, instances.id AS instance_id, instances.organization_id, instances.application_id,
       instances.environment_id, instances.version, instances.parameters, instances.environment_view, instances.state,
       instances.return_values, instances.fed_signals, instances.before,
       (SELECT json_object_agg(component, json_build_array(target_id, kind, binding))
        FROM instance_links WHERE instance_links.instance_id = instances.id)::text AS links,
       claimed.waited_s
FROM claimed JOIN instances ON instances.id = claimed.instance_id;

-- name: job_versions
-- In which versions a job under way and the state of its instance are stored.
SELECT launchbay_plan_version(jobs.plan) AS plan, instances.state_version AS state
FROM jobs JOIN instances ON instances.id = jobs.instance_id WHERE jobs.id = %(job_id)s AND jobs.status = 'Executing';

-- name: load_records
-- What earlier claims left of all steps. Only steps with effects have outputs; the others are computed again.
SELECT path, status, percent, attempt, coalesce(started_at, now()) AS started_at, outputs, error_message
FROM steps WHERE job_id = %(job_id)s;

-- name: write_journal
-- Steps and log lines of one flush. No row: another worker holds the job. The share lock makes a raise of the fence wait
-- for this statement's commit, so nothing is written after it.
WITH held AS (
    SELECT id, instance_id FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing' FOR SHARE
)
SELECT id, launchbay_write_journal(id, instance_id,
           %(paths)s, %(names)s, %(statuses)s, %(percents)s, %(are_records)s, %(attempts)s, %(outputs)s, %(errors)s, %(started)s,
           %(finished)s, %(log_steps)s, %(log_levels)s, %(log_texts)s, %(log_times)s)
FROM held;

-- name: end_job
-- The job's end: the last of its journal, its status, the instance's status, state and return values. No row: another
-- worker holds the job.
-- The instance is locked before its job, as every request does it: in turn, the two would wait for each other for ever.
WITH held AS (
    SELECT instances.id FROM instances JOIN jobs ON jobs.instance_id = instances.id WHERE jobs.id = %(job_id)s
    FOR NO KEY UPDATE OF instances
), ended AS (
    UPDATE jobs
    SET status = %(job_status)s, steps = %(steps)s, error_message = %(error_message)s, results = %(results)s,
        finished_at = now()
    FROM held
    WHERE jobs.id = %(job_id)s AND instance_id = held.id AND fence = %(fence)s AND status = 'Executing'
    RETURNING jobs.id, instance_id
), freed AS (
    UPDATE instances
    SET status = %(status)s, job_id = NULL, state = coalesce(%(state)s, state),
        state_version = CASE WHEN %(state)s IS NULL THEN state_version ELSE %(state_version)s END,
        return_values = coalesce(%(return_values)s, return_values),
        -- The success of a workflow that does not propagate its status leaves a failed instance with its reason.
        error_message = CASE WHEN %(keeps_error)s THEN instances.error_message ELSE %(error_message)s END,
        destroy_at = CASE WHEN %(is_gone)s THEN NULL ELSE destroy_at END,
        before = CASE WHEN %(ends_reconfiguration)s THEN NULL ELSE before END
    FROM ended WHERE instances.id = ended.instance_id
    RETURNING instances.id, instances.work_waiting, instances.owner_id
), cleared AS (
    DELETE FROM schedules USING freed WHERE schedules.instance_id = freed.id AND %(is_gone)s
)
SELECT freed.work_waiting, CASE WHEN %(has_journal)s THEN launchbay_write_journal(%(job_id)s, freed.id,
           %(paths)s, %(names)s, %(statuses)s, %(percents)s, %(are_records)s, %(attempts)s, %(outputs)s, %(errors)s, %(started)s,
           %(finished)s, %(log_steps)s, %(log_levels)s, %(log_texts)s, %(log_times)s) END AS written,
       CASE WHEN %(has_follow_up)s THEN launchbay_follow_up(freed.id, freed.owner_id, %(parent_job_id)s, %(signals_changed)s,
           %(next_kinds)s, %(next_components)s, %(next_workflows)s, %(next_times)s, %(fed_ids)s, %(fed_signals)s) END AS followed
FROM freed;

-- name: end_job_and_delete_instance
-- The end of a forced deletion: the instance goes with everything that belongs to it, whatever the job's outcome was.
DELETE FROM instances USING jobs
WHERE jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing' AND instances.id = jobs.instance_id
RETURNING instances.id;

-- name: job_outcome
-- Whether the end of a job was written, for a COMMIT whose answer was lost.
SELECT status, fence FROM jobs WHERE id = %(job_id)s;

-- name: held_jobs
-- Which of these jobs are still held by the claims with these fences.
SELECT array_agg(ARRAY[jobs.id, jobs.fence::text]) FROM jobs JOIN unnest(%(job_ids)s::text[], %(fences)s::integer[]) AS held (id, fence)
    ON jobs.id = held.id AND jobs.fence = held.fence
WHERE jobs.status = 'Executing';
