-- name: insert
INSERT INTO invitations (user_id, token_hash, expires_at)
VALUES (%(user_id)s, %(token_hash)s, now() + %(lifetime_s)s * interval '1 second')
RETURNING expires_at;

-- name: find
-- Who a link invites, while it can be used.
SELECT u.id, u.email, u.name, u.enabled, u.created_at
FROM invitations i JOIN users u ON u.id = i.user_id
WHERE i.token_hash = %(token_hash)s AND i.expires_at > now() AND u.enabled;

-- name: use
-- Ends the link; of two requests with it one gets the row.
DELETE FROM invitations i USING users u
WHERE i.token_hash = %(token_hash)s AND i.expires_at > now() AND u.id = i.user_id AND u.enabled
RETURNING u.id, u.email, u.name, u.enabled, u.created_at;
