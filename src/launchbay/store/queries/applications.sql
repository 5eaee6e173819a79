-- name: list_by_organization
-- The applications of an organization, by name.
SELECT id, name FROM applications WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: list_labels
-- The labels of the applications of an organization that have some.
SELECT id, labels::text AS labels FROM applications WHERE organization_id = %(organization_id)s AND labels <> '{}';

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

-- name: get_source
SELECT sealed_source FROM applications WHERE id = %(application_id)s;

-- name: list_unsealed_sources
-- Those whose source is still in the clear.
SELECT id, source_url AS url FROM applications WHERE source_url IS NOT NULL AND sealed_source IS NULL FOR NO KEY UPDATE;

-- name: set_source
-- What is shown of the address, and all of it, sealed.
UPDATE applications SET source_url = %(source_url)s, sealed_source = %(sealed_source)s WHERE id = %(application_id)s;

-- name: rename
UPDATE applications SET name = %(name)s WHERE id = %(application_id)s;

-- name: count_active_instances
-- How many of its instances are not destroyed.
SELECT count(*) FROM instances WHERE application_id = %(application_id)s AND status <> 'Destroyed';

-- name: delete_instances
-- The destroyed ones; the caller holds the application, and there are no others.
DELETE FROM instances WHERE application_id = %(application_id)s AND status = 'Destroyed';

-- name: delete
-- Its manifests and revisions go with it.
DELETE FROM applications WHERE id = %(application_id)s;

-- name: resolve_locator
-- An application of the organization by its id or name; the id wins.
SELECT id FROM applications
WHERE organization_id = %(organization_id)s AND (id = %(locator)s OR name = %(locator)s)
ORDER BY id = %(locator)s DESC LIMIT 1;

-- name: get_manifest
-- The text of one version.
SELECT content FROM manifests WHERE application_id = %(application_id)s AND version = %(version)s;

-- name: list_manifest_texts
-- The versions of applications, each from one on to another, in the order of the applications: up to so many bytes, at least one.
SELECT application_id, version, content FROM (
    SELECT *, sum(octet_length(content)) OVER (ORDER BY place, version) - octet_length(content) AS bytes_before
    FROM (
        SELECT place, application_id, version, content
        FROM unnest(%(application_ids)s::text[], %(firsts)s::integer[], %(lasts)s::integer[])
            WITH ORDINALITY AS wanted (id, first, last, place)
        JOIN manifests ON application_id = wanted.id AND version BETWEEN first AND last
        JOIN applications ON applications.id = wanted.id AND organization_id = %(organization_id)s
        ORDER BY place, version LIMIT 500
    ) AS following
) AS counted
WHERE bytes_before < %(bytes)s ORDER BY place, version;

-- name: list_manifests_by_application
-- The versions of an application, the newest first.
SELECT version, created_at, author_id, message FROM manifests WHERE application_id = %(application_id)s ORDER BY version DESC;

-- name: insert_manifest
INSERT INTO manifests (application_id, version, content, author_id, message, digests)
VALUES (%(application_id)s, %(version)s, %(content)s, %(author_id)s, %(message)s, %(digests)s);

-- name: insert_manifests
-- Versions that follow each other, from `version` on. Their digests are computed when somebody asks: an old version may
-- not compile any more.
INSERT INTO manifests (application_id, version, content, author_id)
SELECT %(application_id)s, %(version)s + number - 1, content, %(author_id)s
FROM unnest(%(contents)s::text[]) WITH ORDINALITY AS given (content, number);

-- name: list_digests
-- Of these versions, the newest first; null where they weren't computed yet.
SELECT version, digests, octet_length(content) AS bytes FROM manifests
WHERE application_id = %(application_id)s AND version = ANY (%(versions)s::integer[])
ORDER BY version DESC;

-- name: set_digests
-- Unless somebody stored others meanwhile.
UPDATE manifests SET digests = %(digests)s
WHERE application_id = %(application_id)s AND version = %(version)s AND digests IS NOT DISTINCT FROM %(former)s::text;

-- name: manifest_exists
SELECT true FROM manifests WHERE application_id = %(application_id)s AND version = %(version)s;

-- name: list_revisions_by_application
-- The named revisions of an application, by name.
SELECT id, name FROM revisions WHERE application_id = %(application_id)s ORDER BY name, id;

-- name: list_all_revisions
-- The named revisions of all applications of an organization, by name.
SELECT r.id, r.application_id, r.name FROM revisions r JOIN applications a ON a.id = r.application_id
WHERE a.organization_id = %(organization_id)s ORDER BY r.name, r.id;

-- name: list_full_revisions
-- Those of these named revisions that an application has, with their content, by name.
SELECT r.id, r.application_id, a.organization_id, r.name, r.version, r.parameters, r.environment_id, r.submodules,
       r.created_at
FROM revisions r JOIN applications a ON a.id = r.application_id
WHERE r.application_id = %(application_id)s AND r.id = ANY(%(ids)s) ORDER BY r.name, r.id;

-- name: list_revision_applications
-- The applications of revisions, of those that this organization has.
SELECT r.id, r.application_id FROM all_revisions r JOIN applications a ON a.id = r.application_id
WHERE r.id = ANY(%(revision_ids)s) AND a.organization_id = %(organization_id)s;

-- name: get_revision
-- A revision of this application, and of no other, with a name or without.
SELECT r.id, r.application_id, a.organization_id, r.name, r.version, r.parameters, r.environment_id, r.submodules,
       r.created_at
FROM all_revisions r JOIN applications a ON a.id = r.application_id
WHERE r.id = %(revision_id)s AND r.application_id = %(application_id)s;

-- name: insert_revision
INSERT INTO revisions (id, application_id, name, version, parameters, environment_id, submodules)
VALUES (%(revision_id)s, %(application_id)s, %(name)s, %(version)s, %(parameters)s, %(environment_id)s, %(submodules)s);

-- name: update_revision
UPDATE revisions
SET name = %(name)s, version = %(version)s, parameters = %(parameters)s, environment_id = %(environment_id)s,
    submodules = %(submodules)s
WHERE id = %(revision_id)s;

-- name: lock_revision
-- Orders changes of a revision one after the other.
SELECT id FROM revisions WHERE id = %(revision_id)s FOR UPDATE;

-- name: delete_revision
DELETE FROM revisions WHERE id = %(revision_id)s;
