-- name: of_application
-- The named revisions of an application, by name.
SELECT id, name FROM revisions WHERE application_id = %(application_id)s ORDER BY name, id;

-- name: one
-- A revision of this application, and of no other.
SELECT r.id, r.application_id, a.organization_id, r.name, r.version, r.parameters, r.environment_id, r.submodules,
       r.created_at
FROM revisions r JOIN applications a ON a.id = r.application_id
WHERE r.id = %(revision_id)s AND r.application_id = %(application_id)s;

-- name: insert
INSERT INTO revisions (id, application_id, name, version, parameters, environment_id, submodules)
VALUES (%(revision_id)s, %(application_id)s, %(name)s, %(version)s, %(parameters)s, %(environment_id)s, %(submodules)s);

-- name: update
UPDATE revisions
SET name = %(name)s, version = %(version)s, parameters = %(parameters)s, environment_id = %(environment_id)s,
    submodules = %(submodules)s
WHERE id = %(revision_id)s;

-- name: lock
-- Orders changes of a revision one after the other.
SELECT id FROM revisions WHERE id = %(revision_id)s FOR UPDATE;

-- name: delete
DELETE FROM revisions WHERE id = %(revision_id)s;
