-- name: find
SELECT users.id, users.email, users.name, users.enabled, users.created_at
FROM identities JOIN users ON users.id = identities.user_id
WHERE identities.issuer = %(issuer)s AND identities.subject = %(subject)s;

-- name: link
-- No row: the account belongs to another identity of this issuer, or the identity to another account.
INSERT INTO identities (issuer, subject, user_id) VALUES (%(issuer)s, %(subject)s, %(user_id)s)
ON CONFLICT DO NOTHING RETURNING user_id;

-- name: organization_named
-- The oldest organization of this name: names are not unique.
SELECT id FROM organizations WHERE name = %(name)s ORDER BY created_at, id LIMIT 1;

-- name: roles_named
SELECT id FROM roles WHERE organization_id = %(organization_id)s AND name = ANY (%(names)s::text[]);
