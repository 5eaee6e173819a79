-- Rows of `population.py`. IDs begin with their time, as those of the product do. One in three instances is destroyed, one in fifty has failed.

INSERT INTO users (id, email, name, home_organization_id)
SELECT 'c' || lpad(to_hex(n - 1), 23, '0'), 'person' || n || '@grown.example', 'Person ' || n, %(organization)s
FROM generate_series(1, %(people)s) AS n;

INSERT INTO memberships (organization_id, user_id)
SELECT %(organization)s, id FROM users WHERE email LIKE '%%@grown.example';

INSERT INTO applications (id, organization_id, name, latest_version)
SELECT 'a' || lpad(to_hex(n), 23, '0'), %(organization)s, 'shop ' || n, %(versions)s
FROM generate_series(1, %(applications)s) AS n;

INSERT INTO manifests (application_id, version, content, author_id)
SELECT applications.id, n, 'launch: {steps: []}', %(administrator)s
FROM applications, generate_series(1, %(versions)s) AS n WHERE organization_id = %(organization)s;

INSERT INTO environments (id, organization_id, name)
SELECT 'b' || lpad(to_hex(n), 23, '0'), %(organization)s, 'region ' || n FROM generate_series(1, 8) AS n;

INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, created_at, labels,
                       destroy_at, destroyed_at, component_count, running_count, jobs_begun)
SELECT lpad(to_hex(extract(epoch FROM created)::bigint), 8, '0') || lpad(to_hex(n), 16, '0'), %(organization)s,
       CASE WHEN n %% 1000 = 7 THEN %(small)s WHEN n %% 2 = 0 THEN %(large)s
            ELSE 'a' || lpad(to_hex(3 + n / 2 %% (%(applications)s - 2)), 23, '0') END,
       CASE WHEN n %% 50 = 3 THEN %(environment)s ELSE 'b' || lpad(to_hex(2 + n / 3 %% 7), 23, '0') END,
       1 + n %% %(versions)s, 'shop-' || md5(n::text), 'c' || lpad(to_hex(1 + n %% (%(people)s - 1)), 23, '0'),
       CASE WHEN n %% 3 = 0 THEN 'Destroyed' WHEN n %% 50 = 1 THEN 'Failed' ELSE 'Running' END, created,
       jsonb_build_object('team', 'team-' || n %% 200, 'tier', CASE WHEN n %% 4 = 0 THEN 'db' ELSE 'web' END),
       CASE WHEN n %% 10 = 1 AND n %% 3 <> 0 THEN now() + n * interval '1 minute' END,
       CASE WHEN n %% 3 = 0 THEN created + interval '10 days' END, 2, 2, %(jobs)s
FROM (SELECT n, date_trunc('second', now()) - interval '180 days' + n * (interval '170 days' / %(instances)s) AS created
      FROM generate_series(1, %(instances)s) AS n) AS numbered;

INSERT INTO jobs (id, instance_id, organization_id, number, name, owner_id, status, plan, steps, error_message, created_at,
                  started_at, finished_at)
SELECT lpad(to_hex(extract(epoch FROM created)::bigint), 8, '0') || lpad(to_hex(one.place * %(jobs)s + number), 16, '0'), id,
       organization_id, number,
       CASE WHEN number = 1 THEN 'launch' WHEN one.place %% 500 = 0 THEN 'restore'
            WHEN number = %(jobs)s AND one.status = 'Destroyed' THEN 'destroy' ELSE 'check' END,
       'c' || lpad(to_hex(1 + (one.place + number) %% (%(people)s - 1)), 23, '0'),
       CASE WHEN number = %(jobs)s AND (one.status = 'Failed' OR one.place %% 97 = 0) THEN 'Failed' ELSE 'Succeeded' END,
       '{"version":1}', '[]',
       CASE WHEN number = %(jobs)s AND one.status = 'Failed' THEN 'The disk is full.'
            WHEN number = %(jobs)s AND one.place %% 97 = 0 THEN 'Cancelled by Admin.' END,
       created, created, created + number * interval '1 second'
FROM (SELECT *, row_number() OVER (ORDER BY id) AS place FROM instances WHERE organization_id = %(organization)s) AS one,
     generate_series(1, %(jobs)s) AS number,
     LATERAL (SELECT one.created_at + number * interval '20 hours' AS created) AS at;

INSERT INTO steps (job_id, path, name, status, is_record, outputs, started_at, finished_at)
SELECT jobs.id, 'step-' || n, 'step ' || n, 'Succeeded', true, '{}', jobs.started_at, jobs.finished_at
FROM jobs, generate_series(1, %(steps)s) AS n WHERE organization_id = %(organization)s;

INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT jobs.instance_id, jobs.id, 'step-' || n, 'info', 'a line of a log', jobs.started_at
FROM jobs, generate_series(1, %(steps)s) AS n WHERE organization_id = %(organization)s;

INSERT INTO fleet (organization_id, instance_id, application_id, environment_id, version, name, owner_id, status, labels,
                   destroy_at, job_id, job_name, job_status, job_ended_at)
SELECT instances.organization_id, instances.id, application_id, environment_id, version, instances.name, instances.owner_id,
       instances.status, labels, coalesce(destroy_at, 'infinity'), last.id, last.name, last.status, last.finished_at
FROM instances JOIN jobs AS last ON last.instance_id = instances.id AND last.number = %(jobs)s
WHERE instances.organization_id = %(organization)s;

INSERT INTO fleet_labels (organization_id, name, value, instance_id)
SELECT organization_id, label.key, label.value, id FROM instances, jsonb_each_text(labels) AS label
WHERE organization_id = %(organization)s;

