-- name: accept_launch
-- A new instance with its launch job and its expiry, in one statement. The job is held by a worker, or else ready for any; a
-- limited one is neither, until `take_places`. One that begins with its acceptance needs no claim (decision 0187). The expiry uses the
-- clock of the database, by which schedules fire.
WITH instance AS (
    INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status,
                           job_id, jobs_begun, parameters, parameter_origins, components, environment_view, destroy_at, labels)
    VALUES (%(instance_id)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(revision_id)s, %(version)s,
            %(name)s, %(owner_id)s, %(status)s, %(job_id)s, 1, %(parameters)s, %(parameter_origins)s, %(components)s,
            %(environment_view)s, now() + %(destroy_after_ms)s::bigint * interval '1 millisecond', %(labels)s::jsonb)
    RETURNING id, job_id, owner_id, destroy_at, clock_timestamp() AS now
), job AS (
    INSERT INTO jobs (id, instance_id, organization_id, number, name, owner_id, status, plan, steps, worker_id, fence, is_limited,
                      created_at, started_at)
    SELECT job_id, id, %(organization_id)s, 1, 'launch', owner_id, %(job_status)s, %(plan)s, %(steps)s, %(worker_id)s::bigint,
           CASE WHEN %(worker_id)s::bigint IS NULL THEN 0 ELSE 1 END, %(is_limited)s::boolean,
           now, CASE WHEN %(begins)s::boolean THEN now END
    FROM instance
    RETURNING id
), waiting AS (
    INSERT INTO ready (organization_id, job_id)
    SELECT %(organization_id)s, id FROM job WHERE %(worker_id)s::bigint IS NULL AND NOT %(is_limited)s::boolean
), expiry AS (
    INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
    SELECT %(schedule_id)s, id, 'expiry', 'destroy', owner_id, destroy_at FROM instance WHERE destroy_at IS NOT NULL
)
SELECT id FROM job;

-- name: accept_work
-- A job on an instance that has none under way and still is in the status that the plan was made for. No row: it lost, or has
-- limits by settings that the caller must read first. A person who has their turn holds triggered workflows back no longer: those
-- that waited for it (`postpone_triggers`; all others are due at once) are due when this job ends.
WITH claimed AS (
    UPDATE instances SET job_id = %(job_id)s, jobs_begun = jobs_begun + 1, status = %(status)s,
        harmless_job_id = CASE WHEN %(is_harmless)s::boolean THEN %(job_id)s END,
        person_first_until = CASE WHEN %(is_for_person)s::boolean THEN NULL ELSE person_first_until END
    WHERE id = %(instance_id)s AND job_id IS NULL AND status = %(prior_status)s
      AND (NOT is_observed OR %(is_harmless)s::boolean)
      AND (%(knows_limits)s::boolean OR NOT EXISTS (
          SELECT FROM concurrency_limits
          WHERE concurrency_limits.application_id = instances.application_id OR concurrency_limits.environment_id = instances.environment_id))
    RETURNING id, organization_id, jobs_begun
), released AS (
    UPDATE schedules SET due_at = now()
    FROM claimed JOIN instances AS before ON before.id = claimed.id
    WHERE %(is_for_person)s::boolean AND before.person_first_until IS NOT NULL
      AND schedules.instance_id = claimed.id AND schedules.kind = 'trigger' AND schedules.due_at > now()
), job AS (
    INSERT INTO jobs (id, instance_id, organization_id, number, name, owner_id, status, plan, steps, worker_id, fence, is_limited)
    SELECT %(job_id)s, id, organization_id, jobs_begun, %(name)s, %(owner_id)s, %(job_status)s, %(plan)s, %(steps)s, %(worker_id)s::bigint,
           CASE WHEN %(worker_id)s::bigint IS NULL THEN 0 ELSE 1 END, %(is_limited)s::boolean
    FROM claimed
    RETURNING id
), waiting AS (
    INSERT INTO ready (organization_id, job_id)
    SELECT claimed.organization_id, job.id FROM job, claimed WHERE %(worker_id)s::bigint IS NULL AND NOT %(is_limited)s::boolean
)
SELECT id FROM job;

-- name: is_observed
SELECT is_observed FROM instances WHERE id = %(instance_id)s;

-- name: supersede
-- Ends the job under way in favour of a forced destroy. The fence keeps its worker from writing anything more, and the
-- notification stops it soon; until then it is the job's worker.
WITH ended AS (
    UPDATE jobs SET status = %(job_status)s, error_message = %(error_message)s, finished_at = now(), fence = fence + 1
    WHERE id = %(job_id)s AND status = 'Executing'
    RETURNING id, name, instance_id
), freed AS (
    UPDATE instances SET job_id = NULL, status = %(status)s, error_message = %(error_message)s,
        last_failure = launchbay_failure(ended.id, ended.name, %(error_message)s)
    FROM ended WHERE instances.id = ended.instance_id
    RETURNING instances.id
)
SELECT pg_notify('launchbay_dispatch', %(job_id)s)::text IS NOT NULL FROM freed;

