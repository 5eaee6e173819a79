-- name: list_providers
-- The services of an environment with this name.
SELECT services.id, services.type_id, services.parameters
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s AND services.name = %(name)s;

-- name: insert
INSERT INTO secret_sessions (id, organization_id, environment_id, job_id, path, attempt, provider, type_id, sealed, lease_s, renew_at,
    expires_at, next_at)
VALUES (%(id)s, %(organization_id)s, %(environment_id)s, %(job_id)s, %(path)s, %(attempt)s, %(provider)s, %(type_id)s, %(sealed)s,
        %(lease_s)s, %(renew_at)s, %(expires_at)s, %(next_at)s)
ON CONFLICT (id) DO NOTHING; -- its answer was lost

-- name: add_lease
UPDATE secret_sessions
SET leases = (leases::jsonb || to_jsonb(%(lease)s::text))::text, renew_at = least(renew_at, %(renew_at)s)
WHERE id = %(id)s AND organization_id = %(organization_id)s;

-- name: list_due
-- Providers of organizations with sessions to renew or to revoke, who waits longest first. `but` has organizations, and both in one text.
SELECT organization_id, provider, count(*) AS sessions FROM secret_sessions
WHERE next_at <= %(now)s AND NOT ARRAY[organization_id, organization_id || ' ' || provider] && %(but)s::text[]
  AND (renew_at <= %(now)s OR NOT EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = secret_sessions.id))
GROUP BY organization_id, provider ORDER BY min(next_at) LIMIT %(count)s;

-- name: claim
-- Takes a session of a provider for a while. No row: nothing is due there, or others have it.
UPDATE secret_sessions SET next_at = %(until)s WHERE id = (
    SELECT id FROM secret_sessions AS due
    WHERE organization_id = %(organization_id)s AND provider = %(provider)s AND next_at <= %(now)s
      AND (renew_at <= %(now)s OR NOT EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = due.id))
    ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, organization_id, environment_id, job_id, provider, type_id, sealed, leases, lease_s, expires_at, failures,
    EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = secret_sessions.id) AS is_needed;

-- name: renewed
-- If a lease was added meanwhile, nobody knows yet when that one ends.
UPDATE secret_sessions
SET renew_at = CASE WHEN leases = %(leases)s THEN %(renew_at)s::timestamptz ELSE %(now)s END, leases = (leases::jsonb - %(lost)s::text[])::text,
    expires_at = %(expires_at)s, next_at = %(now)s, failures = %(failures)s, message = %(message)s
WHERE id = %(id)s;

-- name: failed
UPDATE secret_sessions SET next_at = %(next_at)s, failures = failures + 1, message = %(message)s WHERE id = %(id)s;

-- name: list_stuck
-- Providers with sessions of ended attempts that couldn't be revoked, and the one that stays open longest.
SELECT DISTINCT ON (secret_sessions.organization_id, provider)
    coalesce(organizations.name, secret_sessions.organization_id) AS organization, provider, job_id,
    coalesce(message, '') AS message, expires_at, count(*) OVER (PARTITION BY secret_sessions.organization_id, provider) AS sessions
FROM secret_sessions LEFT JOIN organizations ON organizations.id = secret_sessions.organization_id
WHERE failures > 0 AND NOT EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = secret_sessions.id)
ORDER BY secret_sessions.organization_id, provider, expires_at DESC LIMIT %(count)s;

-- name: list_stuck_of
-- Such sessions of one provider, those that stay open longest first.
SELECT coalesce(organizations.name, secret_sessions.organization_id) AS organization, provider, job_id,
    coalesce(message, '') AS message, expires_at
FROM secret_sessions LEFT JOIN organizations ON organizations.id = secret_sessions.organization_id
WHERE secret_sessions.organization_id = %(organization_id)s AND provider = %(provider)s
  AND failures > 0 AND NOT EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = secret_sessions.id)
ORDER BY expires_at DESC LIMIT %(count)s;

