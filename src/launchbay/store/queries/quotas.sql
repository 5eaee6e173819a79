-- name: list_allowed
-- What the operator has set; the settings hold for the rest.
SELECT organization_id, quota, allowed FROM organization_quotas;

-- name: set_allowed
INSERT INTO organization_quotas (organization_id, quota, allowed) VALUES (%(organization_id)s, %(quota)s, %(allowed)s)
ON CONFLICT (organization_id, quota) DO UPDATE SET allowed = excluded.allowed;

-- name: reset_allowed
DELETE FROM organization_quotas WHERE organization_id = %(organization_id)s AND quota = %(quota)s;

-- name: count
-- Used amounts in the order of the quotas, each counted no further than its entry in `most`.
SELECT launchbay_usage(%(organization_id)s, quota, most)
FROM unnest(%(quotas)s::text[], %(most)s::bigint[]) WITH ORDINALITY AS asked (quota, most, place) ORDER BY place;

-- name: lock
-- Until the end of the transaction, no other one counts this quota of the organization.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay quota ' || %(organization_id)s || %(quota)s, 0)) IS NULL;

-- name: add_bytes
-- What a worker has written since its last call. Returns the sums.
INSERT INTO organization_bytes AS known (organization_id, log_bytes, journal_bytes)
SELECT organizations.id, written.log_bytes, written.journal_bytes
FROM unnest(%(organization_ids)s::text[], %(log_bytes)s::bigint[], %(journal_bytes)s::bigint[]) AS written (id, log_bytes, journal_bytes)
JOIN organizations ON organizations.id = written.id ORDER BY organizations.id
ON CONFLICT (organization_id) DO UPDATE
SET log_bytes = known.log_bytes + excluded.log_bytes, journal_bytes = known.journal_bytes + excluded.journal_bytes
RETURNING organization_id, log_bytes;

-- name: list_counted_changes
-- Organizations whose number of instances has changed since it was added up.
SELECT organization_id FROM instance_count_changes LIMIT %(count)s;

-- name: fold_instance_counts
-- Adds up what has changed. One at a time: a second one would wait for the rows that this one deletes.
WITH changes AS (
    DELETE FROM instance_count_changes
    WHERE (SELECT pg_try_advisory_xact_lock(hashtextextended('launchbay instance counts', 0)))
    RETURNING organization_id, added
)
INSERT INTO instance_counts AS known (organization_id, live)
SELECT organization_id, sum(added) FROM changes GROUP BY organization_id
ON CONFLICT (organization_id) DO UPDATE SET live = known.live + excluded.live;

-- name: list_miscounted
-- Organizations whose number of instances is another one than is kept, by how much. One statement sees both at the same moment.
SELECT organization_id, sum(live)::bigint AS missing
FROM (
    SELECT organization_id, count(*) AS live FROM instances WHERE destroyed_at IS NULL GROUP BY organization_id
    UNION ALL SELECT organization_id, -live FROM instance_counts
    UNION ALL SELECT organization_id, -added FROM instance_count_changes
) AS counted
GROUP BY organization_id HAVING sum(live) <> 0 ORDER BY organization_id;

-- name: correct_instance_count
-- Counts the instances of an organization, and adds what is missing from the kept number. Returns that.
INSERT INTO instance_count_changes (organization_id, added)
SELECT %(organization_id)s, counted.live - launchbay_usage(%(organization_id)s, 'instances', NULL)
FROM (SELECT count(*) AS live FROM instances WHERE organization_id = %(organization_id)s AND destroyed_at IS NULL) AS counted
WHERE counted.live <> launchbay_usage(%(organization_id)s, 'instances', NULL)
RETURNING added;

-- name: claim_measurement
-- The organization whose rows were looked at longest ago, if that is long ago, and a hundred times as long as the last look took.
-- Unless this look takes longer than that, no other server looks at them meanwhile.
UPDATE organization_bytes SET measured_at = now()
WHERE organization_id = (
    SELECT organization_id FROM organization_bytes
    WHERE measured_at < now() - interval '1 second' * greatest(100 * took_s, %(interval_s)s)
    ORDER BY measured_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING organization_id;

-- name: measure
-- What the rows of the next instances of an organization contain, and the last of these instances: null if there are no more.
-- Instance by instance: a join of all of them may read both tables as a whole.
SELECT max(measured.id) AS last_id, coalesce(sum(log.bytes), 0)::bigint AS log_bytes,
       coalesce(sum(journal.bytes), 0)::bigint AS journal_bytes
FROM (
    SELECT id FROM instances WHERE organization_id = %(organization_id)s AND id > %(after)s ORDER BY id LIMIT %(instances)s
) AS measured
CROSS JOIN LATERAL (
    SELECT sum(octet_length(text)) AS bytes FROM log_lines WHERE instance_id = measured.id
) AS log
CROSS JOIN LATERAL (
    SELECT sum(octet_length(steps.path) + coalesce(octet_length(steps.outputs), 0) + coalesce(octet_length(steps.error_message), 0)
               + coalesce(octet_length(steps.inputs), 0)) AS bytes
    FROM jobs JOIN steps ON steps.job_id = jobs.id WHERE jobs.instance_id = measured.id
) AS journal;

-- name: set_measured
UPDATE organization_bytes
SET log_bytes = %(log_bytes)s, journal_bytes = %(journal_bytes)s, measured_at = now(), took_s = %(took_s)s
WHERE organization_id = %(organization_id)s;

-- name: exchange_activity
-- Tells who sends requests to a server, and gives who does to others of its machine, once for each. A lost row is told again a second later.
WITH told AS (
    INSERT INTO server_activity (server, machine, organizations)
    VALUES (%(server)s, %(machine)s, %(organizations)s::text[])
    ON CONFLICT (server) DO UPDATE SET organizations = excluded.organizations, told_at = excluded.told_at
), forgotten AS (
    DELETE FROM server_activity WHERE told_at < now() - interval '1 minute' AND server <> %(server)s
)
SELECT unnest(organizations) FROM server_activity
WHERE machine = %(machine)s AND server <> %(server)s AND told_at > now() - %(heard_s)s * interval '1 second'
      AND set_config('synchronous_commit', 'off', true) IS NOT NULL;