-- name: claim
-- The start of a run. Without a fence, it raises the fence: from now on only this claim may write. With one, the job was
-- claimed before. No row: the job has ended, was claimed again, or is for a newer program. Where the instance's status changes
-- too, it is locked first (`end` says why). The commit doesn't wait for the disk: that of the first journal entry does.
-- With a fence, the first records of earlier claims come along, as `list_records` has them: nobody writes any since it was raised.
-- A statement that raises it may wait for a write, and doesn't see that one.
WITH held AS (
    SELECT instances.id FROM instances JOIN jobs ON jobs.instance_id = instances.id
    WHERE jobs.id = %(job_id)s AND instances.status = %(requested_status)s
    FOR NO KEY UPDATE OF instances
), claimed AS (
    UPDATE jobs SET fence = coalesce(%(fence)s::integer, fence + 1), started_at = coalesce(started_at, now())
    WHERE id = %(job_id)s AND status = 'Executing' AND (SELECT count(*) FROM held) >= 0
      AND (%(fence)s::integer IS NULL OR fence = %(fence)s::integer)
      AND launchbay_plan_version(plan) <= %(plan_version)s
      AND (SELECT state_version FROM instances WHERE instances.id = jobs.instance_id) <= %(state_version)s
    RETURNING id, instance_id, fence, plan, steps, parent_job_id, cancel_requested,
              extract(epoch FROM started_at - created_at)::float8 AS waited_s, number,
              extract(epoch FROM now() - started_at)::float8 AS ran_s, error_message, is_limited
), started AS (
    UPDATE instances SET status = %(started_status)s FROM claimed
    WHERE instances.id = claimed.instance_id AND instances.status = %(requested_status)s
)
SELECT claimed.fence, claimed.plan, claimed.steps, claimed.parent_job_id, instances.id AS instance_id, instances.organization_id, instances.application_id,
       instances.environment_id, instances.version, instances.parameters, instances.environment_view, instances.state,
       instances.return_values, instances.fed_signals, instances.before,
       (SELECT json_object_agg(component, json_build_array(target_id, kind, binding))
        FROM instance_links WHERE instance_links.instance_id = instances.id)::text AS links,
       claimed.waited_s, claimed.cancel_requested, claimed.number, claimed.ran_s,
       CASE WHEN claimed.cancel_requested THEN claimed.error_message END AS cancellation,
       CASE WHEN %(fence)s::integer > 1 THEN (
           SELECT coalesce(json_agg(json_build_array(path, status, percent, attempt, coalesce(started_at, now()), outputs, error_message,
                                                     coalesce(jsonb_array_length(failed_attempts), 0))
                                    ORDER BY path), '[]')
           FROM (SELECT * FROM steps WHERE job_id = claimed.id ORDER BY path LIMIT %(records)s::integer) AS first
       )::text END AS records, claimed.is_limited
FROM claimed JOIN instances ON instances.id = claimed.instance_id
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- name: get_versions
-- In which versions a job under way and the state of its instance are stored.
SELECT launchbay_plan_version(jobs.plan) AS plan, instances.state_version AS state
FROM jobs JOIN instances ON instances.id = jobs.instance_id WHERE jobs.id = %(job_id)s AND jobs.status = 'Executing';

-- name: list_records
-- What earlier claims left of steps, in pages by path. Only steps with effects have outputs; the others are computed again.
SELECT path, status, percent, attempt, coalesce(started_at, now()) AS started_at, outputs, error_message,
       coalesce(jsonb_array_length(failed_attempts), 0) AS failed
FROM steps WHERE job_id = %(job_id)s AND path > %(after)s ORDER BY path LIMIT %(count)s;

-- name: write_journal
-- Steps and log lines of one flush. No row: another worker holds the job, or it was cancelled and steps are to begin. The share lock
-- makes a raise of the fence, and a cancellation, wait for this statement's commit, so nothing is written or begins after it.
WITH held AS (
    SELECT id, instance_id FROM jobs
    WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing' AND NOT (cancel_requested AND %(begins)s::boolean) FOR SHARE
)
SELECT id, launchbay_write_journal(id, instance_id,
           %(paths)s, %(names)s, %(statuses)s, %(percents)s, %(are_records)s, %(attempts)s, %(outputs)s, %(errors)s, %(started)s,
           %(finished)s, %(log_steps)s, %(log_levels)s, %(log_texts)s, %(log_times)s, %(failed)s, %(log_attempts)s, %(log_streams)s, %(inputs)s)
FROM held;

