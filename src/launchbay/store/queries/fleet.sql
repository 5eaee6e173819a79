-- name: list_instances
-- Instances of an organization by filters, in one of the orders, from a place in it; with their number, if asked for.
-- Conditions and orders that are not asked for fold away: each set of them has a plan (`Shape` in `store/fleet.py`).
-- One value is compared as such: an index then has its rows in the order of the list, and the first page is all that is read of them.
-- The first row has the number. Where nothing is found, it is the only one, and the rest of it is null.
WITH found AS NOT MATERIALIZED (
    SELECT * FROM fleet
    WHERE organization_id = %(organization_id)s
      AND (%(ids)s::text[] IS NULL OR instance_id = ANY (%(ids)s::text[]))
      AND (%(candidates)s::text[] IS NULL OR instance_id = ANY (%(candidates)s::text[]))
      AND (%(statuses)s::text[] IS NULL OR CASE cardinality(%(statuses)s::text[])
          WHEN 1 THEN status = (array_replace(%(statuses)s::text[], 'Requested', 'Executing'))[1]
          ELSE status = ANY (array_replace(%(statuses)s::text[], 'Requested', 'Executing')) END)
      -- Only where one of these two statuses is asked for without the other.
      AND (%(statuses)s::text[] IS NULL OR ('Requested' = ANY (%(statuses)s::text[])) = ('Executing' = ANY (%(statuses)s::text[]))
           OR status <> 'Executing' OR is_requested = ('Requested' = ANY (%(statuses)s::text[])))
      AND (%(job_statuses)s::text[] IS NULL OR CASE cardinality(%(job_statuses)s::text[])
          WHEN 1 THEN job_status = (%(job_statuses)s::text[])[1] ELSE job_status = ANY (%(job_statuses)s::text[]) END)
      AND (%(job_outcomes)s::text[] IS NULL OR CASE job_status WHEN 'Failed' THEN launchbay_outcome(job_id, job_status) ELSE job_status END = ANY (%(job_outcomes)s::text[]))
      -- As `health_of` says it (`model/instance.py`).
      AND (NOT %(degraded)s::boolean OR status = 'Running' AND (
          job_status = 'Failed' AND launchbay_outcome(job_id, job_status) = 'Failed' OR instance_id = ANY (ARRAY(SELECT launchbay_incomplete(%(organization_id)s)))))
      AND (NOT %(drifted)s::boolean OR instance_id IN (SELECT drifted_instances.instance_id FROM drifted_instances WHERE drifted_instances.organization_id = %(organization_id)s))
      AND (NOT %(observed)s::boolean OR instance_id IN (SELECT observed_instances.instance_id FROM observed_instances WHERE observed_instances.organization_id = %(organization_id)s))
      AND (NOT %(secrets_changed)s::boolean OR instance_id IN (
          SELECT changed_secrets.instance_id FROM changed_secrets JOIN services ON services.id = changed_secrets.service_id
          WHERE services.organization_id = %(organization_id)s))
      AND (%(workflows)s::text[] IS NULL OR CASE cardinality(%(workflows)s::text[])
          WHEN 1 THEN job_name = (%(workflows)s::text[])[1] ELSE job_name = ANY (%(workflows)s::text[]) END)
      AND (%(application_ids)s::text[] IS NULL OR CASE cardinality(%(application_ids)s::text[])
          WHEN 1 THEN application_id = (%(application_ids)s::text[])[1] ELSE application_id = ANY (%(application_ids)s::text[]) END)
      AND (%(environment_ids)s::text[] IS NULL OR CASE cardinality(%(environment_ids)s::text[])
          WHEN 1 THEN environment_id = (%(environment_ids)s::text[])[1] ELSE environment_id = ANY (%(environment_ids)s::text[]) END)
      AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
      AND (%(version)s::integer IS NULL OR version = %(version)s)
      AND (%(expires_before)s::timestamptz IS NULL OR destroy_at < %(expires_before)s)
      AND (%(name)s::text IS NULL OR name = %(name)s)
      AND (%(name_prefix)s::text IS NULL OR starts_with(name, %(name_prefix)s))
      AND (%(name_part)s::text IS NULL OR position(lower(%(name_part)s) IN lower(name)) > 0)
      -- Words: each is in the name or in the value of a label, or begins the ID, unless it is too short for that.
      AND (%(words)s::text[] IS NULL OR NOT EXISTS (
          SELECT FROM unnest(%(words)s::text[]) AS word
          WHERE position(word IN lower(name)) = 0
            AND NOT EXISTS (SELECT FROM jsonb_each_text(labels) AS label WHERE position(word IN lower(label.value)) > 0)
            AND (length(word) < %(id_chars)s::integer OR NOT starts_with(instance_id, word))))
      -- Each name with the values that it may have.
      AND (%(label_sets)s::jsonb IS NULL OR NOT EXISTS (
          SELECT FROM jsonb_each(%(label_sets)s::jsonb) AS wanted
          WHERE NOT coalesce(wanted.value ? (labels ->> wanted.key), false)))
      AND (%(unlike)s::jsonb[] IS NULL OR NOT labels @> ANY (%(unlike)s::jsonb[]))
      AND (%(has_labels)s::text[] IS NULL OR labels ?& %(has_labels)s::text[])
      AND (%(lacks_labels)s::text[] IS NULL OR NOT labels ?| %(lacks_labels)s::text[])
      -- What the caller may see, as patterns of `auth/gate.py`: by the roles, and by the scope of the access token.
      AND {visible(application_id, instance_id, environment_id)}
), page AS (
    SELECT *, CASE %(sort)s::text WHEN 'name' THEN name WHEN 'lastJob' THEN job_ended_at::text WHEN 'expiry' THEN destroy_at::text
              ELSE '' END AS place
    FROM found
    WHERE %(after_id)s::text IS NULL OR CASE
        WHEN %(sort)s::text = 'name' THEN CASE WHEN %(descends)s::boolean
            THEN (name, instance_id) < (%(after)s::text, %(after_id)s) ELSE (name, instance_id) > (%(after)s::text, %(after_id)s) END
        WHEN %(sort)s::text = 'lastJob' THEN CASE WHEN %(descends)s::boolean
            THEN (job_ended_at, instance_id) < (%(after)s::text::timestamptz, %(after_id)s)
            ELSE (job_ended_at, instance_id) > (%(after)s::text::timestamptz, %(after_id)s) END
        WHEN %(sort)s::text = 'expiry' THEN CASE WHEN %(descends)s::boolean
            THEN (destroy_at, instance_id) < (%(after)s::text::timestamptz, %(after_id)s)
            ELSE (destroy_at, instance_id) > (%(after)s::text::timestamptz, %(after_id)s) END
        ELSE CASE WHEN %(descends)s::boolean THEN instance_id < %(after_id)s ELSE instance_id > %(after_id)s END END
    ORDER BY
        CASE WHEN %(sort)s::text = 'name' AND NOT %(descends)s::boolean THEN name END,
        CASE WHEN %(sort)s::text = 'name' AND %(descends)s::boolean THEN name END DESC,
        CASE WHEN %(sort)s::text = 'lastJob' AND NOT %(descends)s::boolean THEN job_ended_at END,
        CASE WHEN %(sort)s::text = 'lastJob' AND %(descends)s::boolean THEN job_ended_at END DESC,
        CASE WHEN %(sort)s::text = 'expiry' AND NOT %(descends)s::boolean THEN destroy_at END,
        CASE WHEN %(sort)s::text = 'expiry' AND %(descends)s::boolean THEN destroy_at END DESC,
        CASE WHEN NOT %(descends)s::boolean THEN instance_id END, CASE WHEN %(descends)s::boolean THEN instance_id END DESC
    LIMIT %(count)s
)
-- `OFFSET 0`: what is shown of each row is looked up for the page. Without it, PostgreSQL may read it of all instances first, and hash it.
SELECT counted.total, page.place, page.instance_id AS id, page.name,
       CASE WHEN page.is_requested THEN 'Requested' ELSE page.status END AS status, page.application_id, applications.name AS application,
       page.environment_id, environments.name AS environment, page.version, page.owner_id,
       launchbay_freezes(environments.frozen, environments.freeze_windows, applications.frozen, applications.freeze_windows) AS freezes,
       instances.parent_id,
       page.labels::text AS labels, instances.component_count, instances.running_count,
       nullif(page.destroy_at, 'infinity') AS destroy_at,
       instances.created_at, page.job_id, jobs.number AS job_number, page.job_name, page.job_status, EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = instances.job_id AND approvals.status = 'pending' OFFSET 0
) AS is_asking, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = page.instance_id OFFSET 0
) AS is_asleep, EXISTS (
    SELECT FROM drifted_instances WHERE drifted_instances.instance_id = page.instance_id OFFSET 0
) AS is_drifted, instances.is_observed, EXISTS (
    SELECT FROM changed_secrets WHERE changed_secrets.instance_id = page.instance_id OFFSET 0
) AS has_changed_secrets, launchbay_is_incomplete(page.instance_id) AS is_incomplete,
       ending.undoable AS destroy_due_at, ending.is_idle AS is_idle_destroy, ending.scheduled AS destroy_scheduled_at,
       ending.lifetime AS lifetime_ends_at,
       floor(extract(epoch FROM jobs.started_at) * 1000)::bigint AS job_started_at_ms,
       floor(extract(epoch FROM nullif(page.job_ended_at, '-infinity')) * 1000)::bigint AS job_ended_at_ms, jobs.error_message AS job_error,
       CASE WHEN page.status = 'Failed' AND jobs.error_message IS NOT NULL THEN instances.last_failure::json #>> '{cause,message}' END AS cause_error,
       CASE WHEN page.status = 'Failed' AND jobs.error_message IS NOT NULL THEN instances.last_failure::json #>> '{cause,workflow}' END AS cause_workflow,
       CASE WHEN page.status = 'Failed' AND jobs.error_message IS NOT NULL THEN (instances.last_failure::json #>> '{cause,time}')::bigint END AS cause_at_ms,
       CASE WHEN jobs.error_message IS NOT NULL THEN instances.parameters END AS parameters,
       CASE WHEN jobs.error_message IS NOT NULL THEN instances.environment_view END AS environment_view
FROM (SELECT CASE WHEN %(counts)s::boolean THEN (SELECT count(*) FROM found) END AS total) AS counted
LEFT JOIN page ON true
LEFT JOIN instances ON instances.id = page.instance_id
LEFT JOIN applications ON applications.id = page.application_id
LEFT JOIN environments ON environments.id = page.environment_id
LEFT JOIN jobs ON jobs.id = page.job_id
LEFT JOIN LATERAL launchbay_ends(page.instance_id) AS ending ON page.status <> 'Destroyed'
ORDER BY
    CASE WHEN %(sort)s::text = 'name' AND NOT %(descends)s::boolean THEN page.name END,
    CASE WHEN %(sort)s::text = 'name' AND %(descends)s::boolean THEN page.name END DESC,
    CASE WHEN %(sort)s::text = 'lastJob' AND NOT %(descends)s::boolean THEN page.job_ended_at END,
    CASE WHEN %(sort)s::text = 'lastJob' AND %(descends)s::boolean THEN page.job_ended_at END DESC,
    CASE WHEN %(sort)s::text = 'expiry' AND NOT %(descends)s::boolean THEN page.destroy_at END,
    CASE WHEN %(sort)s::text = 'expiry' AND %(descends)s::boolean THEN page.destroy_at END DESC,
    CASE WHEN NOT %(descends)s::boolean THEN page.instance_id END, CASE WHEN %(descends)s::boolean THEN page.instance_id END DESC;

-- name: list_expiries
-- What expires in a time, the next one first. Submodules go with their parents, and what a destroy ends is in the schedules.
SELECT instance_id AS id, name, owner_id, destroy_at, application_id, environment_id
FROM fleet
WHERE organization_id = %(organization_id)s AND destroy_at >= %(since)s AND destroy_at < %(until)s
  AND NOT EXISTS (SELECT FROM instances WHERE instances.id = fleet.instance_id AND parent_id IS NOT NULL)
  AND NOT EXISTS (
      SELECT FROM schedules
      WHERE schedules.instance_id = fleet.instance_id AND kind = 'workflow' AND workflow = 'destroy' AND due_at = fleet.destroy_at
  )
  AND {visible(application_id, instance_id, environment_id)}
ORDER BY destroy_at, instance_id LIMIT %(count)s;

-- name: list_jobs
-- Jobs of an organization by filters, by the time of their acceptance, as `list_instances` does it. They are counted up to a bound.
WITH found AS NOT MATERIALIZED (
    SELECT * FROM fleet_jobs
    WHERE organization_id = %(organization_id)s
      AND (%(statuses)s::text[] IS NULL OR CASE cardinality(%(statuses)s::text[])
          WHEN 1 THEN status = (%(statuses)s::text[])[1] ELSE status = ANY (%(statuses)s::text[]) END)
      AND (%(outcomes)s::text[] IS NULL OR CASE status WHEN 'Failed' THEN launchbay_outcome(job_id, status) ELSE status END = ANY (%(outcomes)s::text[]))
      AND (%(workflows)s::text[] IS NULL OR CASE cardinality(%(workflows)s::text[])
          WHEN 1 THEN name = (%(workflows)s::text[])[1] ELSE name = ANY (%(workflows)s::text[]) END)
      AND (%(application_ids)s::text[] IS NULL OR CASE cardinality(%(application_ids)s::text[])
          WHEN 1 THEN application_id = (%(application_ids)s::text[])[1] ELSE application_id = ANY (%(application_ids)s::text[]) END)
      AND (%(environment_ids)s::text[] IS NULL OR CASE cardinality(%(environment_ids)s::text[])
          WHEN 1 THEN environment_id = (%(environment_ids)s::text[])[1] ELSE environment_id = ANY (%(environment_ids)s::text[]) END)
      AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
      AND (%(ids)s::text[] IS NULL OR job_id = ANY (%(ids)s::text[]))
      AND (%(instance_ids)s::text[] IS NULL
           -- `each`: no more of an instance, in this order, can be on the page, and no more of all of them.
           OR job_id = ANY (ARRAY(
               SELECT next.id FROM unnest(%(instance_ids)s::text[]) AS wanted (instance_id)
               CROSS JOIN LATERAL (
                   SELECT id, created_at FROM jobs
                   WHERE jobs.instance_id = wanted.instance_id AND (%(number)s::integer IS NULL OR jobs.number = %(number)s)
                     AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
                     AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
                     AND (%(each)s::bigint IS NULL OR %(after_id)s::text IS NULL OR CASE WHEN %(descends)s::boolean
                         THEN (created_at, id) < (%(after)s::timestamptz, %(after_id)s)
                         ELSE (created_at, id) > (%(after)s::timestamptz, %(after_id)s) END)
                   ORDER BY
                       CASE WHEN NOT %(descends)s::boolean THEN created_at END, CASE WHEN %(descends)s::boolean THEN created_at END DESC,
                       CASE WHEN NOT %(descends)s::boolean THEN id END, CASE WHEN %(descends)s::boolean THEN id END DESC
                   LIMIT %(each)s::bigint
               ) AS next
               ORDER BY
                   CASE WHEN NOT %(descends)s::boolean THEN next.created_at END, CASE WHEN %(descends)s::boolean THEN next.created_at END DESC,
                   CASE WHEN NOT %(descends)s::boolean THEN next.id END, CASE WHEN %(descends)s::boolean THEN next.id END DESC
               LIMIT %(each)s::bigint)))
      -- After the last ID that begins so comes a letter that IDs don't have.
      AND (%(id_part)s::text IS NULL OR job_id >= %(id_part)s AND job_id < %(id_part)s || 'g')
      -- The first condition is that of the index, the second one for jobs that haven't ended.
      AND (%(longer_than_s)s::double precision IS NULL
           OR coalesce(finished_at - created_at, '100 years'::interval) >= make_interval(secs => %(longer_than_s)s)
              AND (finished_at IS NOT NULL OR now() - created_at >= make_interval(secs => %(longer_than_s)s)))
      AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
      AND {visible(application_id, instance_id, environment_id)}
), page AS (
    SELECT * FROM found
    WHERE %(after_id)s::text IS NULL OR CASE WHEN %(descends)s::boolean
        THEN (created_at, job_id) < (%(after)s::timestamptz, %(after_id)s) ELSE (created_at, job_id) > (%(after)s::timestamptz, %(after_id)s) END
    ORDER BY
        CASE WHEN NOT %(descends)s::boolean THEN created_at END, CASE WHEN %(descends)s::boolean THEN created_at END DESC,
        CASE WHEN NOT %(descends)s::boolean THEN job_id END, CASE WHEN %(descends)s::boolean THEN job_id END DESC
    LIMIT %(count)s
)
SELECT counted.total, page.created_at::text AS place, page.job_id AS id, jobs.number, page.name, page.status, page.instance_id,
       instances.name AS instance, page.application_id, applications.name AS application, page.environment_id,
       environments.name AS environment, page.owner_id, users.name AS owner, jobs.parent_job_id,
       jobs.plan::json ->> 'kind' AS plan_kind, jobs.plan::json -> 'origin' ->> 'kind' AS origin_kind,
       coalesce(jobs.plan::json -> 'origin' ->> 'id', '') AS origin_id, jobs.plan::json -> 'origin' ->> 'name' AS origin_name,
       outer_job.name AS parent_workflow, (
    SELECT path FROM steps
    WHERE steps.job_id = page.job_id AND page.status = 'Executing' AND steps.status = 'Executing' AND strpos(path, '/') > 0
    ORDER BY started_at DESC NULLS LAST, path LIMIT 1
) AS current_step, page.status = 'Executing' AND EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = page.job_id AND approvals.status = 'pending'
) AS is_asking,
       floor(extract(epoch FROM page.created_at) * 1000)::bigint AS created_at_ms,
       floor(extract(epoch FROM jobs.started_at) * 1000)::bigint AS started_at_ms,
       floor(extract(epoch FROM page.finished_at) * 1000)::bigint AS finished_at_ms, jobs.error_message AS error,
       CASE WHEN jobs.error_message IS NOT NULL THEN instances.parameters END AS parameters,
       CASE WHEN jobs.error_message IS NOT NULL THEN instances.environment_view END AS environment_view
