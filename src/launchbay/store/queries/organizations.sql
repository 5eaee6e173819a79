-- name: lock_first_start
-- Lets one server initialize an empty database; the key is "launch", which nothing else locks.
SELECT pg_advisory_xact_lock(119165837796200);

-- name: list_by_user
-- The organizations that a user belongs to, by name.
SELECT organizations.id, organizations.name
FROM organizations JOIN memberships ON memberships.organization_id = organizations.id
WHERE memberships.user_id = %(user_id)s
ORDER BY organizations.name, organizations.id;

-- name: any_exists
SELECT EXISTS (SELECT 1 FROM organizations);

-- name: insert
INSERT INTO organizations (id, name, creator_id) VALUES (%(organization_id)s, %(name)s, %(creator_id)s);

-- name: administers_server
-- Whether a user holds the role Administrator in the first organization.
SELECT EXISTS (
    SELECT 1 FROM role_assignments JOIN roles ON roles.id = role_assignments.role_id
    WHERE role_assignments.user_id = %(user_id)s AND roles.kind = 'administrator'
          AND roles.organization_id = (SELECT id FROM organizations ORDER BY created_at, id LIMIT 1)
);

-- name: list_tenants
-- The organizations that count for their creators: those of administrators of the server don't.
SELECT organizations.id AS organization_id, creator_id FROM organizations
WHERE creator_id IS NOT NULL AND creator_id NOT IN (
    SELECT role_assignments.user_id FROM role_assignments JOIN roles ON roles.id = role_assignments.role_id
    WHERE roles.kind = 'administrator'
          AND roles.organization_id = (SELECT id FROM organizations ORDER BY created_at, id LIMIT 1)
);

-- name: count_created
SELECT count(*) FROM organizations WHERE creator_id = %(creator_id)s;

-- name: lock_creator
-- Until the end of the transaction, no other one creates an organization for this person.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay organizations of ' || %(creator_id)s, 0)) IS NULL;

-- name: get_origin
SELECT creator_id AS id, users.name,
       EXISTS (SELECT 1 FROM memberships WHERE user_id = creator_id AND memberships.organization_id = organizations.id) AS is_member
FROM organizations LEFT JOIN users ON users.id = creator_id
WHERE organizations.id = %(organization_id)s AND creator_id IS NOT NULL;

-- name: rename
UPDATE organizations SET name = %(name)s WHERE id = %(organization_id)s;

