-- name: of_organization
-- The applications of an organization, by name.
SELECT id, name FROM applications WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert
INSERT INTO applications (id, organization_id, name, latest_version)
VALUES (%(application_id)s, %(organization_id)s, %(name)s, 1);

-- name: next_version
-- Raises the version number; the row's lock makes two uploads at once get two numbers.
UPDATE applications SET latest_version = latest_version + 1 WHERE id = %(application_id)s RETURNING latest_version;

-- name: find
-- An application of the organization by its id or name; the id wins.
SELECT id FROM applications
WHERE organization_id = %(organization_id)s AND (id = %(locator)s OR name = %(locator)s)
ORDER BY id = %(locator)s DESC LIMIT 1;