FROM (SELECT CASE WHEN %(counts)s::boolean THEN (SELECT count(*) FROM (SELECT FROM found LIMIT %(most)s) AS bounded) END AS total) AS counted
LEFT JOIN page ON true
LEFT JOIN jobs ON jobs.id = page.job_id
LEFT JOIN jobs AS outer_job ON outer_job.id = jobs.parent_job_id
LEFT JOIN instances ON instances.id = page.instance_id
LEFT JOIN applications ON applications.id = page.application_id
LEFT JOIN environments ON environments.id = page.environment_id
LEFT JOIN users ON users.id = page.owner_id
ORDER BY
    CASE WHEN NOT %(descends)s::boolean THEN page.created_at END, CASE WHEN %(descends)s::boolean THEN page.created_at END DESC,
    CASE WHEN NOT %(descends)s::boolean THEN page.job_id END, CASE WHEN %(descends)s::boolean THEN page.job_id END DESC;

-- name: count_by_version
-- The instances of an application that aren't destroyed, by the version that they have.
SELECT version, count(*) AS instances FROM fleet
WHERE organization_id = %(organization_id)s AND application_id = %(application_id)s AND status <> 'Destroyed'
  AND {visible(application_id, instance_id, environment_id)}
GROUP BY version;

-- name: count_jobs_by_time
-- The newest jobs of a time, or those of one workflow, by their age in slots, and of all of them (slot is null) the median duration.
-- Those that somebody cancelled haven't failed.
SELECT slot, count(*) AS total, count(*) FILTER (WHERE status = 'Failed') AS failed,
       count(*) FILTER (WHERE status = 'Cancelled') AS cancelled, count(*) FILTER (WHERE status = 'Executing') AS running,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - created_at)) AS median_s
