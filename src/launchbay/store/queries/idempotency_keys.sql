-- name: begin
-- Takes a key for a request; waits for whoever is taking it at this moment. No row: it is taken, and not too long ago.
INSERT INTO idempotency_keys (user_id, key, fingerprint) VALUES (%(user_id)s, %(key)s, %(fingerprint)s)
ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, answer = NULL, created_at = excluded.created_at
    WHERE idempotency_keys.created_at <= now() - %(hours)s * interval '1 hour'
RETURNING true;

-- name: finish
UPDATE idempotency_keys SET answer = %(answer)s WHERE user_id = %(user_id)s AND key = %(key)s;

-- name: stored
SELECT fingerprint, answer FROM idempotency_keys WHERE user_id = %(user_id)s AND key = %(key)s;

-- name: forget
-- So many of those that nobody may rely on any more.
DELETE FROM idempotency_keys WHERE (user_id, key) IN (
    SELECT user_id, key FROM idempotency_keys WHERE created_at <= now() - %(hours)s * interval '1 hour'
    ORDER BY created_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
);
