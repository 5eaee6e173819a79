-- name: list_by_user
SELECT id, kind, name, secret, credential_id, public_key, used_count, created_at, last_used_at
FROM second_factors WHERE user_id = %(user_id)s ORDER BY created_at, id;

-- name: insert
INSERT INTO second_factors (id, user_id, kind, name, secret, credential_id, public_key, used_count)
VALUES (%(id)s, %(user_id)s, %(kind)s, %(name)s, %(secret)s, %(credential_id)s, %(public_key)s, %(used_count)s)
ON CONFLICT (credential_id) DO NOTHING;

-- name: use
-- Of two requests with one code, one changes a row. Passkeys that do not count send 0 each time.
UPDATE second_factors SET used_count = %(count)s, last_used_at = now()
WHERE id = %(id)s AND (used_count < %(count)s OR kind = 'passkey' AND used_count = 0 AND %(count)s = 0);

-- name: delete
DELETE FROM second_factors WHERE id = %(id)s AND user_id = %(user_id)s;

-- name: delete_all
-- Recovery codes are worth nothing without a factor that they stand in for.
WITH codes AS (DELETE FROM recovery_codes WHERE user_id = %(user_id)s)
DELETE FROM second_factors WHERE user_id = %(user_id)s;

-- name: count_recovery_codes
SELECT count(*) FROM recovery_codes WHERE user_id = %(user_id)s;

-- name: insert_recovery_codes
INSERT INTO recovery_codes (user_id, code_hash) SELECT %(user_id)s, unnest(%(hashes)s::bytea[]);

-- name: delete_recovery_codes
DELETE FROM recovery_codes WHERE user_id = %(user_id)s;

-- name: redeem_recovery_code
DELETE FROM recovery_codes WHERE user_id = %(user_id)s AND code_hash = %(code_hash)s;

-- name: insert_step
WITH expired AS (DELETE FROM second_steps WHERE user_id = %(user_id)s AND expires_at <= now())
INSERT INTO second_steps (token_hash, user_id, purpose, access_stamp, expires_at)
SELECT %(token_hash)s, id, %(purpose)s, access_stamp, now() + %(lifetime_s)s * interval '1 second'
FROM users WHERE id = %(user_id)s AND enabled;

-- name: get_step
-- Who may go on. Nobody may after a change of the credentials.
SELECT u.id, u.email, u.name, u.access_stamp
FROM second_steps s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = %(token_hash)s AND s.purpose = %(purpose)s AND s.expires_at > now()
  AND u.enabled AND u.access_stamp = s.access_stamp;

-- name: delete_step
-- Of two requests with one token, one changes a row.
DELETE FROM second_steps WHERE token_hash = %(token_hash)s;

-- name: count_attempt
-- Counts an attempt as wrong until `forget_attempts`, and answers how long to wait before it: 0 if it was counted. Five in
-- a row are free; then the wait doubles from a second to a quarter of an hour. An hour of silence starts afresh.
WITH counted AS (
    INSERT INTO wrong_second_factors AS w (user_id, attempts, last_at, next_at)
    VALUES (%(user_id)s, 1, now(), now())
    ON CONFLICT (user_id) DO UPDATE SET
        attempts = CASE WHEN w.last_at < now() - interval '1 hour' THEN 1 ELSE w.attempts + 1 END,
        last_at = now(),
        next_at = now() + CASE WHEN w.last_at < now() - interval '1 hour' OR w.attempts < 4 THEN 0
                               ELSE least(900, power(2, least(w.attempts - 4, 20))) END * interval '1 second'
    WHERE w.next_at <= now()
    RETURNING 0 AS wait_s
)
SELECT coalesce((SELECT wait_s FROM counted),
                (SELECT greatest(1, ceil(extract(epoch FROM next_at - now()))) FROM wrong_second_factors
                 WHERE user_id = %(user_id)s))::integer;

-- name: forget_attempts
DELETE FROM wrong_second_factors WHERE user_id = %(user_id)s;

-- name: is_required
-- Whether an organization of the user demands a second factor.
SELECT EXISTS (
    SELECT FROM memberships m JOIN organizations o ON o.id = m.organization_id
    WHERE m.user_id = %(user_id)s AND o.requires_second_factor
);

-- name: get_requirement
SELECT requires_second_factor FROM organizations WHERE id = %(organization_id)s;

-- name: set_requirement
UPDATE organizations SET requires_second_factor = %(required)s WHERE id = %(organization_id)s;

-- name: end_other_sessions
-- Sessions that were opened before the account had this protection, or with one that has been taken away.
WITH raised AS (UPDATE users SET access_stamp = nextval('access_stamps') WHERE id = %(user_id)s)
DELETE FROM console_sessions WHERE user_id = %(user_id)s AND token_hash <> %(token_hash)s;
