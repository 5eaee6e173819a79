-- name: credentials
-- What a sign-in is verified against. E-mail addresses are compared without regard to case.
SELECT id, email, name, password_hash, enabled, access_stamp FROM users WHERE lower(email) = lower(%(email)s);

-- name: by_id
SELECT id, email, name, enabled, created_at FROM users WHERE id = %(id)s;

-- name: insert
INSERT INTO users (id, email, name, password_hash) VALUES (%(id)s, %(email)s, %(name)s, %(password_hash)s);

-- name: set_password
-- A new password ends every verification of the old one.
UPDATE users SET password_hash = %(password_hash)s, access_stamp = nextval('access_stamps') WHERE id = %(id)s;

-- name: renew_hash
-- The same password, hashed with today's parameters: what was verified stays verified. No row: it was changed meanwhile.
UPDATE users SET password_hash = %(password_hash)s WHERE id = %(id)s AND password_hash = %(old_hash)s;

-- name: set_enabled
UPDATE users SET enabled = %(enabled)s, access_stamp = nextval('access_stamps')
WHERE id = %(id)s AND enabled <> %(enabled)s;

-- name: join_organization
INSERT INTO memberships (organization_id, user_id) VALUES (%(organization_id)s, %(user_id)s) ON CONFLICT DO NOTHING;

-- name: leave_organization
-- What was held there goes too: coming back starts without roles.
WITH revoked AS (
    DELETE FROM role_assignments USING roles
    WHERE role_assignments.role_id = roles.id AND roles.organization_id = %(organization_id)s
      AND role_assignments.user_id = %(user_id)s
)
DELETE FROM memberships WHERE organization_id = %(organization_id)s AND user_id = %(user_id)s;

-- name: of_organization
-- The members with the names of their roles.
SELECT u.id, u.name, u.email,
       coalesce(array_agg(r.name ORDER BY r.name) FILTER (WHERE r.id IS NOT NULL), '{}') AS roles
FROM memberships m
JOIN users u ON u.id = m.user_id
LEFT JOIN (role_assignments a JOIN roles r ON r.id = a.role_id) ON a.user_id = u.id AND r.organization_id = m.organization_id
WHERE m.organization_id = %(organization_id)s
GROUP BY u.id
ORDER BY u.id;

-- name: member
-- One member in full.
SELECT u.id, u.name, u.email, u.enabled,
       u.password_hash IS NULL AND EXISTS (SELECT FROM invitations i WHERE i.user_id = u.id) AS is_invited, u.created_at,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}')
        FROM role_assignments a JOIN roles r ON r.id = a.role_id
        WHERE a.user_id = u.id AND r.organization_id = m.organization_id) AS roles
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND m.user_id = %(user_id)s;

-- name: by_email
-- The lock keeps the account from being deleted until the caller has made it a member.
SELECT id, email, name, enabled, created_at FROM users WHERE lower(email) = lower(%(email)s) FOR KEY SHARE;

-- name: organizations
-- The ids of the organizations that a user belongs to, in the order in which they are locked.
SELECT array_agg(organization_id ORDER BY organization_id) FROM memberships WHERE user_id = %(user_id)s;

-- name: lock
-- Nobody joins the account to another organization meanwhile.
SELECT id FROM users WHERE id = %(user_id)s FOR UPDATE;

-- name: delete
-- With its refresh tokens and its invitation.
DELETE FROM users WHERE id = %(user_id)s;