INSERT INTO fleet_jobs (job_id, organization_id, instance_id, application_id, environment_id, owner_id, name, status, created_at,
                        finished_at)
SELECT jobs.id, jobs.organization_id, instance_id, application_id, environment_id, jobs.owner_id, jobs.name, jobs.status,
       jobs.created_at, finished_at
FROM jobs JOIN instances ON instances.id = instance_id WHERE jobs.organization_id = %(organization)s ORDER BY jobs.created_at;

INSERT INTO audit_entries (organization_id, at, actor_id, actor_email, method, address, operation, object, object_id, after)
SELECT organization_id, created_at, owner_id, 'Person' || owner_id || '@grown.example', 'POST', '127.0.0.1',
       CASE WHEN name = 'launch' THEN 'launch_application' ELSE 'run_workflow' END,
       CASE WHEN name = 'launch' THEN '/applications/' || application_id || '/instances/' || instance_id
            ELSE '/applications/' || application_id || '/instances/' || instance_id || '/workflows/' || name END,
       CASE WHEN name = 'launch' THEN instance_id ELSE name END, '{"job": "' || job_id || '"}'
FROM fleet_jobs WHERE organization_id = %(organization)s ORDER BY created_at;

INSERT INTO audit_entries (organization_id, actor_id, actor_email, method, address, operation, object, object_id)
SELECT %(organization)s, %(administrator)s, 'Admin@grown.example', 'DELETE', '127.0.0.1', %(rare)s, '/applications/' || n, n
FROM generate_series(1, 3) AS n;

INSERT INTO zones (id, organization_id, name)
SELECT substr(md5('zone' || %(organization)s), 1, 24), %(organization)s, 'grown' WHERE NOT EXISTS (SELECT FROM zones WHERE organization_id = %(organization)s);

INSERT INTO services (id, organization_id, zone_id, name, type_id)
SELECT 'e' || lpad(to_hex(n), 23, '0'), %(organization)s, (SELECT min(id) FROM zones WHERE organization_id = %(organization)s), 'vault ' || n, 'vault'
FROM generate_series(1, 3) AS n;

INSERT INTO environment_services (environment_id, service_id)
SELECT environments.id, services.id FROM environments JOIN services USING (organization_id)
WHERE organization_id = %(organization)s AND services.type_id = 'vault';

-- Each instance has read a secret of all, one of its application and one of its own; one read in a hundred is of an older version.
INSERT INTO secret_reads (service_id, instance_id, component, step, secret, job_id, read_at, version)
SELECT 'e' || lpad(to_hex(kind), 23, '0'), instances.id, 'web', 'step-1',
       CASE kind WHEN 1 THEN 'shared/db#password' WHEN 2 THEN 'apps/' || instances.application_id || '#token' ELSE 'instances/' || instances.id || '#key' END,
       fleet.job_id, fleet.job_ended_at, CASE WHEN substr(md5(instances.id || kind), 1, 2) < '03' THEN '1' ELSE '2' END
FROM fleet JOIN instances ON instances.id = fleet.instance_id, generate_series(1, 3) AS kind
WHERE fleet.organization_id = %(organization)s;

INSERT INTO secret_versions (service_id, path, version, seen_at)
SELECT DISTINCT service_id, split_part(secret, '#', 1), '2', now() FROM secret_reads
WHERE service_id IN (SELECT id FROM services WHERE organization_id = %(organization)s);

-- One in eight has drifted, has a schedule, asks somebody, or is in a change set.
INSERT INTO drift_reports (instance_id, organization_id, new_findings, checked_at)
SELECT instance_id, organization_id, 1, now() FROM fleet WHERE organization_id = %(organization)s AND right(instance_id, 1) IN ('1', '2');

INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at, organization_id)
SELECT '5' || substr(instance_id, 2), instance_id, 'workflow', 'check', owner_id, now() + interval '1 day', organization_id FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) IN ('3', '4') AND status <> 'Destroyed';

INSERT INTO approvals (id, organization_id, instance_id, job_id, step, text, needed, requesters, not_by_requester, expires_at)
SELECT '6' || substr(instance_id, 2), organization_id, instance_id, job_id, 'step-1', 'Continue?', 1, '{}', false, now() + interval '1 day' FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) IN ('5', '6') AND status <> 'Destroyed';

INSERT INTO change_sets (id, organization_id, owner_id, owner_email, act, kind, comment, on_failure, needed, role_ids, status, expires_at)
SELECT '7' || substr(instance_id, 2), organization_id, owner_id, 'Person' || owner_id || '@grown.example', '', 'destroy', '', 'stop', 1, '{}',
       CASE right(instance_id, 1) WHEN '7' THEN 'Pending' ELSE 'Succeeded' END, now() + interval '1 day' FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) IN ('7', '8');

INSERT INTO change_set_instances (change_set_id, place, instance_id, instance_name, application_id, environment_id, promise, facts, status)
SELECT '7' || substr(instance_id, 2), 1, instance_id, name, application_id, environment_id, '{}', '{}', 'Planned' FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) IN ('7', '8');

INSERT INTO bulk_runs (id, organization_id, owner_id, owner_email, owner_name, address, method, act, status, max_parallel, finished_at)
SELECT '8' || substr(instance_id, 2), organization_id, owner_id, 'Person' || owner_id || '@grown.example', 'Person', '127.0.0.1', 'console',
       '{"act": "destroy"}', 'Finished', 1, now() FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) = '9';

INSERT INTO bulk_instances (bulk_id, place, instance_id, instance_name, application_id, environment_id, status)
SELECT '8' || substr(instance_id, 2), 1, instance_id, name, application_id, environment_id, 'Succeeded' FROM fleet
WHERE organization_id = %(organization)s AND right(instance_id, 1) = '9';
