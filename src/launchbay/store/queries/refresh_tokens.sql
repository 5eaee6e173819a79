-- name: lock_user
-- Counts simultaneous requests of one user one after the other. No row: the account is gone or disabled.
SELECT id FROM users WHERE id = %(user_id)s AND enabled FOR NO KEY UPDATE;

-- name: generation_state
-- How many tokens a user has generated in the last hour, or since the last block ended, and for how many more seconds
-- generation is blocked (0: it is not). A statement of its own: one that waited for the lock itself would count what was
-- there before the wait.
SELECT (SELECT count(*) FROM refresh_tokens t
        WHERE t.user_id = u.id AND t.created_at > greatest(now() - interval '1 hour', u.tokens_blocked_until)) AS recent,
       greatest(0, coalesce(ceil(extract(epoch FROM u.tokens_blocked_until - now())), 0))::integer AS blocked_s
FROM users u WHERE u.id = %(user_id)s;

-- name: block
UPDATE users SET tokens_blocked_until = now() + %(seconds)s * interval '1 second' WHERE id = %(user_id)s;

-- name: insert
INSERT INTO refresh_tokens (id, user_id, label, token_hash, expires_at)
VALUES (%(id)s, %(user_id)s, %(label)s, %(token_hash)s, now() + %(lifetime_s)s * interval '1 second')
RETURNING id, label, created_at, expires_at, last_used_at;

-- name: of_user
-- The user's tokens that can still be used, the newest first.
SELECT id, label, created_at, expires_at, last_used_at
FROM refresh_tokens
WHERE user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > now()
ORDER BY created_at DESC, id DESC;

-- name: revoke
UPDATE refresh_tokens SET revoked_at = now()
WHERE id = %(id)s AND user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > now();

-- name: redeem
-- The account that a token belongs to, when both are in order.
UPDATE refresh_tokens t SET last_used_at = now()
FROM users u
WHERE t.token_hash = %(token_hash)s AND t.revoked_at IS NULL AND t.expires_at > now() AND u.id = t.user_id AND u.enabled
RETURNING u.id, u.email, u.name, u.enabled, u.created_at;

-- name: forget_expired
-- Tokens that ended a day ago or longer count for nothing any more.
DELETE FROM refresh_tokens WHERE id IN (
    SELECT id FROM refresh_tokens WHERE expires_at < now() - interval '1 day' LIMIT %(count)s FOR UPDATE SKIP LOCKED
);