-- name: note_reads
-- The last read of each secret by a step. A manifest may compute references: an instance has so many rows at most.
INSERT INTO secret_reads (service_id, instance_id, component, step, secret, job_id, read_at, version)
SELECT services.id, instances.id, %(component)s, %(step)s, read.secret, %(job_id)s, %(now)s, read.version
FROM services, instances, unnest(%(secrets)s::text[], %(versions)s::text[]) AS read (secret, version)
WHERE services.id = %(service_id)s AND instances.id = %(instance_id)s AND (
    (SELECT count(*) FROM secret_reads WHERE service_id = services.id AND instance_id = instances.id) < %(most)s
    OR EXISTS (
        SELECT FROM secret_reads AS known
        WHERE known.service_id = services.id AND known.instance_id = instances.id
          AND (known.component, known.step, known.secret) = (%(component)s, %(step)s, read.secret)))
FOR KEY SHARE OF services, instances
ON CONFLICT (service_id, instance_id, component, step, secret) DO UPDATE
SET job_id = excluded.job_id, read_at = excluded.read_at, version = excluded.version;

-- name: get_version
SELECT version FROM secret_versions WHERE service_id = %(service_id)s AND path = %(path)s;

-- name: list_unchecked
-- Services with secrets that nobody has looked at for so long, who waits longest first; `until` is when the last of
-- them was looked at.
SELECT service_id, max(checked_at) AS until FROM secret_versions
WHERE checked_at <= %(now)s::timestamptz - interval '1 hour' AND service_id <> ALL (%(but)s::text[])
GROUP BY service_id ORDER BY min(checked_at) LIMIT %(count)s;

-- name: take_unchecked
-- Takes such secrets of a service. Others have their turn in an hour, also if this process dies.
UPDATE secret_versions SET checked_at = %(now)s WHERE (service_id, path) IN (
    SELECT due.service_id, due.path FROM secret_versions AS due
    WHERE due.service_id = %(service_id)s AND due.checked_at <= %(until)s
    ORDER BY due.checked_at LIMIT %(count)s FOR UPDATE SKIP LOCKED)
RETURNING path;

-- name: delete_unread
-- Deletes taken secrets that no instance has read. A read that goes on waits for it, and notes the version anew.
DELETE FROM secret_versions
WHERE service_id = %(service_id)s AND path = ANY (%(paths)s::text[]) AND NOT EXISTS (
    SELECT FROM secret_reads JOIN instances ON instances.id = secret_reads.instance_id AND instances.status <> 'Destroyed'
    WHERE secret_reads.service_id = secret_versions.service_id AND split_part(secret_reads.secret, '#', 1) = secret_versions.path);

-- name: list_last_readers
-- Taken secrets, each with the step that read it last where the service is still offered, and what is known of its job. Of a secret that
-- many instances read, the newest reads are looked at first, and no more than needed: OFFSET keeps the order within.
SELECT services.id, services.name, services.type_id, services.parameters, services.organization_id,
    organizations.name AS organization, environments.id AS environment_id, environments.name AS environment,
    environments.policies, applications.id AS application_id, applications.name AS application, last.version,
    last.revision_id, last.instance_id, last.instance, last.owner_id, last.component,
    last.step, coalesce(jobs.name, 'launch') AS workflow, taken.path
FROM services CROSS JOIN unnest(%(paths)s::text[]) AS taken (path)
    CROSS JOIN LATERAL (
        SELECT newest.component, newest.step, newest.job_id, instances.id AS instance_id, instances.name AS instance, instances.version,
            instances.revision_id, instances.owner_id, instances.environment_id, instances.application_id
        FROM (
            SELECT instance_id, component, step, job_id, read_at FROM secret_reads
            WHERE secret_reads.service_id = services.id AND split_part(secret_reads.secret, '#', 1) = taken.path
            ORDER BY read_at DESC OFFSET 0
        ) AS newest
        JOIN instances ON instances.id = newest.instance_id AND instances.status <> 'Destroyed'
        JOIN environment_services ON environment_services.service_id = services.id
            AND environment_services.environment_id = instances.environment_id
        ORDER BY newest.read_at DESC LIMIT 1
    ) AS last
    JOIN environments ON environments.id = last.environment_id
    JOIN applications ON applications.id = last.application_id
    JOIN organizations ON organizations.id = services.organization_id
    LEFT JOIN jobs ON jobs.id = last.job_id
WHERE services.id = %(service_id)s
ORDER BY taken.path;

