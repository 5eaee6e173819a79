-- name: content
-- The text of one version.
SELECT content FROM manifests WHERE application_id = %(application_id)s AND version = %(version)s;

-- name: of_application
-- The versions of an application, the newest first.
SELECT version, created_at, author_id FROM manifests WHERE application_id = %(application_id)s ORDER BY version DESC;

-- name: insert
INSERT INTO manifests (application_id, version, content, author_id)
VALUES (%(application_id)s, %(version)s, %(content)s, %(author_id)s);

-- name: exists
SELECT true FROM manifests WHERE application_id = %(application_id)s AND version = %(version)s;