FROM (
    SELECT CASE status WHEN 'Failed' THEN launchbay_outcome(job_id, status) ELSE status END AS status, created_at, finished_at, floor(extract(epoch FROM %(now)s::timestamptz - created_at) / %(slot_s)s)::integer AS slot
    FROM fleet_jobs
    WHERE organization_id = %(organization_id)s AND created_at > %(since)s AND created_at <= %(now)s
      AND (%(workflow)s::text IS NULL OR name = %(workflow)s)
      AND {visible(application_id, instance_id, environment_id)}
    ORDER BY created_at DESC LIMIT %(most)s
) AS recent
GROUP BY GROUPING SETS ((slot), ());

-- name: list_unlisted
-- Where jobs of earlier versions are still to be listed.
SELECT before_id FROM fleet_jobs_unlisted;

-- name: list_old_jobs
SELECT launchbay_list_old_jobs(%(most)s);

-- name: summarize
-- Instances of an organization by application, environment, status, the outcome of the last job, and whether components are missing. An
-- index alone groups them; those that are requested or incomplete are read too, as are those whose last job was cancelled. They are few.
WITH visible AS NOT MATERIALIZED (
    SELECT * FROM fleet
    WHERE organization_id = %(organization_id)s
      AND {visible(application_id, instance_id, environment_id)}
), requested AS (
    SELECT application_id, environment_id, job_status, count(*) AS instances FROM visible
    WHERE status = 'Executing' AND is_requested
    GROUP BY application_id, environment_id, job_status
), incomplete AS (
    SELECT application_id, environment_id, job_status, count(*) AS instances FROM visible
    WHERE status = 'Running' AND instance_id = ANY (ARRAY(SELECT launchbay_incomplete(%(organization_id)s)))
    GROUP BY application_id, environment_id, job_status
), cancelled AS (
    SELECT application_id, environment_id, CASE WHEN is_requested THEN 'Requested' ELSE visible.status END AS status,
           visible.status = 'Running' AND visible.instance_id = ANY (ARRAY(SELECT launchbay_incomplete(%(organization_id)s))) AS is_incomplete,
           count(*) AS instances
    -- As `launchbay_outcome` says it, which would be called for each.
    FROM visible JOIN jobs ON jobs.id = visible.job_id AND starts_with(jobs.error_message, 'Cancelled by ')
    WHERE job_status = 'Failed'
    GROUP BY 1, 2, 3, 4
), listed AS (
    SELECT application_id, environment_id, status, job_status, false AS is_incomplete, count(*) AS instances FROM visible
    GROUP BY application_id, environment_id, status, job_status
    UNION ALL SELECT application_id, environment_id, 'Requested', job_status, false, instances FROM requested
    UNION ALL SELECT application_id, environment_id, 'Executing', job_status, false, -instances FROM requested
    UNION ALL SELECT application_id, environment_id, 'Running', job_status, true, instances FROM incomplete
    UNION ALL SELECT application_id, environment_id, 'Running', job_status, false, -instances FROM incomplete
    UNION ALL SELECT application_id, environment_id, status, 'Cancelled', is_incomplete, instances FROM cancelled
    UNION ALL SELECT application_id, environment_id, status, 'Failed', is_incomplete, -instances FROM cancelled
), groups AS (
    SELECT application_id, environment_id, status, job_status, is_incomplete, sum(instances)::bigint AS instances FROM listed
    GROUP BY application_id, environment_id, status, job_status, is_incomplete
    HAVING sum(instances) > 0
)
SELECT groups.application_id, applications.name AS application, groups.environment_id, environments.name AS environment, groups.status,
       groups.job_status, groups.is_incomplete, groups.instances