-- name: end
-- The job's end: the last of its journal, its status, the instance's status, state and return values. No row: another
-- worker holds the job, or it was cancelled since this claim.
-- The instance is locked before its job, as every request does it: in turn, the two would wait for each other for ever.
WITH held AS (
    SELECT instances.id, instances.before FROM instances JOIN jobs ON jobs.instance_id = instances.id WHERE jobs.id = %(job_id)s
    FOR NO KEY UPDATE OF instances
), ended AS (
    UPDATE jobs
    SET status = %(job_status)s, steps = %(steps)s, error_message = %(error_message)s, results = %(results)s,
        finished_at = now(), worker_id = NULL, shown_parameters = %(shown_parameters)s, shown_return_values = %(shown_return_values)s,
        former = CASE WHEN %(ends_reconfiguration)s AND %(error_message)s::text IS NOT NULL THEN coalesce(%(former)s::text, held.before) END
    FROM held
    WHERE jobs.id = %(job_id)s AND instance_id = held.id AND fence = %(fence)s AND status = 'Executing'
      AND (NOT cancel_requested OR %(is_cancelled)s::boolean)
    RETURNING jobs.id, jobs.name, instance_id, coalesce(
        floor(extract(epoch FROM finished_at) * 1000)::bigint - floor(extract(epoch FROM started_at) * 1000)::bigint, 0) AS duration_ms
), told AS (
    -- The line about the end says the duration of the record, which all else shows.
    SELECT (%(log_texts)s::text[])[:cardinality(%(log_texts)s::text[]) - 1] || replace(
        (%(log_texts)s::text[])[cardinality(%(log_texts)s::text[])], %(took)s,
        CASE WHEN duration_ms < 1000 THEN duration_ms || ' ms' ELSE round(duration_ms / 1000.0, 1) || ' s' END) AS texts
    FROM ended
), freed AS (
    UPDATE instances
    SET status = %(status)s, job_id = NULL, state = coalesce(%(state)s, state),
        state_version = CASE WHEN %(state)s IS NULL THEN state_version ELSE %(state_version)s END,
        return_values = coalesce(%(return_values)s, return_values),
        component_count = coalesce(%(component_count)s, component_count), running_count = coalesce(%(running_count)s, running_count),
        -- The last failure stays until a launch or a reconfiguration succeeds. Its `cause` is the one that made the instance Failed, if
        -- the workflow that failed since leaves the status.
        error_message = CASE WHEN %(clears_error)s THEN NULL ELSE coalesce(%(error_message)s, instances.error_message) END,
        last_failure = CASE WHEN %(clears_error)s THEN NULL WHEN %(error_message)s::text IS NULL THEN instances.last_failure
            WHEN %(leaves_failed)s AND instances.last_failure IS NOT NULL THEN (
                launchbay_failure(ended.id, ended.name, %(error_message)s)::jsonb
                || jsonb_build_object('cause', coalesce(instances.last_failure::jsonb -> 'cause', instances.last_failure::jsonb)))::text
            ELSE launchbay_failure(ended.id, ended.name, %(error_message)s) END,
        destroy_at = CASE WHEN %(is_gone)s THEN NULL ELSE destroy_at END,
        before = CASE WHEN %(ends_reconfiguration)s THEN NULL ELSE before END
    FROM ended WHERE instances.id = ended.instance_id
    RETURNING instances.id, instances.work_waiting, instances.owner_id
), cleared AS (
    DELETE FROM schedules USING freed WHERE schedules.instance_id = freed.id AND %(is_gone)s
), read AS (
    DELETE FROM log_positions USING ended WHERE log_positions.job_id = ended.id
)
SELECT freed.work_waiting, CASE WHEN %(has_journal)s THEN launchbay_write_journal(%(job_id)s, freed.id,
           %(paths)s, %(names)s, %(statuses)s, %(percents)s, %(are_records)s, %(attempts)s, %(outputs)s, %(errors)s, %(started)s,
           %(finished)s, %(log_steps)s, %(log_levels)s, CASE WHEN %(has_journal)s THEN (SELECT texts FROM told) END, %(log_times)s, %(failed)s, %(log_attempts)s, %(log_streams)s, %(inputs)s) END AS written,
       CASE WHEN %(has_follow_up)s THEN launchbay_follow_up(freed.id, freed.owner_id, %(parent_job_id)s, %(signals_changed)s,
           %(next_kinds)s, %(next_components)s, %(next_workflows)s, %(next_times)s, %(fed_ids)s, %(fed_signals)s) END AS followed
FROM freed;

-- name: end_and_delete_instance
-- The end of a forced deletion: the instance goes with everything that belongs to it, whatever the job's outcome was.
DELETE FROM instances USING jobs
WHERE jobs.id = %(job_id)s AND jobs.fence = %(fence)s AND jobs.status = 'Executing' AND instances.id = jobs.instance_id
RETURNING instances.id;

-- name: get_status
-- Whether a job has ended, also for a COMMIT whose answer was lost.
SELECT status, fence, instance_id FROM jobs WHERE id = %(job_id)s;

-- name: get_owner
SELECT owner_id FROM jobs WHERE id = %(job_id)s;

-- name: get_names
-- The names by which metrics tell jobs apart.
SELECT (SELECT name FROM applications WHERE id = %(application_id)s AND organization_id = %(organization_id)s) AS application,
       (SELECT name FROM environments WHERE id = %(environment_id)s AND organization_id = %(organization_id)s) AS environment;

