-- name: list_by_organization
-- The services of an organization, by name.
SELECT id, name, type_id FROM services WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: list_full
-- The services of an organization with their open parameters, by name.
SELECT id, name, type_id, parameters FROM services WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: list_all_secrets
-- The sealed parameters of all services of an organization.
SELECT service_secrets.service_id, service_secrets.name, service_secrets.sealed
FROM services JOIN service_secrets ON service_secrets.service_id = services.id
WHERE services.organization_id = %(organization_id)s ORDER BY service_secrets.service_id, service_secrets.name;

-- name: list_all_entries
-- What the vaults of an organization keep; nothing secret.
SELECT vault_entries.service_id, vault_entries.kind, vault_entries.name
FROM services JOIN vault_entries ON vault_entries.service_id = services.id
WHERE services.organization_id = %(organization_id)s
ORDER BY vault_entries.service_id, vault_entries.kind DESC, vault_entries.name;

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

-- name: insert_offer
INSERT INTO environment_services (environment_id, service_id) VALUES (%(environment_id)s, %(service_id)s);

-- name: list_secrets
-- The sealed parameters of a service.
SELECT name, sealed FROM service_secrets WHERE service_id = %(service_id)s ORDER BY name;

-- name: put_secret
INSERT INTO service_secrets (service_id, name, sealed) VALUES (%(service_id)s, %(name)s, %(sealed)s)
ON CONFLICT (service_id, name) DO UPDATE SET sealed = excluded.sealed;

-- name: delete_secrets_except
DELETE FROM service_secrets WHERE service_id = %(service_id)s AND name <> ALL (%(names)s::text[]);

-- name: list_zones
-- The zones of an organization, by name.
SELECT id, name FROM zones WHERE organization_id = %(organization_id)s ORDER BY name, id;

-- name: insert_zone
INSERT INTO zones (id, organization_id, name) VALUES (%(zone_id)s, %(organization_id)s, %(name)s);

-- name: get_zone_name
SELECT name FROM zones WHERE id = %(zone_id)s;

-- name: list_revisions_and_instances
-- Those of the ids that are revisions or living instances of the organization, with the application of each.
SELECT r.id, true AS is_revision, r.application_id
FROM all_revisions r JOIN applications a ON a.id = r.application_id
WHERE a.organization_id = %(organization_id)s AND r.id = ANY (%(ids)s::text[])
UNION ALL
SELECT id, false, application_id FROM instances
WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]) AND status <> 'Destroyed';

-- name: list_offered_by_type
-- The services of one type that an environment of the organization offers, by name.
SELECT services.id, services.name
FROM environments
JOIN environment_services ON environment_services.environment_id = environments.id
JOIN services ON services.id = environment_services.service_id
WHERE environments.id = %(environment_id)s AND environments.organization_id = %(organization_id)s
    AND services.organization_id = environments.organization_id AND services.type_id = %(type_id)s
ORDER BY services.name, services.id;

-- Everything here happens under the lock of the pool's row in `services`, so that all see the same.

-- name: list_acquired
-- Every resource that was handed out at least once, with its holder or null.
SELECT resource_id, holder, changed_at FROM pool_resources WHERE service_id = %(service_id)s ORDER BY resource_id;

-- name: acquire_resource
INSERT INTO pool_resources (service_id, resource_id, holder, changed_at)
VALUES (%(service_id)s, %(resource_id)s, %(holder)s, clock_timestamp())
ON CONFLICT (service_id, resource_id) DO UPDATE SET holder = excluded.holder, changed_at = excluded.changed_at;

-- name: release_resource
UPDATE pool_resources SET holder = NULL, changed_at = clock_timestamp()
WHERE service_id = %(service_id)s AND holder = %(holder)s
RETURNING resource_id;

-- name: delete_silent_waiters
-- Who waits asks again and again; who has stopped asking has given up.
DELETE FROM pool_tickets
WHERE service_id = %(service_id)s AND asked_at < clock_timestamp() - make_interval(secs => %(silent_s)s);

-- name: enqueue_waiter
-- Keeps or makes the holder's place in the row of those who wait, and returns its number.
INSERT INTO pool_tickets (service_id, holder, asked_at) VALUES (%(service_id)s, %(holder)s, clock_timestamp())
ON CONFLICT (service_id, holder) DO UPDATE SET asked_at = excluded.asked_at
RETURNING ticket;

-- name: count_ahead
SELECT count(*) FROM pool_tickets WHERE service_id = %(service_id)s AND ticket < %(ticket)s;

-- name: count_waiting
SELECT count(*) FROM pool_tickets WHERE service_id = %(service_id)s;

-- name: list_waiting
-- The first of those who wait for a resource of a pool, in their order; who has stopped asking has given up.
SELECT holder FROM pool_tickets
WHERE service_id = %(service_id)s AND asked_at >= clock_timestamp() - make_interval(secs => %(silent_s)s)
ORDER BY ticket LIMIT %(count)s;

-- name: count_users
-- How many instances use each service of an organization.
SELECT services.id, count(DISTINCT instance_links.instance_id)::integer AS users
FROM services JOIN instance_links ON instance_links.target_id = services.id
WHERE services.organization_id = %(organization_id)s GROUP BY services.id;