FROM groups
LEFT JOIN applications ON applications.id = groups.application_id
LEFT JOIN environments ON environments.id = groups.environment_id
ORDER BY applications.name, groups.application_id, environments.name, groups.environment_id, groups.status, groups.job_status,
         groups.is_incomplete;

-- name: count_work
-- What happens: jobs under way, approvals that wait, instances that end within a day, and failures of the last day.
SELECT (
    SELECT count(*) FROM fleet_jobs WHERE organization_id = %(organization_id)s AND status = 'Executing'
      AND {visible(application_id, instance_id, environment_id)}
) AS running, (
    SELECT count(*) FROM approvals JOIN fleet USING (organization_id, instance_id)
    WHERE organization_id = %(organization_id)s AND approvals.status = 'pending'
      AND {visible(application_id, instance_id, environment_id)}
) AS approvals, (
    SELECT count(*) FROM fleet WHERE organization_id = %(organization_id)s AND destroy_at < now() + interval '1 day'
      AND {visible(application_id, instance_id, environment_id)}
) AS expiring, (
    SELECT count(*) FILTER (WHERE launchbay_outcome(job_id, status) = 'Failed') FROM fleet_jobs
    WHERE organization_id = %(organization_id)s AND status = 'Failed' AND finished_at > now() - interval '1 day'
      AND {visible(application_id, instance_id, environment_id)}
) AS failures;

