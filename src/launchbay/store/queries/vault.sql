-- name: entries
-- What a vault keeps of one kind, by name; nothing secret.
SELECT id, name, algorithm, public_key, created_at, changed_at
FROM vault_entries WHERE service_id = %(service_id)s AND kind = %(kind)s ORDER BY name;

-- name: find
-- An entry by its name, or by its id.
SELECT id, name, sealed, algorithm, public_key
FROM vault_entries
WHERE service_id = %(service_id)s AND kind = %(kind)s AND (name = %(name)s OR id = %(name)s)
ORDER BY name = %(name)s DESC LIMIT 1;

-- name: count_others
-- How many entries a vault has beside the secret of this name.
SELECT count(*) FROM vault_entries
WHERE service_id = %(service_id)s AND NOT coalesce(kind = 'secret' AND name = %(name)s::text, false);

-- name: insert
INSERT INTO vault_entries (id, service_id, kind, name, sealed, algorithm, public_key)
VALUES (%(id)s, %(service_id)s, %(kind)s, %(name)s, %(sealed)s, %(algorithm)s, %(public_key)s)
ON CONFLICT (service_id, kind, name) DO NOTHING;

-- name: replace
UPDATE vault_entries SET sealed = %(sealed)s, changed_at = now() WHERE id = %(id)s;

-- name: delete
DELETE FROM vault_entries WHERE id = %(id)s;

-- name: in_environment
-- Entries in the vaults that an environment of the organization offers: those of a name or id, or all of a kind.
SELECT vault_entries.id, vault_entries.name, vault_entries.sealed, vault_entries.public_key,
    services.id AS service_id, services.name AS service_name
FROM environments
JOIN environment_services ON environment_services.environment_id = environments.id
JOIN services ON services.id = environment_services.service_id
JOIN vault_entries ON vault_entries.service_id = services.id
WHERE environments.id = %(environment_id)s AND environments.organization_id = %(organization_id)s
    AND services.organization_id = environments.organization_id
    AND vault_entries.kind = %(kind)s
    AND (%(name)s::text IS NULL OR vault_entries.name = %(name)s OR vault_entries.id = %(name)s)
ORDER BY vault_entries.name = %(name)s DESC, vault_entries.name, services.name, services.id;

-- name: vaults_with
-- The vaults of an organization that have a secret of this name, or the one that is meant.
SELECT services.id, services.name
FROM vault_entries JOIN services ON services.id = vault_entries.service_id
WHERE services.organization_id = %(organization_id)s AND vault_entries.kind = 'secret' AND vault_entries.name = %(name)s
    AND (%(vault_id)s::text IS NULL OR services.id = %(vault_id)s)
ORDER BY services.name, services.id;
