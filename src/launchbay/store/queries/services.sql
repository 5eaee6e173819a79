-- name: of_organization
-- The services of an organization, by name.
SELECT id, name, type_id FROM services WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert
INSERT INTO services (id, organization_id, zone_id, name, type_id, parameters)
VALUES (%(service_id)s, %(organization_id)s, %(zone_id)s, %(name)s, %(type_id)s, %(parameters)s);

-- name: lock
-- What can be changed of a service. Orders its changes one after the other.
SELECT name, parameters FROM services WHERE id = %(service_id)s FOR NO KEY UPDATE;

-- name: update
UPDATE services SET name = %(name)s, parameters = %(parameters)s WHERE id = %(service_id)s;

-- name: set_parameters
UPDATE services SET parameters = %(parameters)s WHERE id = %(service_id)s;

-- name: delete
-- Instances that are connected to it keep nothing of it, its sealed parameters least of all.
WITH connected AS (
    UPDATE instance_links SET binding = NULL WHERE target_id = %(service_id)s AND kind = 'service-instance'
)
DELETE FROM services WHERE id = %(service_id)s;

-- name: exists
SELECT true FROM services WHERE id = %(service_id)s;

-- name: offer
INSERT INTO environment_services (environment_id, service_id) VALUES (%(environment_id)s, %(service_id)s);

-- name: secrets
-- The sealed parameters of a service.
SELECT name, sealed FROM service_secrets WHERE service_id = %(service_id)s ORDER BY name;

-- name: put_secret
INSERT INTO service_secrets (service_id, name, sealed) VALUES (%(service_id)s, %(name)s, %(sealed)s)
ON CONFLICT (service_id, name) DO UPDATE SET sealed = excluded.sealed;

-- name: delete_secrets_but
DELETE FROM service_secrets WHERE service_id = %(service_id)s AND name <> ALL (%(names)s::text[]);

-- name: zones
-- The zones of an organization, by name.
SELECT id, name FROM zones WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert_zone
INSERT INTO zones (id, organization_id, name) VALUES (%(zone_id)s, %(organization_id)s, %(name)s);

-- name: zone_name
SELECT name FROM zones WHERE id = %(zone_id)s;

-- name: revisions_and_instances
-- Those of the ids that are revisions or instances of the organization, with the application of each.
SELECT r.id, true AS is_revision, r.application_id
FROM revisions r JOIN applications a ON a.id = r.application_id
WHERE a.organization_id = %(organization_id)s AND r.id = ANY (%(ids)s::text[])
UNION ALL
SELECT id, false, application_id FROM instances WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]);

-- name: offered_of_type
-- The services of one type that an environment of the organization offers, by name.
SELECT services.id, services.name
FROM environments
JOIN environment_services ON environment_services.environment_id = environments.id
JOIN services ON services.id = environment_services.service_id
WHERE environments.id = %(environment_id)s AND environments.organization_id = %(organization_id)s
    AND services.organization_id = environments.organization_id AND services.type_id = %(type_id)s
ORDER BY services.name, services.id;