-- name: get_instance_id
SELECT instance_id FROM jobs WHERE id = %(job_id)s;

-- name: list_under_way
-- Which of these jobs are under way, and which of these instances have a job or are about to.
SELECT array_agg(id) FROM (
    SELECT id FROM jobs WHERE id = ANY(%(job_ids)s::text[]) AND status = 'Executing'
    UNION ALL
    SELECT id FROM instances WHERE id = ANY(%(instance_ids)s::text[]) AND status = ANY(%(busy)s::text[])
) AS under_way;

-- name: list_held
-- Which of these jobs are still held by the claims with these fences, and not cancelled since.
SELECT array_agg(ARRAY[jobs.id, jobs.fence::text])
FROM jobs JOIN unnest(%(job_ids)s::text[], %(fences)s::integer[], %(are_cancelled)s::boolean[]) AS held (id, fence, is_cancelled)
    ON jobs.id = held.id AND jobs.fence = held.fence
WHERE jobs.status = 'Executing' AND (NOT jobs.cancel_requested OR held.is_cancelled);

-- name: begin_child
-- A job that another job runs in its own course; it is not queued. No row: the instance is busy or has changed, or the outer job
-- is another worker's, or cancelled.
WITH outer_job AS (
    SELECT id FROM jobs WHERE id = %(parent_job_id)s AND fence = %(parent_fence)s AND status = 'Executing' AND NOT cancel_requested FOR SHARE
), claimed AS (
    UPDATE instances SET job_id = %(job_id)s, jobs_begun = jobs_begun + 1, status = %(status)s
    WHERE id = %(instance_id)s AND job_id IS NULL AND status = %(prior_status)s AND NOT is_observed AND EXISTS (SELECT FROM outer_job)
    RETURNING id, owner_id, jobs_begun
)
INSERT INTO jobs (id, instance_id, number, name, owner_id, status, plan, steps, parent_job_id)
SELECT %(job_id)s, id, jobs_begun, %(name)s, owner_id, %(job_status)s, %(plan)s, %(steps)s, %(parent_job_id)s FROM claimed
RETURNING id;

-- name: get_child_outcome
SELECT id, status, error_message, results FROM jobs WHERE id = %(job_id)s;

-- name: list_child_outcomes
SELECT id, status, error_message, results FROM jobs WHERE id = ANY(%(job_ids)s) ORDER BY created_at;

-- name: get_child_target
-- An instance that another one calls.
SELECT status, job_id, application_id, version, return_values, name, before IS NOT NULL AS is_to_reconfigure, is_observed
FROM instances WHERE id = %(instance_id)s;

-- name: get_place_in_parent
-- The parent of a submodule's instance, and the component there that leads to it.
SELECT link.instance_id, link.component
FROM instances JOIN instance_links link ON link.instance_id = instances.parent_id AND link.target_id = instances.id
WHERE instances.id = %(instance_id)s AND link.kind = 'own';

-- name: is_held
SELECT true FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing';

-- name: list_running_children
SELECT id FROM jobs WHERE parent_job_id = %(parent_job_id)s AND status = 'Executing';

-- name: list_orphaned_instances
-- Submodules of an instance that none of its components leads to any more, but which could not be destroyed when they should.
SELECT id FROM instances WHERE parent_id = %(instance_id)s AND status <> 'Destroyed' AND id NOT IN (
    SELECT target_id FROM instance_links WHERE instance_id = %(instance_id)s) ORDER BY id;

-- name: list_orphans
-- Jobs whose caller has ended without them, or was deleted with its instance.
SELECT j.id FROM jobs j LEFT JOIN jobs outer_job ON outer_job.id = j.parent_job_id
WHERE j.parent_job_id IS NOT NULL AND j.status = 'Executing' AND outer_job.status IS DISTINCT FROM 'Executing';

-- name: push_signals
UPDATE instances SET fed_signals = %(signals)s WHERE id = %(instance_id)s AND fed_signals <> %(signals)s;

-- name: get_control
-- A job with what decides whether it can be cancelled or resumed.
SELECT id, name, status, plan, parent_job_id IS NOT NULL AS is_inner, id = launchbay_newest_job(instance_id) AS is_newest,
    launchbay_outcome(id, status) = 'Cancelled' AS is_cancelled
FROM jobs WHERE id = %(job_id)s AND instance_id = %(instance_id)s;

-- name: lock_instance
-- While it is held no job of the instance begins or ends.
SELECT status, job_id, parameters, version FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: cancel
-- Asks for the end of a job under way and of those that it calls, with the reason as their error. Its worker lets it go, and the
-- next claim ends it. Returns whether this asked for it, and the status in which the job was found.
SELECT asked, status FROM launchbay_cancel(%(job_id)s, %(reason)s);

-- name: get_plan
SELECT plan FROM jobs WHERE id = %(job_id)s;

