-- name: list_providers
-- The services of an environment with this name.
SELECT services.id, services.type_id, services.parameters
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s AND services.name = %(name)s;

-- name: insert
INSERT INTO secret_sessions (id, organization_id, environment_id, job_id, path, attempt, provider, type_id, sealed, lease_s, renew_at,
    expires_at, next_at)
VALUES (%(id)s, %(organization_id)s, %(environment_id)s, %(job_id)s, %(path)s, %(attempt)s, %(provider)s, %(type_id)s, %(sealed)s,
        %(lease_s)s, %(renew_at)s, %(expires_at)s, %(now)s)
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
-- Sessions of ended attempts that couldn't be revoked, those that stay open longest first.
SELECT coalesce(organizations.name, secret_sessions.organization_id) AS organization, provider, job_id,
    coalesce(message, '') AS message, expires_at
FROM secret_sessions LEFT JOIN organizations ON organizations.id = secret_sessions.organization_id
WHERE failures > 0 AND NOT EXISTS (SELECT FROM needed_secret_sessions AS needed WHERE needed.id = secret_sessions.id)
ORDER BY expires_at DESC LIMIT %(count)s;

-- name: remove
DELETE FROM secret_sessions WHERE id = %(id)s;

-- name: list_sealed
SELECT id, '' AS part, sealed FROM secret_sessions
WHERE id > %(id)s AND substring(sealed FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed
UPDATE secret_sessions SET sealed = %(sealed)s WHERE id = %(id)s AND sealed = %(before)s;
