-- name: get_key_marks
-- What begins everything that is encrypted with the newest secret key, five bytes, and the same of keys that a rotation replaces.
SELECT value FROM server_keys WHERE name = 'secret key';

-- name: propose_key_marks
-- Keeps them unless there are some. The first server decides for all; read with `get_key_marks` after.
INSERT INTO server_keys (name, value) VALUES ('secret key', %(marks)s) ON CONFLICT DO NOTHING;

-- name: lock_key_marks
-- Waits for transactions that have written encrypted values, and holds up later ones until the end of this one.
SELECT pg_advisory_xact_lock(5064719320042) IS NULL;

-- name: set_key_marks
INSERT INTO server_keys (name, value) VALUES ('secret key', %(marks)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: report_key
-- Notes which key a process uses, if that has changed or its note is old, and returns the marks.
WITH noted AS (
    INSERT INTO key_users (id, name, mark) VALUES (%(id)s, %(name)s, %(mark)s)
    ON CONFLICT (id) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at
    WHERE key_users.mark IS DISTINCT FROM excluded.mark OR key_users.seen_at < excluded.seen_at - interval '10 seconds'
)
SELECT value FROM server_keys WHERE name = 'secret key' AND set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- name: remove_key_users
-- A process that ends, and those that ended without a word.
DELETE FROM key_users WHERE id = %(id)s OR seen_at < clock_timestamp() - interval '1 day';

-- name: list_key_users
-- Live processes.
SELECT name, mark FROM key_users WHERE seen_at > clock_timestamp() - %(live_s)s * interval '1 second' ORDER BY name;

-- name: lock_keys
-- Lets one server at a time make or drop keys, until the end of its transaction.
SELECT pg_advisory_xact_lock(%(number)s)::text;

-- name: list_session_keys
-- Every key, the newest first, with its age in seconds on the database's clock.
SELECT id, sealed, extract(epoch FROM clock_timestamp() - created_at)::double precision AS age_s
FROM session_keys ORDER BY created_at DESC, id DESC;

-- name: insert_session_key
-- A key that waited for another one is the newer of the two, although its transaction began before.
INSERT INTO session_keys (id, sealed, created_at) VALUES (%(id)s, %(sealed)s, clock_timestamp());

-- name: delete_session_key
DELETE FROM session_keys WHERE id = ANY (%(ids)s::text[]);

-- name: list_identity_keys
-- Every key that signs tokens of jobs, the newest first, with its age in seconds on the database's clock.
SELECT id, sealed, extract(epoch FROM clock_timestamp() - created_at)::double precision AS age_s
FROM identity_keys ORDER BY created_at DESC, id DESC;

-- name: insert_identity_key
-- As of sessions.
INSERT INTO identity_keys (id, sealed, created_at) VALUES (%(id)s, %(sealed)s, clock_timestamp());

-- name: delete_identity_key
DELETE FROM identity_keys WHERE id = ANY (%(ids)s::text[]);

-- What is sealed with the server's secret key, page by page, as far as it does not begin with the mark of the key that seals now.
-- A new form is written only over the one that was read: somebody else may have sealed something new meanwhile.

-- name: parameters
SELECT service_id AS id, name AS part, sealed FROM service_secrets
WHERE (service_id, name) > (%(id)s, %(part)s) AND substring(sealed FROM 1 FOR 5) <> %(mark)s
ORDER BY service_id, name LIMIT %(count)s;

-- name: put_parameter
UPDATE service_secrets SET sealed = %(sealed)s WHERE service_id = %(id)s AND name = %(part)s AND sealed = %(before)s;

-- name: vault
SELECT service_id AS id, id AS part, sealed FROM vault_entries
WHERE (service_id, id) > (%(id)s, %(part)s) AND substring(sealed FROM 1 FOR 5) <> %(mark)s
ORDER BY service_id, id LIMIT %(count)s;

-- name: put_vault
UPDATE vault_entries SET sealed = %(sealed)s WHERE id = %(part)s AND sealed = %(before)s;

-- name: second_factors
SELECT id, '' AS part, secret AS sealed FROM second_factors
WHERE id > %(id)s AND substring(secret FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_second_factor
UPDATE second_factors SET secret = %(sealed)s WHERE id = %(id)s AND secret = %(before)s;

-- name: sources
SELECT id, '' AS part, sealed_source AS sealed FROM applications
WHERE id > %(id)s AND substring(sealed_source FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_source
UPDATE applications SET sealed_source = %(sealed)s WHERE id = %(id)s AND sealed_source = %(before)s;

-- name: session_keys
SELECT id, '' AS part, sealed FROM session_keys
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_session_key
UPDATE session_keys SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;

-- name: identity_keys
SELECT id, '' AS part, sealed FROM identity_keys
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_identity_key
UPDATE identity_keys SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;

-- name: answers
SELECT user_id AS id, key AS part, answer AS sealed FROM idempotency_keys
WHERE (user_id, key) > (%(id)s, %(part)s) AND substring(answer FROM 1 FOR 5) <> %(mark)s
ORDER BY user_id, key LIMIT %(count)s;

-- name: put_answer
UPDATE idempotency_keys SET answer = %(sealed)s WHERE user_id = %(id)s AND key = %(part)s AND answer = %(before)s;

-- name: step_documents
SELECT id, '' AS part, sealed FROM kept_documents
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_step_document
UPDATE kept_documents SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;

-- name: passing_values
SELECT id, '' AS part, sealed FROM passing_values
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_passing_value
UPDATE passing_values SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;

-- name: sign_ins
SELECT id, '' AS part, sealed FROM cloud_sign_ins
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sign_in
UPDATE cloud_sign_ins SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;

-- name: bindings
-- What instances keep of the services that they are connected to has sealed parameters in it.
SELECT instance_id AS id, component AS part, target_id AS owner_id, binding AS text FROM instance_links
WHERE (instance_id, component) > (%(id)s, %(part)s) AND kind = 'service-instance' AND binding IS NOT NULL
ORDER BY instance_id, component LIMIT %(count)s;

-- name: put_binding
UPDATE instance_links SET binding = %(text)s
WHERE instance_id = %(id)s AND component = %(part)s AND binding = %(before)s;

-- name: outputs
SELECT steps.job_id AS id, steps.path AS part, instances.organization_id AS owner_id, steps.outputs AS text
FROM steps JOIN jobs ON jobs.id = steps.job_id JOIN instances ON instances.id = jobs.instance_id
WHERE (steps.job_id, steps.path) > (%(id)s, %(part)s) AND steps.outputs LIKE '%%launchbay:sealed:%%'
ORDER BY steps.job_id, steps.path LIMIT %(count)s;

-- name: put_output
UPDATE steps SET outputs = %(text)s WHERE job_id = %(id)s AND path = %(part)s AND outputs = %(before)s;

-- name: plans
SELECT jobs.id, '' AS part, instances.organization_id AS owner_id, jobs.plan AS text
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.id > %(id)s AND jobs.plan LIKE '%%launchbay:sealed:%%' ORDER BY jobs.id LIMIT %(count)s;

-- name: put_plan
UPDATE jobs SET plan = %(text)s WHERE id = %(id)s AND plan = %(before)s;

-- name: results
SELECT jobs.id, '' AS part, instances.organization_id AS owner_id, jobs.results AS text
FROM jobs JOIN instances ON instances.id = jobs.instance_id
WHERE jobs.id > %(id)s AND jobs.results LIKE '%%launchbay:sealed:%%' ORDER BY jobs.id LIMIT %(count)s;

-- name: put_result
UPDATE jobs SET results = %(text)s WHERE id = %(id)s AND results = %(before)s;

-- name: states
SELECT id, '' AS part, organization_id AS owner_id, state AS text FROM instances
WHERE id > %(id)s AND state LIKE '%%launchbay:sealed:%%' ORDER BY id LIMIT %(count)s;

-- name: put_state
UPDATE instances SET state = %(text)s WHERE id = %(id)s AND state = %(before)s;

-- name: values
SELECT id, '' AS part, organization_id AS owner_id, return_values AS text FROM instances
WHERE id > %(id)s AND return_values LIKE '%%launchbay:sealed:%%' ORDER BY id LIMIT %(count)s;

-- name: put_value
UPDATE instances SET return_values = %(text)s WHERE id = %(id)s AND return_values = %(before)s;

-- name: fed_signals
SELECT id, '' AS part, organization_id AS owner_id, fed_signals AS text FROM instances
WHERE id > %(id)s AND fed_signals LIKE '%%launchbay:sealed:%%' ORDER BY id LIMIT %(count)s;

-- name: put_fed_signals
UPDATE instances SET fed_signals = %(text)s WHERE id = %(id)s AND fed_signals = %(before)s;
