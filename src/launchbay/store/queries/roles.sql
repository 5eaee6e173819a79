-- Triggers raise the organization's access_stamp with every change of roles, memberships and assignments (0002_access.sql).

-- name: held
-- What a user is assigned in an organization, with the stamp that this was read under: one row per role, at least one row.
-- Without membership it counts for nothing.
SELECT o.access_stamp,
       EXISTS (SELECT FROM memberships m WHERE m.organization_id = o.id AND m.user_id = %(user_id)s) AS is_member,
       r.name, r.kind, r.permissions
FROM organizations o
LEFT JOIN (role_assignments a JOIN roles r ON r.id = a.role_id) ON a.user_id = %(user_id)s AND r.organization_id = o.id
WHERE o.id = %(organization_id)s
ORDER BY r.name;

-- name: lock_organization
-- Orders changes that depend on who holds what (the last administrator) one after the other.
SELECT id FROM organizations WHERE id = %(organization_id)s FOR NO KEY UPDATE;

-- name: administrators
-- The enabled members who hold the role that allows everything; decide on it under `lock_organization`.
SELECT a.user_id
FROM roles r
JOIN role_assignments a ON a.role_id = r.id
JOIN memberships m ON m.organization_id = r.organization_id AND m.user_id = a.user_id
JOIN users u ON u.id = a.user_id
WHERE r.organization_id = %(organization_id)s AND r.kind = 'administrator' AND u.enabled;

-- name: of_organization
SELECT id, organization_id, name, permissions, kind, created_at
FROM roles WHERE organization_id = %(organization_id)s ORDER BY id;

-- name: insert
INSERT INTO roles (id, organization_id, name, permissions, kind)
VALUES (%(id)s, %(organization_id)s, %(name)s, %(permissions)s, %(kind)s);

-- name: update
UPDATE roles SET name = %(name)s, permissions = %(permissions)s WHERE id = %(id)s;

-- name: delete
-- Its assignments go with it.
DELETE FROM roles WHERE id = %(id)s;

-- name: assign
-- Assigning twice changes nothing.
INSERT INTO role_assignments (role_id, user_id)
SELECT id, %(user_id)s FROM unnest(%(role_ids)s::text[]) AS id
ON CONFLICT DO NOTHING;

-- name: revoke
-- Revoking what is not held changes nothing.
DELETE FROM role_assignments WHERE user_id = %(user_id)s AND role_id = ANY (%(role_ids)s::text[]);

-- name: set_kind
UPDATE roles SET kind = %(kind)s WHERE id = %(id)s;
