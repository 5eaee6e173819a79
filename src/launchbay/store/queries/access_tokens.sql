-- name: insert
INSERT INTO access_tokens (id, organization_id, user_id, name, scope, token_hash, parent_id, expires_at)
SELECT %(id)s, %(organization_id)s, %(user_id)s, %(name)s, %(scope)s, %(token_hash)s, %(parent_id)s,
       least(now() + %(lifetime_s)s * interval '1 second', parent.expires_at)
FROM (SELECT) AS once LEFT JOIN access_tokens parent ON parent.id = %(parent_id)s
RETURNING created_at, expires_at;

-- name: count_by_owner
SELECT count(*) FROM access_tokens WHERE user_id = %(user_id)s AND expires_at > now();

-- name: get_by_hash
-- The owner of a token, while both are in order, and whether its last use is to be written.
SELECT t.id, t.organization_id, t.name, t.scope, u.id AS user_id, u.email, u.name AS user_name,
       coalesce(t.last_used_at < now() - interval '1 minute', true) AS is_use_due
FROM access_tokens t JOIN users u ON u.id = t.user_id
WHERE t.token_hash = %(token_hash)s AND t.expires_at > now() AND u.enabled;

-- name: set_last_used
UPDATE access_tokens SET last_used_at = now()
WHERE id = %(id)s AND coalesce(last_used_at < now() - interval '1 minute', true);

-- name: list_by_organization
-- The tokens of an organization, or those of one owner there, without their secrets.
SELECT t.id, t.name, t.scope, t.user_id, u.name AS user_name, u.email, u.service_of IS NOT NULL AS is_service,
       t.created_at, t.expires_at, t.last_used_at
FROM access_tokens t JOIN users u ON u.id = t.user_id
WHERE t.organization_id = %(organization_id)s AND t.expires_at > now()
  AND (%(owner_id)s::text IS NULL OR t.user_id = %(owner_id)s)
ORDER BY t.id;

-- name: list_by_owner
-- A person's tokens in the organizations that the person belongs to, by the names of these.
SELECT o.id AS organization_id, o.name AS organization, t.id, t.name, t.scope, t.user_id, u.name AS user_name, u.email,
       u.service_of IS NOT NULL AS is_service, t.created_at, t.expires_at, t.last_used_at
FROM access_tokens t
JOIN users u ON u.id = t.user_id
JOIN organizations o ON o.id = t.organization_id
JOIN memberships m ON m.organization_id = o.id AND m.user_id = t.user_id
WHERE t.user_id = %(user_id)s AND t.expires_at > now()
ORDER BY o.name, o.id, t.id;

-- name: delete
-- With the tokens made with it.
DELETE FROM access_tokens WHERE id = %(id)s;

-- name: delete_by_user
DELETE FROM access_tokens WHERE user_id = %(user_id)s;

-- name: delete_expired
DELETE FROM access_tokens WHERE id IN (
    SELECT id FROM access_tokens WHERE expires_at <= now() LIMIT %(count)s FOR UPDATE SKIP LOCKED
);

-- name: insert_service_account
INSERT INTO users (id, email, name, description, service_of, home_organization_id)
VALUES (%(id)s, %(email)s, %(name)s, %(description)s, %(organization_id)s, %(organization_id)s);

-- name: list_service_accounts
-- The service accounts of an organization, or the one with the ID.
SELECT u.id, u.name, u.email, u.description, u.enabled, u.created_at,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}')
        FROM role_assignments a JOIN roles r ON r.id = a.role_id
        WHERE a.user_id = u.id AND r.organization_id = u.service_of) AS roles
FROM users u WHERE u.service_of = %(organization_id)s AND (%(id)s::text IS NULL OR u.id = %(id)s)
ORDER BY u.id;

-- name: update_service_account
UPDATE users SET name = %(name)s, description = %(description)s
WHERE id = %(id)s AND service_of = %(organization_id)s;

-- name: get_acting
-- The access token with which somebody began what acts later, while it is good.
SELECT id, name, organization_id, scope FROM access_tokens WHERE id = %(token_id)s AND expires_at > now();
