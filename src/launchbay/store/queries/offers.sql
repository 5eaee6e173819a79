-- name: offered_instances
-- The instances that an environment offers as services, oldest first.
SELECT instances.id, instances.name, instances.application_id, instances.version, instances.status
FROM instance_offers JOIN instances ON instances.id = instance_offers.instance_id
WHERE instance_offers.environment_id = %(environment_id)s
ORDER BY instances.id;

-- name: environments_of
-- The environments that offer an instance.
SELECT environment_id AS id FROM instance_offers WHERE instance_id = %(instance_id)s ORDER BY environment_id;

-- name: known_environments
-- Those of the ids that are environments of the organization.
SELECT id FROM environments
WHERE organization_id = %(organization_id)s AND id = ANY (%(environment_ids)s::text[]) FOR KEY SHARE;

-- name: lock_instance
-- Orders an offer against the end of the instance.
SELECT status FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: withdraw
DELETE FROM instance_offers WHERE instance_id = %(instance_id)s AND environment_id = ANY (%(environment_ids)s::text[]);

-- name: offer
-- An instance that is offered does not expire (api-decisions, "States").
WITH kept AS (
    UPDATE instances SET destroy_at = NULL WHERE id = %(instance_id)s
), no_expiry AS (
    DELETE FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry'
)
INSERT INTO instance_offers (instance_id, environment_id)
SELECT %(instance_id)s, id FROM unnest(%(environment_ids)s::text[]) AS id
ON CONFLICT DO NOTHING;

-- name: standing_on
-- These instances, and all that stand on one of them by whatever links and over whatever others.
WITH RECURSIVE standing (id) AS (
    SELECT id FROM unnest(%(instance_ids)s::text[]) AS id
    UNION
    SELECT instance_links.instance_id FROM standing JOIN instance_links ON instance_links.target_id = standing.id
)
SELECT id FROM standing;

-- name: lock_links
-- Orders new links of live instances in an organization, so that two of them cannot close a circle at the same moment.
SELECT pg_advisory_xact_lock(hashtextextended('launchbay links ' || %(organization_id)s, 0)) IS NULL;

-- name: bound_services
-- What instances keep of the services that they are connected to.
SELECT id, name, type_id, parameters FROM services WHERE id = ANY (%(service_ids)s::text[]);

-- name: sealed_parameters
SELECT service_id, name, sealed FROM service_secrets WHERE service_id = ANY (%(service_ids)s::text[]) ORDER BY name;