-- name: count_running
-- Jobs under way, counted up to a bound: every page of the console shows them.
SELECT count(*) FROM (
    SELECT FROM fleet_jobs WHERE organization_id = %(organization_id)s AND status = 'Executing'
      AND {visible(application_id, instance_id, environment_id)}
    LIMIT %(most)s
) AS running;

-- name: get_views
SELECT views::text FROM saved_views WHERE user_id = %(user_id)s AND organization_id = %(organization_id)s;

-- name: put_views
INSERT INTO saved_views (user_id, organization_id, views) VALUES (%(user_id)s, %(organization_id)s, %(views)s::jsonb)
ON CONFLICT (user_id, organization_id) DO UPDATE SET views = excluded.views;

-- name: search
-- Instances with a word of at least three characters in their names, in values of their labels, or at the start of their IDs.
SELECT launchbay_search(%(organization_id)s, %(word)s, %(most)s);

-- name: list_labeled
-- Instances with one of these values of a label.
SELECT instance_id FROM fleet_labels
WHERE organization_id = %(organization_id)s AND name = %(name)s AND value = ANY (%(values)s::text[])
LIMIT %(most)s;

-- name: set_instance_labels
UPDATE instances SET labels = %(labels)s::jsonb WHERE id = %(id)s;

-- name: set_application_labels
UPDATE applications SET labels = %(labels)s::jsonb WHERE id = %(id)s;

