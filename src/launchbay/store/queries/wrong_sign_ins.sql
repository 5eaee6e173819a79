-- name: read_attempt
-- The levels of the buckets of an attempt now, whether the account has a session at this address, and whether the same
-- password was wrong a short while ago.
SELECT coalesce(max(level) FILTER (WHERE key = %(account_key)s), 0) AS account,
       coalesce(max(level) FILTER (WHERE key = %(pair_key)s), 0) AS pair,
       coalesce(max(level) FILTER (WHERE key = %(address_key)s), 0) AS address,
       EXISTS (SELECT FROM users u JOIN console_sessions s ON s.user_id = u.id
               WHERE lower(u.email COLLATE "C") = %(account)s AND s.address = %(address)s AND s.expires_at > now()) AS is_known,
       EXISTS (SELECT FROM wrong_passwords
               WHERE hash = %(hash)s AND at > now() - %(life_s)s * interval '1 second') AS is_repeated
FROM (SELECT key, greatest(0, level - extract(epoch FROM now() - at)::float8 / leak_s) AS level
      FROM wrong_sign_ins WHERE key IN (%(account_key)s, %(pair_key)s, %(address_key)s)) AS buckets;

-- name: add
-- Adds a wrong attempt to buckets, unless the same password was wrong a short while ago. Returns the levels, and whether a
-- bucket is full now and wasn't in the last hour.
WITH wrong AS (
    INSERT INTO wrong_passwords AS w (hash, at) VALUES (%(hash)s, now())
    ON CONFLICT (hash) DO UPDATE SET at = now() WHERE w.at <= now() - %(life_s)s * interval '1 second'
    RETURNING hash
)
INSERT INTO wrong_sign_ins AS b (key, user_id, level, at, capacity, leak_s)
SELECT key, CASE WHEN is_account THEN %(user_id)s END, 1, now(), capacity, leak_s
FROM unnest(%(keys)s::text[], %(are_accounts)s::boolean[], %(capacities)s::float8[], %(leaks_s)s::float8[])
     AS new (key, is_account, capacity, leak_s)
WHERE EXISTS (SELECT FROM wrong)
ORDER BY key -- the same order everywhere, so that no two servers wait for each other
ON CONFLICT (key) DO UPDATE SET
    level = least(excluded.capacity, greatest(0, b.level - extract(epoch FROM now() - b.at)::float8 / b.leak_s) + 1),
    at = now(), user_id = excluded.user_id, capacity = excluded.capacity, leak_s = excluded.leak_s,
    full_at = CASE WHEN b.level - extract(epoch FROM now() - b.at)::float8 / b.leak_s + 2 > excluded.capacity
                        AND coalesce(b.full_at <= now() - interval '1 hour', true)
                   THEN now() ELSE b.full_at END
RETURNING key, level, coalesce(full_at = now(), false) AS is_newly_full;

-- name: list_blocked
-- The members of an organization who can't sign in now, at least from some addresses, and for how many seconds more.
SELECT u.id, u.name, u.email,
       ceil(max((b.level + 1 - b.capacity) * b.leak_s - extract(epoch FROM now() - b.at)::float8))::integer AS blocked_s
FROM memberships m
JOIN users u ON u.id = m.user_id
JOIN wrong_sign_ins b ON b.user_id = u.id
WHERE m.organization_id = %(organization_id)s
  AND (b.level + 1 - b.capacity) * b.leak_s > extract(epoch FROM now() - b.at)
GROUP BY u.id
ORDER BY u.id;

-- name: delete_by_user
-- Lifts the blocks of an account.
DELETE FROM wrong_sign_ins WHERE user_id = %(user_id)s;

-- name: delete_empty
-- Buckets that have leaked out, so many at a time.
DELETE FROM wrong_sign_ins WHERE key IN (
    SELECT key FROM wrong_sign_ins WHERE level * leak_s < extract(epoch FROM now() - at)
    LIMIT %(count)s FOR UPDATE SKIP LOCKED
);

-- name: delete_old_passwords
DELETE FROM wrong_passwords WHERE hash IN (
    SELECT hash FROM wrong_passwords WHERE at < now() - %(life_s)s * interval '1 second'
    LIMIT %(count)s FOR UPDATE SKIP LOCKED
);