-- name: list_descendants
-- The submodules of an instance at every level that are not destroyed.
WITH RECURSIVE below AS (
    SELECT id, name, state, status FROM instances WHERE parent_id = %(instance_id)s
    UNION ALL
    SELECT child.id, child.name, child.state, child.status FROM below JOIN instances child ON child.parent_id = below.id
)
SELECT id, name, state FROM below WHERE status <> 'Destroyed';

-- name: take_over
-- Gives a new job what an earlier one has recorded as finished: successes and ignored failures, without skipped steps, whose
-- conditions may be true now. A call that failed in a later attempt is taken over as under way, so that what this attempt has done
-- inside counts. The fence above 0 makes the first claim read all that. A reconfiguration comes again from what the earlier one came from.
-- Returns how many own steps of the earlier job are finished,
-- with those that have no record because they are computed again, and how many of these are ignored failures.
WITH taken AS (
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, error_message, started_at, finished_at, inputs)
    SELECT %(job_id)s, path, name, status, percent, true, attempt, outputs, error_message, started_at, finished_at, inputs
    FROM steps
    WHERE job_id = %(earlier_id)s AND (is_record AND status = 'Succeeded' AND attempt > 0 OR status = 'Failed' AND outputs IS NOT NULL)
    UNION ALL
    SELECT %(job_id)s, path, name, 'Executing', percent, is_record, attempt, NULL, NULL, started_at, NULL, inputs
    FROM steps AS outer_step
    WHERE job_id = %(earlier_id)s AND is_record AND status = 'Failed' AND outputs IS NULL AND attempt > 1 AND EXISTS (
        SELECT FROM steps
        WHERE job_id = %(earlier_id)s AND (is_record AND status = 'Succeeded' OR status = 'Failed' AND outputs IS NOT NULL)
          AND (starts_with(path, outer_step.path || '~' || outer_step.attempt || '/')
               OR starts_with(path, outer_step.path || '~' || outer_step.attempt || '>'))
    )
), ready AS (
    UPDATE jobs SET fence = greatest(fence, 1) WHERE id = %(job_id)s
), again AS (
    UPDATE instances SET before = jobs.former
    FROM jobs WHERE jobs.id = %(earlier_id)s AND jobs.former IS NOT NULL AND instances.id = jobs.instance_id AND instances.before IS NULL
)
SELECT count(*) FILTER (WHERE status = 'Succeeded' AND attempt > 0 OR status = 'Failed' AND outputs IS NOT NULL) AS finished,
       count(*) FILTER (WHERE status = 'Failed' AND outputs IS NOT NULL) AS ignored
FROM steps WHERE job_id = %(earlier_id)s AND path !~ '[>~]|/.*/';

-- name: set_note
-- A line in the instance's log that no step has written.
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
VALUES (%(instance_id)s, %(job_id)s, NULL, 'info', %(text)s, now());

-- name: has_log
-- Whether a job has written to its instance's log.
SELECT EXISTS (SELECT FROM jobs JOIN log_lines ON log_lines.instance_id = jobs.instance_id AND log_lines.job_id = jobs.id
               WHERE jobs.id = %(job_id)s AND log_lines.id > coalesce(jobs.lines_after, 0));

-- name: set_parameters
UPDATE instances
SET parameters = %(parameters)s, parameter_origins = (parameter_origins::jsonb - %(given)s::text[])::text
WHERE id = %(instance_id)s;

-- name: get_page
-- Jobs of an instance, the newest first, those after the one with the id `after`; in the form of `instances.detail`'s history.
-- Fewer than `count` once the bytes of their steps are reached, but at least one if there is one. The condition on `created_at`
-- alone says what the next one says too, and begins the walk over the index where the last page ended.
SELECT coalesce(json_agg(json_build_array(
    id, name, status, owner_id, steps::json, error_message,
    floor(extract(epoch FROM started_at) * 1000)::bigint, floor(extract(epoch FROM finished_at) * 1000)::bigint,
    CASE WHEN status = 'Executing' THEN (
        SELECT json_agg(json_build_array(path, status, launchbay_percent(status, percent, started_at, ends_at))) FROM steps WHERE job_id = found.id
    ) END, number
) ORDER BY created_at DESC, id DESC), '[]')::text
FROM (
    SELECT *, sum(octet_length(steps)) OVER (ORDER BY created_at DESC, id DESC) - octet_length(steps) AS bytes_before FROM (
        SELECT * FROM jobs
        WHERE instance_id = %(instance_id)s
          AND created_at <= CASE WHEN %(after)s::text IS NULL THEN 'infinity'::timestamptz ELSE
              (SELECT created_at FROM jobs WHERE instance_id = %(instance_id)s AND id = %(after)s) END
          AND (%(after)s::text IS NULL
               OR (created_at, id) < (SELECT created_at, id FROM jobs WHERE instance_id = %(instance_id)s AND id = %(after)s))
        ORDER BY created_at DESC, id DESC
        LIMIT %(count)s
    ) AS next
) AS found
WHERE bytes_before < %(bytes)s;

