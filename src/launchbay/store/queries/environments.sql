-- name: get_default_id
SELECT id FROM environments WHERE organization_id = %(organization_id)s AND is_default;

-- name: list_by_organization
-- The environments of an organization, by name.
SELECT id, name, is_default, launchbay_freezes(frozen, freeze_windows, NULL, NULL) AS freezes
FROM environments WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: list_contents
-- The environments of an organization, or those with these IDs, with what they give, by name. `services` are the IDs of the services that they offer.
SELECT id, name, is_default, policies, markers, properties, coalesce((
    SELECT json_agg(service_id ORDER BY service_id) FROM environment_services WHERE environment_id = environments.id
), '[]')::text AS services,
    coalesce((SELECT rules FROM lifetime_rules WHERE environment_id = environments.id), '{}') AS lifetime,
    coalesce(change_policy, '{}') AS change_policy
FROM environments WHERE organization_id = %(organization_id)s AND (%(ids)s::text[] IS NULL OR id = ANY(%(ids)s))
ORDER BY name, id;

-- name: list_labels
-- The labels of the environments of an organization that have some.
SELECT id, labels::text AS labels FROM environments WHERE organization_id = %(organization_id)s AND labels <> '{}';

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

-- name: count_instances
-- How many instances it has; ten thousand stand for more.
SELECT count(*) FROM (SELECT FROM instances WHERE environment_id = %(environment_id)s LIMIT 10000) AS counted;

-- name: delete
DELETE FROM environments WHERE id = %(environment_id)s;

-- name: clear_default
UPDATE environments SET is_default = false WHERE organization_id = %(organization_id)s AND is_default;

-- name: make_default
UPDATE environments SET is_default = true WHERE id = %(environment_id)s;

-- name: list_services
-- The services that it offers, by name.
SELECT services.id, services.name, services.type_id
FROM environment_services JOIN services ON services.id = environment_services.service_id
WHERE environment_services.environment_id = %(environment_id)s
ORDER BY services.name, services.id;

-- name: list_known_services
-- Those of the ids that are services of the organization.
SELECT id FROM services WHERE organization_id = %(organization_id)s AND id = ANY (%(service_ids)s::text[]) FOR KEY SHARE;

-- name: remove_services
DELETE FROM environment_services
WHERE environment_id = %(environment_id)s AND service_id = ANY (%(service_ids)s::text[]);

-- name: add_services
INSERT INTO environment_services (environment_id, service_id)
SELECT %(environment_id)s, id FROM unnest(%(service_ids)s::text[]) AS id
ON CONFLICT DO NOTHING;

-- name: list_offered_instances
-- The instances that an environment offers as services, with the outcome of their last job, oldest first.
SELECT instances.id, instances.name, instances.application_id, instances.version, instances.status, launchbay_outcome(fleet.job_id, fleet.job_status) AS job_outcome,
       EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = instances.job_id AND approvals.status = 'pending'
) AS is_asking, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id
) AS is_asleep, instances.status <> 'Destroyed' AND launchbay_is_ending(instances.id) AS is_ending, launchbay_is_incomplete(instances.id) AS is_incomplete
FROM instance_offers JOIN instances ON instances.id = instance_offers.instance_id
LEFT JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
WHERE instance_offers.environment_id = %(environment_id)s
ORDER BY instances.id;

-- name: list_environments_by_instance
-- The environments that offer an instance.
SELECT environment_id AS id FROM instance_offers WHERE instance_id = %(instance_id)s ORDER BY environment_id;

-- name: list_offering
-- The environments that offer an instance, by name.
SELECT environments.id, environments.name, environments.is_default,
       launchbay_freezes(environments.frozen, environments.freeze_windows, NULL, NULL) AS freezes
FROM instance_offers JOIN environments ON environments.id = instance_offers.environment_id
WHERE instance_offers.instance_id = %(instance_id)s ORDER BY environments.name, environments.id;

-- name: list_known_environments
-- Those of the ids that are environments of the organization.
SELECT id FROM environments
WHERE organization_id = %(organization_id)s AND id = ANY (%(environment_ids)s::text[]) FOR KEY SHARE;

-- name: read_chosen_name
-- What an operator can choose an environment by: its name, and whether no other organization could have one so named.
SELECT name, (SELECT count(*) FROM organizations) = 1 AS is_alone
FROM environments WHERE id = %(environment_id)s AND organization_id = %(organization_id)s;

-- name: delete_offers
DELETE FROM instance_offers WHERE instance_id = %(instance_id)s AND environment_id = ANY (%(environment_ids)s::text[]);

-- name: insert_offers
-- An instance that is offered does not expire (conformance.md, "States").
WITH kept AS (
    UPDATE instances SET destroy_at = NULL WHERE id = %(instance_id)s
), no_expiry AS (
    DELETE FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry'
)
INSERT INTO instance_offers (instance_id, environment_id)
SELECT %(instance_id)s, id FROM unnest(%(environment_ids)s::text[]) AS id
ON CONFLICT DO NOTHING;

-- name: list_dependent_instances
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

-- name: list_bound_services
-- What instances keep of the services that they are connected to.
SELECT id, name, type_id, parameters FROM services WHERE id = ANY (%(service_ids)s::text[]);

-- name: list_sealed_parameters
SELECT service_id, name, sealed FROM service_secrets WHERE service_id = ANY (%(service_ids)s::text[]) ORDER BY name;
