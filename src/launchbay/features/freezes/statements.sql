-- name: hold
-- The freezes of an application and an environment. None begins or ends until the transaction does. Directories lock in this order too.
WITH application AS (
    SELECT id, name, frozen, freeze_windows FROM applications WHERE id = %(application_id)s FOR SHARE
), environment AS (
    SELECT id, name, frozen, freeze_windows FROM environments WHERE id = %(environment_id)s FOR SHARE
)
SELECT 'application' AS kind, application.* FROM application UNION ALL SELECT 'environment', environment.* FROM environment;

-- name: try_hold
-- The same for those who never wait. A row that another transaction is changing isn't there.
WITH application AS (
    SELECT id, name, frozen, freeze_windows FROM applications WHERE id = %(application_id)s FOR SHARE SKIP LOCKED
), environment AS (
    SELECT id, name, frozen, freeze_windows FROM environments WHERE id = %(environment_id)s FOR SHARE SKIP LOCKED
)
SELECT 'application' AS kind, application.* FROM application UNION ALL SELECT 'environment', environment.* FROM environment;

-- name: list_freezes
-- Those of applications or environments with a switch or windows.
SELECT 'application' AS kind, id, name, frozen, freeze_windows FROM applications
WHERE %(kind)s = 'application' AND organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[])
  AND (frozen IS NOT NULL OR freeze_windows IS NOT NULL)
UNION ALL
SELECT 'environment', id, name, frozen, freeze_windows FROM environments
WHERE %(kind)s = 'environment' AND organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[])
  AND (frozen IS NOT NULL OR freeze_windows IS NOT NULL);

-- name: get_environment
SELECT 'environment' AS kind, id, name, frozen, freeze_windows FROM environments WHERE id = %(environment_id)s;

-- name: get_application
SELECT 'application' AS kind, id, name, frozen, freeze_windows FROM applications WHERE id = %(application_id)s;

-- name: get_address
-- Of who froze something. Null: the account was deleted.
SELECT email FROM users WHERE id = %(user_id)s;

-- name: freeze_environment
-- It waits for transactions that hold it, as the next three do.
UPDATE environments SET frozen = %(text)s WHERE id = %(environment_id)s;

-- name: freeze_application
UPDATE applications SET frozen = %(text)s WHERE id = %(application_id)s;

-- name: set_environment_windows
UPDATE environments SET freeze_windows = %(text)s WHERE id = %(environment_id)s;

-- name: set_application_windows
UPDATE applications SET freeze_windows = %(text)s WHERE id = %(application_id)s;

-- name: list_launching
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'advisory' AND classid = 0 AND objid = 4011229 AND objsubid = 1 AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: get_last_override
-- Who changed an object during a freeze lately, and why.
SELECT at, actor_id, actor_email, after::json ->> 'reason' AS reason FROM audit_entries
WHERE organization_id = %(organization_id)s AND object_id = %(object_id)s AND operation = 'override_freeze'
  AND at > now() - interval '7 days'
ORDER BY id DESC LIMIT 1;