-- name: list_refined_steps
-- The steps whose status doesn't say all: they were skipped, or failed in some way. They are of the newest job of the instance,
-- unless one is named.
SELECT path, status, attempt = 0 AS is_skipped, outputs IS NOT NULL AS is_ignored,
       error_message IS NOT DISTINCT FROM %(interrupted)s::text AS is_interrupted
FROM steps
WHERE job_id = coalesce(%(job_id)s, launchbay_newest_job(%(instance_id)s))
  AND (status = 'Failed' OR attempt = 0 AND status = 'Succeeded');

-- name: get
-- A job with all that its steps have left, as of one moment. Outputs beyond the bound in all are left out, the first come first;
-- of inputs, those of failed steps.
SELECT jobs.id, jobs.instance_id, jobs.name, jobs.status, jobs.owner_id, jobs.error_message, jobs.results, jobs.plan, jobs.steps, jobs.created_at,
       jobs.started_at, jobs.finished_at, instances.parameters, instances.environment_view, (
    SELECT coalesce(json_agg(json_build_array(
        path, name, status, launchbay_percent(status, percent, started_at, ends_at), attempt, error_message,
        floor(extract(epoch FROM started_at) * 1000)::bigint, floor(extract(epoch FROM finished_at) * 1000)::bigint,
        CASE WHEN bytes_so_far <= %(output_bytes)s THEN outputs END, outputs IS NOT NULL, failed_attempts,
        CASE WHEN input_bytes_so_far <= %(input_bytes)s THEN inputs::json END, inputs IS NOT NULL
    ) ORDER BY started_at, path), '[]')
    FROM (
        SELECT steps.*, sum(coalesce(octet_length(outputs), 0)) OVER (ORDER BY started_at, path) AS bytes_so_far,
               sum(coalesce(octet_length(inputs), 0)) OVER (ORDER BY status = 'Failed' DESC, started_at, path) AS input_bytes_so_far
        FROM steps WHERE job_id = jobs.id
    ) AS step
)::text AS journal, jobs.number, users.name AS owner, instances.application_id, instances.version, (
    SELECT coalesce(json_agg(json_build_array(inner_job.id, inner_job.number, inner_job.name, inner_job.status, inner_job.instance_id, target.name,
                                                launchbay_outcome(inner_job.id, inner_job.status) = 'Cancelled') ORDER BY inner_job.created_at, inner_job.id), '[]')
    FROM jobs AS inner_job JOIN instances AS target ON target.id = inner_job.instance_id
    WHERE inner_job.parent_job_id = jobs.id
)::text AS children, (
    SELECT json_build_array(outer_job.id, outer_job.number, outer_job.name, outer_job.status, outer_job.instance_id, source.name,
                            launchbay_outcome(outer_job.id, outer_job.status) = 'Cancelled')
    FROM jobs AS outer_job JOIN instances AS source ON source.id = outer_job.instance_id
    WHERE outer_job.id = jobs.parent_job_id
)::text AS parent, jobs.shown_parameters, jobs.shown_return_values
FROM jobs JOIN instances ON instances.id = jobs.instance_id LEFT JOIN users ON users.id = jobs.owner_id
WHERE jobs.id = %(job_id)s AND jobs.instance_id = %(instance_id)s;

-- name: list_resumptions
-- The later jobs of an instance that continue a job, in their order.
SELECT id FROM jobs
WHERE instance_id = %(instance_id)s AND created_at > %(since)s AND jsonb_exists(plan::jsonb -> 'resumes', %(job_id)s)
ORDER BY created_at, id LIMIT 100;

-- name: get_waits
-- What a job under way waits for, in the form of `model/waits.py`. No row: it has ended. Null: it waits for nothing.
SELECT launchbay_awaited(instances.id, jobs.id, instances.organization_id, 0)::text
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.id = %(job_id)s AND jobs.status = 'Executing';

-- name: list_usual_durations_ms
-- For each of these jobs, the median of the last successful runs of its workflow, of its instance or the newest ones of the
-- application; null without any. Of each instance, only the newest jobs are read: it may have very many.
SELECT asked.id, floor(usual.median * 1000)::bigint AS usual_ms
FROM unnest(%(ids)s::text[], %(instance_ids)s::text[], %(application_ids)s::text[], %(workflows)s::text[])
    AS asked (id, instance_id, application_id, workflow)
CROSS JOIN LATERAL (
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - started_at)) AS median
    FROM (
        SELECT run.started_at, run.finished_at
        FROM (
            SELECT asked.instance_id AS id
            UNION (SELECT id FROM instances WHERE application_id = asked.application_id ORDER BY id DESC LIMIT %(instances)s)
        ) AS one
        CROSS JOIN LATERAL (
            SELECT started_at, finished_at
            FROM (
                SELECT name, status, started_at, finished_at FROM jobs WHERE jobs.instance_id = one.id
                ORDER BY created_at DESC
                LIMIT CASE WHEN one.id = asked.instance_id THEN %(jobs)s::bigint ELSE %(runs)s::bigint END
            ) AS newest
            WHERE name = asked.workflow AND status = 'Succeeded' AND started_at IS NOT NULL LIMIT %(runs)s::bigint
        ) AS run
        ORDER BY run.finished_at DESC LIMIT %(runs)s::bigint
    ) AS last
) AS usual;

