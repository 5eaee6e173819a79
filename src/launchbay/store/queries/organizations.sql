-- name: of_user
-- The organizations that a user belongs to, by name.
SELECT organizations.id, organizations.name
FROM organizations JOIN memberships ON memberships.organization_id = organizations.id
WHERE memberships.user_id = %(user_id)s
ORDER BY organizations.name, organizations.id;

-- name: any_exists
SELECT EXISTS (SELECT 1 FROM organizations);

-- name: insert
INSERT INTO organizations (id, name) VALUES (%(organization_id)s, %(name)s);

-- name: rename
UPDATE organizations SET name = %(name)s WHERE id = %(organization_id)s;