-- name: note_version
-- The version of a secret, unless somebody has seen a later one. Who sees the same one again has looked, noted once a minute: what steps
-- read just now isn't due, so `delete_unread` leaves it until they have noted their read.
INSERT INTO secret_versions (service_id, path, version, seen_at, checked_at)
SELECT services.id, %(path)s, %(version)s, %(seen_at)s, %(seen_at)s FROM services WHERE services.id = %(service_id)s FOR KEY SHARE
ON CONFLICT (service_id, path) DO UPDATE
SET version = excluded.version, seen_at = excluded.seen_at, checked_at = greatest(secret_versions.checked_at, excluded.checked_at)
WHERE secret_versions.seen_at < excluded.seen_at AND (secret_versions.version <> excluded.version
    OR secret_versions.checked_at <= excluded.checked_at - interval '1 minute');

-- name: list_changed
-- What steps of an instance read, and has another version since: so many secrets, with all that read them, and how many are left out.
WITH changed AS (
    SELECT services.name AS provider, secret, component, step, read_at, job_id, dense_rank() OVER (ORDER BY services.name, secret) AS place
    FROM changed_secrets JOIN secret_reads USING (service_id, instance_id, component, step, secret)
        JOIN services ON services.id = service_id
    WHERE instance_id = %(instance_id)s
)
SELECT provider, secret, component, step, read_at, job_id, greatest((SELECT max(place) FROM changed) - %(count)s::integer, 0)::integer AS left_out
FROM changed WHERE place <= %(count)s::integer
ORDER BY provider, secret, component, step;

-- name: list_reads
-- Who has read from a service, the newest reads first.
WITH newest AS (
    SELECT * FROM secret_reads WHERE service_id = %(service_id)s ORDER BY read_at DESC FETCH FIRST %(count)s ROWS WITH TIES
)
SELECT applications.id AS application_id, applications.name AS application, environments.id AS environment_id,
    environments.name AS environment, instances.id AS instance_id, instances.name AS instance,
    newest.component, newest.step, newest.secret, newest.job_id, newest.read_at,
    coalesce(secret_versions.version <> newest.version, false) AS is_changed
FROM newest LEFT JOIN secret_versions ON secret_versions.service_id = newest.service_id
        AND secret_versions.path = split_part(newest.secret, '#', 1)
    JOIN instances ON instances.id = newest.instance_id
    JOIN applications ON applications.id = instances.application_id
    JOIN environments ON environments.id = instances.environment_id
ORDER BY newest.read_at DESC, instances.name, newest.step, newest.secret LIMIT %(count)s;

-- name: count_readers
-- How many instances have read from each service of an organization, or use it otherwise, where some have read.
WITH providers AS MATERIALIZED (
    SELECT id FROM services
    WHERE organization_id = %(organization_id)s AND EXISTS (SELECT FROM secret_reads WHERE secret_reads.service_id = services.id)
), used AS (
    SELECT service_id AS id, instance_id FROM secret_reads WHERE service_id IN (SELECT id FROM providers)
    UNION SELECT target_id, instance_id FROM instance_links WHERE target_id IN (SELECT id FROM providers)
)
SELECT used.id, count(*)::integer AS instances
FROM used JOIN fleet ON fleet.organization_id = %(organization_id)s AND fleet.instance_id = used.instance_id AND fleet.status <> 'Destroyed'
GROUP BY used.id;

-- name: list_dependents
-- Instances that have read from a service that their environment still offers, by name.
SELECT DISTINCT instances.name AS instance, environments.name AS environment
FROM secret_reads JOIN instances ON instances.id = secret_reads.instance_id AND instances.status <> 'Destroyed'
    JOIN environment_services ON environment_services.service_id = secret_reads.service_id
        AND environment_services.environment_id = instances.environment_id
    JOIN environments ON environments.id = instances.environment_id
WHERE secret_reads.service_id = %(service_id)s
ORDER BY instances.name, environments.name LIMIT %(count)s;

-- name: list_neighbors
-- The sealed parameters of other services that share an environment with this one.
SELECT DISTINCT services.id, services.name AS service, service_secrets.name, service_secrets.sealed
FROM environment_services AS own JOIN environment_services AS other ON other.environment_id = own.environment_id
    JOIN services ON services.id = other.service_id
    JOIN service_secrets ON service_secrets.service_id = services.id
WHERE own.service_id = %(service_id)s AND services.id <> own.service_id ORDER BY services.name, services.id, service_secrets.name;

-- name: remove
DELETE FROM secret_sessions WHERE id = %(id)s;

-- name: list_sealed
SELECT id, '' AS part, sealed FROM secret_sessions
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE secret_sessions SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;