-- name: list_launch_durations_ms
-- How long the last successful launches of an application took, the newest first. Of each instance, it is the first job.
SELECT floor(extract(epoch FROM first.finished_at - first.started_at) * 1000)::bigint AS duration_ms
FROM (
    SELECT id FROM instances WHERE application_id = %(application_id)s ORDER BY id DESC LIMIT %(instances)s
) AS one
CROSS JOIN LATERAL (
    SELECT name, status, started_at, finished_at FROM jobs WHERE jobs.instance_id = one.id ORDER BY created_at LIMIT 1
) AS first
WHERE first.name = 'launch' AND first.status = 'Succeeded' AND first.started_at IS NOT NULL
ORDER BY first.finished_at DESC LIMIT %(runs)s;

-- name: set_waits
-- What steps wait for now, while this claim holds the job; an empty one is no wait.
WITH held AS (
    SELECT id FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing'
), now AS (
    SELECT * FROM unnest(%(paths)s::text[], %(waits)s::text[]) AS told (path, wait)
), over AS (
    DELETE FROM step_waits USING held, now WHERE step_waits.job_id = held.id AND step_waits.path = now.path AND now.wait = ''
)
INSERT INTO step_waits (job_id, path, fence, wait)
SELECT held.id, now.path, %(fence)s, now.wait FROM held, now WHERE now.wait <> ''
ON CONFLICT (job_id, path) DO UPDATE SET wait = excluded.wait, fence = excluded.fence,
    since = CASE WHEN step_waits.fence = excluded.fence AND step_waits.wait::json ->> 'kind' = excluded.wait::json ->> 'kind'
            THEN step_waits.since ELSE excluded.since END;

-- name: set_log_positions
-- Up to where the log has what programs wrote, while this claim holds the job.
WITH held AS (
    SELECT id FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing'
)
INSERT INTO log_positions (job_id, path, attempt, source, position)
SELECT held.id, told.* FROM held, unnest(%(paths)s::text[], %(attempts)s::integer[], %(sources)s::text[], %(positions)s::text[]) AS told
ON CONFLICT (job_id, path, attempt, source) DO UPDATE SET position = excluded.position;

-- name: list_log_positions
-- Up to where the log has what programs wrote, of steps that haven't succeeded: others read nothing anymore.
SELECT path, log_positions.attempt, source, position FROM log_positions
WHERE job_id = %(job_id)s AND NOT EXISTS (
    SELECT FROM steps WHERE steps.job_id = log_positions.job_id AND steps.path = log_positions.path AND status = 'Succeeded');

-- name: keep_passing
-- Values of an attempt for the claims after this one; tokens of earlier attempts of the step are over. Those of the same attempt stay: an
-- earlier claim may have started a command with them. So do secrets, which a step may hand to others. No row: this claim no longer holds the job. As with the journal, the share lock makes a
-- raise of the fence wait, so the next claim finds the values or nothing has got them.
WITH held AS (
    SELECT id FROM jobs WHERE id = %(job_id)s AND fence = %(fence)s AND status = 'Executing' FOR SHARE
), over AS (
    DELETE FROM passing_values USING held
    WHERE passing_values.job_id = held.id AND path = %(path)s AND attempt < %(attempt)s AND NOT %(has_secrets)s::boolean
)
INSERT INTO passing_values (id, job_id, path, attempt, sealed) SELECT %(id)s, held.id, %(path)s, %(attempt)s, %(sealed)s FROM held
ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed;

-- name: list_passing
-- Those of steps that haven't ended first, whose commands may still write, then the newest.
SELECT id, path, attempt, sealed, EXISTS (
    SELECT FROM steps WHERE steps.job_id = passing_values.job_id AND steps.path = passing_values.path AND status IN ('Succeeded', 'Failed')
) AS has_ended
FROM passing_values WHERE job_id = %(job_id)s ORDER BY has_ended, id DESC;

-- name: get_owing
-- What the last launch or reconfiguration of an instance came from, if that failed and was held to a plan, or owed something itself.
SELECT CASE WHEN status = 'Failed' AND (plan::json ->> 'held' = 'true' OR former::json ->> 'owed' <> '{}') THEN former END
FROM (SELECT status, plan, former FROM jobs WHERE instance_id = %(instance_id)s AND name IN ('launch', 'reconfigure')
      ORDER BY created_at DESC, number DESC LIMIT 1) AS last;

-- name: get_busy_job
-- The job that keeps an instance busy.
SELECT jobs.id, coalesce(jobs.number, 0) AS number, jobs.name AS workflow, instances.name AS instance
FROM instances JOIN jobs ON jobs.id = instances.job_id WHERE instances.id = %(instance_id)s;

