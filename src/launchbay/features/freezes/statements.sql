-- name: get_freeze
SELECT frozen, users.email AS by_email
FROM environments LEFT JOIN users ON users.id = frozen::json ->> 'by_id'
WHERE environments.id = %(environment_id)s;

-- name: hold_freeze
-- The freeze of an environment. No freeze begins or ends until the transaction does.
SELECT name, frozen FROM environments WHERE id = %(environment_id)s FOR SHARE;

-- name: try_hold_freeze
-- The same for those who never wait. No row: another transaction is changing the environment.
SELECT name, frozen FROM environments WHERE id = %(environment_id)s FOR SHARE SKIP LOCKED;

-- name: set_freeze
-- It waits for transactions that hold it.
UPDATE environments SET frozen = %(freeze)s WHERE id = %(environment_id)s;

-- name: list_launching
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'advisory' AND classid = 0 AND objid = 4011229 AND objsubid = 1 AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
