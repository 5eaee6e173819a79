-- name: insert
INSERT INTO console_sessions (id, user_id, token_hash, address, expires_at)
VALUES (%(id)s, %(user_id)s, %(token_hash)s, %(address)s, now() + %(lifetime_s)s * interval '1 second');

-- name: user_of
-- Who is behind a session that has not ended.
SELECT u.id, u.email, u.name, u.enabled, u.created_at
FROM console_sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = %(token_hash)s AND s.expires_at > now();

-- name: of_user
SELECT id, address, created_at, expires_at, token_hash = %(token_hash)s AS is_this
FROM console_sessions WHERE user_id = %(user_id)s AND expires_at > now() ORDER BY created_at DESC, id DESC;

-- name: end_by_token
DELETE FROM console_sessions WHERE token_hash = %(token_hash)s;

-- name: end_by_id
DELETE FROM console_sessions WHERE id = %(id)s AND user_id = %(user_id)s;

-- name: end_all
DELETE FROM console_sessions WHERE user_id = %(user_id)s;

-- name: forget_ended
DELETE FROM console_sessions WHERE user_id = %(user_id)s AND expires_at <= now();
