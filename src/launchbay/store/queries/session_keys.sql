-- name: lock
-- Lets one server at a time make or drop keys, until the end of its transaction.
SELECT pg_advisory_xact_lock(%(number)s)::text;

-- name: all
-- Every key, the newest first, with its age in seconds on the database's clock.
SELECT id, sealed, extract(epoch FROM now() - created_at)::double precision AS age_s
FROM session_keys ORDER BY created_at DESC, id DESC;

-- name: insert
INSERT INTO session_keys (id, sealed) VALUES (%(id)s, %(sealed)s);

-- name: delete
DELETE FROM session_keys WHERE id = ANY (%(ids)s::text[]);