-- name: list_users
-- The first instances by name that use a service, or have made machines with an account: with their components or regions.
SELECT instances.id, instances.name, instances.status, launchbay_outcome(fleet.job_id, fleet.job_status) AS job_outcome, EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = instances.job_id AND approvals.status = 'pending'
) AS is_asking, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id
) AS is_asleep, instances.status <> 'Destroyed' AND launchbay_is_ending(instances.id) AS is_ending, launchbay_is_incomplete(instances.id) AS is_incomplete, instances.application_id, applications.name AS application,
       instances.environment_id, environments.name AS environment, string_agg(used.part, ', ' ORDER BY used.part) AS parts
FROM (
    SELECT DISTINCT instance_id, component AS part FROM instance_links WHERE target_id = %(service_id)s
    UNION SELECT instance_id, 'machines in ' || region FROM instance_places WHERE account_id = %(service_id)s
) AS used
JOIN instances ON instances.id = used.instance_id JOIN applications ON applications.id = instances.application_id
JOIN environments ON environments.id = instances.environment_id
LEFT JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
WHERE instances.status <> 'Destroyed'
GROUP BY instances.id, fleet.job_id, fleet.job_status, applications.name, environments.name ORDER BY instances.name, instances.id LIMIT %(count)s;

-- name: list_shared
-- The instances of a catalog with the status of their last job, and how many others use each.
SELECT instances.id, instances.name, instances.status, launchbay_outcome(fleet.job_id, fleet.job_status) AS job_outcome, EXISTS (
    SELECT FROM approvals WHERE approvals.job_id = instances.job_id AND approvals.status = 'pending'
) AS is_asking, EXISTS (
    SELECT FROM asleep_instances WHERE asleep_instances.instance_id = instances.id
) AS is_asleep, instances.status <> 'Destroyed' AND launchbay_is_ending(instances.id) AS is_ending, launchbay_is_incomplete(instances.id) AS is_incomplete, instances.application_id, applications.name AS application,
       instances.environment_id, environments.name AS environment, instances.version,
       (SELECT count(DISTINCT instance_id) FROM instance_links WHERE target_id = instances.id)::integer AS users
FROM instances JOIN applications ON applications.id = instances.application_id
JOIN environments ON environments.id = instances.environment_id
LEFT JOIN fleet ON fleet.organization_id = instances.organization_id AND fleet.instance_id = instances.id
WHERE instances.organization_id = %(organization_id)s AND instances.id = ANY (%(ids)s::text[]);

-- name: list_revisions
-- The first named revisions of an organization's applications, by the names of both; and those of these IDs.
SELECT revisions.id, revisions.name, revisions.application_id, applications.name AS application
FROM revisions JOIN applications ON applications.id = revisions.application_id
WHERE applications.organization_id = %(organization_id)s
ORDER BY revisions.id = ANY (%(ids)s::text[]) DESC, applications.name, revisions.name, revisions.id LIMIT %(count)s;

-- name: list_instance_names
-- Names of instances that hold resources.
SELECT id, name, application_id, environment_id FROM instances
WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]);

-- name: dequeue_waiter
DELETE FROM pool_tickets WHERE service_id = %(service_id)s AND holder = %(holder)s;

-- name: list_entries
-- What a vault keeps of one kind, by name; nothing secret.
SELECT id, name, algorithm, public_key, created_at, changed_at
FROM vault_entries WHERE service_id = %(service_id)s AND kind = %(kind)s ORDER BY name;

-- name: get_entry
-- An entry by its name, or by its id.
SELECT id, name, sealed, algorithm, public_key
FROM vault_entries
WHERE service_id = %(service_id)s AND kind = %(kind)s AND (name = %(name)s OR id = %(name)s)
ORDER BY name = %(name)s DESC LIMIT 1;

-- name: count_other_entries
-- How many entries a vault has beside the secret of this name.
SELECT count(*) FROM vault_entries
WHERE service_id = %(service_id)s AND NOT coalesce(kind = 'secret' AND name = %(name)s::text, false);

-- name: insert_entry
INSERT INTO vault_entries (id, service_id, kind, name, sealed, algorithm, public_key)
VALUES (%(id)s, %(service_id)s, %(kind)s, %(name)s, %(sealed)s, %(algorithm)s, %(public_key)s)
ON CONFLICT (service_id, kind, name) DO NOTHING;

-- name: update_entry
UPDATE vault_entries SET sealed = %(sealed)s, changed_at = now() WHERE id = %(id)s;

-- name: delete_entry
DELETE FROM vault_entries WHERE id = %(id)s;

-- name: list_entries_in_environment
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

-- name: list_vaults_with
-- The vaults of an organization that have a secret of this name, or the one that is meant.
SELECT services.id, services.name
FROM vault_entries JOIN services ON services.id = vault_entries.service_id
WHERE services.organization_id = %(organization_id)s AND vault_entries.kind = 'secret' AND vault_entries.name = %(name)s
    AND (%(vault_id)s::text IS NULL OR services.id = %(vault_id)s)
ORDER BY services.name, services.id;

-- name: list_offering
-- The environments that offer a service.
SELECT environment_id FROM environment_services WHERE service_id = %(service_id)s ORDER BY environment_id;