-- name: set_environment_labels
UPDATE environments SET labels = %(labels)s::jsonb WHERE id = %(id)s;

-- name: lock_instance_labels
-- Orders changes of labels one after the other, so that none is lost.
SELECT labels::text FROM instances WHERE id = %(id)s FOR NO KEY UPDATE;

-- name: lock_application_labels
SELECT labels::text FROM applications WHERE id = %(id)s FOR NO KEY UPDATE;

-- name: lock_environment_labels
SELECT labels::text FROM environments WHERE id = %(id)s FOR NO KEY UPDATE;

-- name: get_instance_labels
SELECT labels::text FROM instances WHERE id = %(id)s;

-- name: get_application_labels
SELECT labels::text FROM applications WHERE id = %(id)s;

-- name: get_environment_labels
SELECT labels::text FROM environments WHERE id = %(id)s;

-- name: list_concerned
-- Live instances of applications and environments, by ID.
SELECT id, name, application_id, environment_id, version FROM instances
WHERE organization_id = %(organization_id)s AND status <> 'Destroyed' AND parent_id IS NULL
  AND (application_id = ANY (%(application_ids)s::text[]) OR environment_id = ANY (%(environment_ids)s::text[]))
ORDER BY id LIMIT %(count)s;

-- name: list_environments_of
-- Environments in which applications have live instances.
SELECT DISTINCT environment_id FROM instances
WHERE organization_id = %(organization_id)s AND status <> 'Destroyed' AND application_id = ANY (%(application_ids)s::text[]);