-- name: sample_load
-- What only the database knows of the load, from partial indexes: the figures that are watched, at the price of watching.
SELECT (SELECT count(*) FROM ready WHERE due_at IS NULL OR due_at <= now()) AS queue_depth,
       (SELECT count(*) FROM parked) AS jobs_parked,
       (SELECT count(*) FROM jobs WHERE status = 'Executing') AS jobs_under_way,
       due.overdue, due.oldest_overdue_s,
       (SELECT count(*) FROM drifted_instances) AS drifted_instances,
       (SELECT count(*) FROM workers WHERE beat_at > now() - %(fresh_s)s * interval '1 second') AS workers,
       extract(epoch FROM clock_timestamp())::float8 AS clock_s,
       (SELECT extract(epoch FROM created_at)::float8 FROM server_keys WHERE name = 'last backup') AS backed_up_at_s
FROM (
    SELECT count(*) AS overdue, coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 AS oldest_overdue_s
    FROM schedules WHERE due_at <= now() AND NOT blocked
) AS due;

-- name: count_with_changed_secrets
-- Instances that use old secrets. It reads all reads of secrets, so it has no part in each sample.
SELECT count(DISTINCT instance_id) FROM changed_secrets;

-- name: note_backup
-- The time of the last backup that was completed. The table has a row for each thing that all servers know once.
INSERT INTO server_keys (name, value, created_at) VALUES ('last backup', '', %(at)s)
ON CONFLICT (name) DO UPDATE SET created_at = greatest(server_keys.created_at, excluded.created_at);

-- name: count_waiting
-- Jobs of an organization that wait to be started, counted no further than is asked for.
SELECT count(*) FROM (
    SELECT FROM ready WHERE organization_id = %(organization_id)s AND (due_at IS NULL OR due_at <= now()) LIMIT %(most)s
) AS waiting;

-- name: claim_retention_turn
-- One process at a time; the lock goes with the transaction.
SELECT pg_try_advisory_xact_lock(5064719320041);

-- name: begin_block
-- Lets a sequence begin its next block if the newest is that old, and makes partitions ahead. Says whether a block began.
SELECT launchbay_begin_block(%(sequence)s, %(block_s)s::float8, %(parents)s::text[], %(spans)s::integer[]);

-- name: drop_partitions
-- Drops the partitions of a table that only have rows older than that; returns how many, or null if the table is in use for long.
SELECT launchbay_drop_partitions(%(parent)s, %(days)s::float8);

-- name: list_ended_jobs
-- The next ended jobs after a place in their order, and whether each may go: every instance keeps its last ones.
SELECT jobs.id, jobs.finished_at, jobs.number <= instances.jobs_begun - %(kept)s AS may_go
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.finished_at IS NOT NULL AND (jobs.finished_at, jobs.id) > (%(after_at)s, %(after_id)s)
  AND jobs.finished_at < now() - %(days)s * interval '1 day'
ORDER BY jobs.finished_at, jobs.id LIMIT %(count)s;

-- name: delete_jobs
DELETE FROM jobs WHERE id = ANY (%(ids)s) AND finished_at IS NOT NULL;

-- name: delete_log_lines_of_destroyed
-- The logs of destroyed instances whose time is over, before the instances: one could have more lines than a transaction should.
-- Only where log lines are kept forever: otherwise they go with their partitions.
DELETE FROM log_lines USING (
    SELECT log_lines.instance_id, log_lines.id
    FROM (
        SELECT id FROM instances WHERE destroyed_at < now() - %(days)s * interval '1 day'
        ORDER BY destroyed_at LIMIT %(instances)s
    ) AS over JOIN log_lines ON log_lines.instance_id = over.id
    LIMIT %(count)s
) AS old
WHERE log_lines.instance_id = old.instance_id AND log_lines.id = old.id;

-- name: delete_jobs_of_destroyed
DELETE FROM jobs WHERE id IN (
    SELECT jobs.id
    FROM (
        SELECT id FROM instances WHERE destroyed_at < now() - %(days)s * interval '1 day'
        ORDER BY destroyed_at LIMIT %(instances)s
    ) AS over JOIN jobs ON jobs.instance_id = over.id
    WHERE jobs.finished_at IS NOT NULL
    LIMIT %(count)s
);

-- name: delete_destroyed
-- The instances themselves, with what little is left of them. One that still has something alive inside stays. Its log lines and
-- events go with their partitions.
DELETE FROM instances WHERE id IN (
    SELECT id FROM instances
    WHERE destroyed_at < now() - %(days)s * interval '1 day' AND status = 'Destroyed' AND job_id IS NULL
      AND NOT EXISTS (SELECT FROM instances child WHERE child.parent_id = instances.id AND child.status <> 'Destroyed')
    ORDER BY destroyed_at LIMIT %(instances)s
    FOR UPDATE SKIP LOCKED
) AND set_config('launchbay.leaves_history', 'on', true) IS NOT NULL
RETURNING id, organization_id, application_id, name, status;