-- name: get_contents
-- Everything of an organization that an archive holds but its manifests, as of one moment, without anything that is sealed.
SELECT json_build_object(
    'name', organizations.name,
    'promotion', (SELECT stages FROM promotion_orders WHERE owner_id = organizations.id),
    'services', (
        SELECT coalesce(json_agg(json_build_object(
            'id', services.id, 'name', services.name, 'typeId', type_id, 'parameters', parameters,
            'secrets', (SELECT coalesce(json_agg(held.name ORDER BY held.name), '[]')
                        FROM service_secrets AS held WHERE held.service_id = services.id),
            'kept', (SELECT coalesce(json_agg(json_build_array(entry.kind, entry.name) ORDER BY entry.kind, entry.name), '[]')
                     FROM vault_entries AS entry WHERE entry.service_id = services.id)
        ) ORDER BY services.name, services.id), '[]') FROM services WHERE services.organization_id = organizations.id
    ),
    'environments', (
        SELECT coalesce(json_agg(json_build_object(
            'id', environments.id, 'name', environments.name, 'isDefault', is_default, 'policies', policies, 'markers', markers,
            'properties', properties, 'labels', environments.labels, 'rules', json_build_object(
                'lifetime', (SELECT rules FROM lifetime_rules WHERE lifetime_rules.environment_id = environments.id),
                'sleep', (SELECT rules FROM sleep_rules WHERE sleep_rules.environment_id = environments.id),
                'concurrency', (SELECT limits FROM concurrency_limits WHERE concurrency_limits.environment_id = environments.id),
                'freeze', freeze_windows,
                'changes', (SELECT rules FROM change_rules WHERE owner_id = environments.id AND is_current AND rules <> ''),
                'audiences', (SELECT audiences FROM identity_audiences WHERE identity_audiences.environment_id = environments.id)),
            'services', (SELECT coalesce(json_agg(offer.service_id ORDER BY offer.service_id), '[]')
                         FROM environment_services AS offer WHERE offer.environment_id = environments.id)
        ) ORDER BY environments.name), '[]') FROM environments WHERE environments.organization_id = organizations.id
    ),
    'applications', (
        SELECT coalesce(json_agg(json_build_object(
            'id', applications.id, 'name', applications.name, 'sourceUrl', source_url, 'labels', applications.labels, 'rules', json_build_object(
                'lifetime', (SELECT rules FROM lifetime_rules WHERE lifetime_rules.application_id = applications.id),
                'sleep', (SELECT rules FROM sleep_rules WHERE sleep_rules.application_id = applications.id),
                'concurrency', (SELECT limits FROM concurrency_limits WHERE concurrency_limits.application_id = applications.id),
                'freeze', freeze_windows,
                'changes', (SELECT rules FROM change_rules WHERE owner_id = applications.id AND is_current AND rules <> '')),
            'sealedSource', encode(sealed_source, 'base64'),
            'promotion', (SELECT stages FROM promotion_orders WHERE owner_id = applications.id),
            'versions', (SELECT count(*) FROM manifests AS text WHERE text.application_id = applications.id),
            'manifestBytes', (SELECT coalesce(sum(octet_length(text.content)), 0)
                              FROM manifests AS text WHERE text.application_id = applications.id),
            'revisions', (SELECT coalesce(json_agg(json_build_object(
                              'id', revision.id, 'name', revision.name, 'version', revision.version,
                              'parameters', revision.parameters, 'environmentId', revision.environment_id,
                              'submodules', revision.submodules
                          ) ORDER BY revision.name), '[]')
                          FROM revisions AS revision WHERE revision.application_id = applications.id)
        ) ORDER BY applications.name), '[]') FROM applications WHERE applications.organization_id = organizations.id
    ),
    'roles', (
        SELECT coalesce(json_agg(json_build_object(
            'id', id, 'name', roles.name, 'kind', kind, 'permissions', permissions
        ) ORDER BY roles.name), '[]') FROM roles WHERE roles.organization_id = organizations.id
    ),
    'users', (
        SELECT coalesce(json_agg(json_build_object('id', id, 'email', email, 'name', name, 'roles', roles) ORDER BY email), '[]')
        FROM (
            SELECT users.id, email, users.name,
                   (SELECT coalesce(json_agg(role.name ORDER BY role.name), '[]')
                    FROM role_assignments AS held JOIN roles AS role ON role.id = held.role_id
                    WHERE held.user_id = users.id AND role.organization_id = organizations.id) AS roles
            FROM users JOIN memberships ON memberships.user_id = users.id
            WHERE memberships.organization_id = organizations.id AND users.service_of IS NULL
            UNION ALL -- who has not accepted yet
            SELECT users.id, email, pending.name,
                   (SELECT coalesce(json_agg(role.name ORDER BY role.name), '[]')
                    FROM roles AS role
                    WHERE role.organization_id = organizations.id AND role.id = ANY (pending.role_ids))
            FROM users JOIN pending_memberships AS pending ON pending.user_id = users.id
            WHERE pending.organization_id = organizations.id
        ) AS people
    ),
    'webhooks', (
        SELECT coalesce(json_agg(name ORDER BY name, id), '[]') FROM named_objects WHERE named_objects.organization_id = organizations.id AND kind = 'webhook'
    )
)::text
FROM organizations WHERE organizations.id = %(organization_id)s;

-- name: get_id_by_name
-- The oldest organization of this name: names are not unique.
SELECT id FROM organizations WHERE name = %(name)s ORDER BY created_at, id LIMIT 1;

-- name: list_ids_by_name
-- Organizations with this name or ID.
SELECT id FROM organizations WHERE name = %(name)s OR id = %(name)s;

-- name: lock
-- Serializes changes of the organization that depend on one another: its last administrator, its default environment.
SELECT id FROM organizations WHERE id = %(organization_id)s FOR NO KEY UPDATE;
