-- name: of_organization
-- The applications of an organization, by name.
SELECT id, name FROM applications WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert
INSERT INTO applications (id, organization_id, name, latest_version)
VALUES (%(application_id)s, %(organization_id)s, %(name)s, 1);

-- name: lock
-- Orders changes of an application one after the other. Launches go on meanwhile.
SELECT name, latest_version, source_url, sealed_source FROM applications WHERE id = %(application_id)s FOR NO KEY UPDATE;

-- name: lock_for_deletion
-- Keeps launches waiting too.
SELECT id FROM applications WHERE id = %(application_id)s FOR UPDATE;

-- name: set_version
UPDATE applications SET latest_version = %(version)s WHERE id = %(application_id)s;

-- name: source
SELECT sealed_source FROM applications WHERE id = %(application_id)s;

-- name: unsealed
-- Those whose source is still in the clear.
SELECT id, source_url AS url FROM applications WHERE source_url IS NOT NULL AND sealed_source IS NULL FOR NO KEY UPDATE;

-- name: set_source
-- What is shown of the address, and all of it, sealed.
UPDATE applications SET source_url = %(source_url)s, sealed_source = %(sealed_source)s WHERE id = %(application_id)s;

-- name: rename
UPDATE applications SET name = %(name)s WHERE id = %(application_id)s;

-- name: active_count
-- How many of its instances are not destroyed.
SELECT count(*) FROM instances WHERE application_id = %(application_id)s AND status <> 'Destroyed';

-- name: delete_instances
-- The destroyed ones; the caller holds the application, and there are no others.
DELETE FROM instances WHERE application_id = %(application_id)s AND status = 'Destroyed';

-- name: delete
-- Its manifests and revisions go with it.
DELETE FROM applications WHERE id = %(application_id)s;

-- name: find
-- An application of the organization by its id or name; the id wins.
SELECT id FROM applications
WHERE organization_id = %(organization_id)s AND (id = %(locator)s OR name = %(locator)s)
ORDER BY id = %(locator)s DESC LIMIT 1;
