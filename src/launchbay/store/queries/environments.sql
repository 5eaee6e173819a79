-- name: default_id
SELECT id FROM environments WHERE organization_id = %(organization_id)s AND is_default;

-- name: of_organization
-- The environments of an organization, by name.
SELECT id, name, is_default FROM environments WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert
INSERT INTO environments (id, organization_id, name, is_default)
VALUES (%(environment_id)s, %(organization_id)s, %(name)s, %(is_default)s);

-- name: clone
-- A copy with the same services and offered instances; a name that is taken makes none.
WITH copy AS (
    INSERT INTO environments (id, organization_id, name, policies, markers, properties)
    SELECT %(environment_id)s, organization_id, %(name)s, policies, markers, properties
    FROM environments WHERE id = %(source_id)s
    ON CONFLICT (organization_id, name) DO NOTHING
    RETURNING id
), services AS (
    INSERT INTO environment_services (environment_id, service_id)
    SELECT copy.id, service_id FROM copy CROSS JOIN environment_services WHERE environment_id = %(source_id)s
), offered AS (
    INSERT INTO instance_offers (environment_id, instance_id)
    SELECT copy.id, instance_id FROM copy CROSS JOIN instance_offers WHERE environment_id = %(source_id)s
)
SELECT id FROM copy;

-- name: set_policies
UPDATE environments SET policies = %(policies)s WHERE id = %(environment_id)s;

-- name: set_markers
UPDATE environments SET markers = %(markers)s WHERE id = %(environment_id)s;

-- name: set_properties
UPDATE environments SET properties = %(properties)s WHERE id = %(environment_id)s;

-- name: rename
UPDATE environments SET name = %(name)s WHERE id = %(environment_id)s;

-- name: lock
-- Keeps launches into the environment waiting until the transaction ends, and tells whether it is the default one.
SELECT is_default FROM environments WHERE id = %(environment_id)s FOR UPDATE;

-- name: lock_services
-- Orders changes of what the environment offers one after the other; launches go on meanwhile.
SELECT id FROM environments WHERE id = %(environment_id)s FOR NO KEY UPDATE;

-- name: instance_count
-- How many instances it has; ten thousand stand for more.
SELECT count(*) FROM (SELECT FROM instances WHERE environment_id = %(environment_id)s LIMIT 10000) AS counted;

-- name: delete
DELETE FROM environments WHERE id = %(environment_id)s;

-- name: lock_defaults
-- Orders changes of an organization's default environment one after the other.
SELECT id FROM organizations WHERE id = %(organization_id)s FOR NO KEY UPDATE;

-- name: clear_default
UPDATE environments SET is_default = false WHERE organization_id = %(organization_id)s AND is_default;

-- name: make_default
UPDATE environments SET is_default = true WHERE id = %(environment_id)s;

-- name: services
-- The services that it offers, by name.
SELECT services.id, services.name, services.type_id
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s
ORDER BY services.name, services.id;

-- name: known_services
-- Those of the ids that are services of the organization.
SELECT id FROM services WHERE organization_id = %(organization_id)s AND id = ANY (%(service_ids)s::text[]) FOR KEY SHARE;

-- name: remove_services
DELETE FROM environment_services
WHERE environment_id = %(environment_id)s AND service_id = ANY (%(service_ids)s::text[]);

-- name: add_services
INSERT INTO environment_services (environment_id, service_id)
SELECT %(environment_id)s, id FROM unnest(%(service_ids)s::text[]) AS id
ON CONFLICT DO NOTHING;
