-- name: get_installation
SELECT id FROM installation;

-- name: claim_sweep
-- The round of the sweep is this process's when nobody began one for so long.
UPDATE installation SET swept_at = now()
WHERE swept_at IS NULL OR swept_at < now() - make_interval(secs => %(interval_s)s)
RETURNING id;

-- name: list_accounts_by_environment
-- The cloud accounts that an environment of the organization offers, by name.
SELECT services.id, services.name, services.parameters
FROM environments
JOIN environment_services ON environment_services.environment_id = environments.id
JOIN services ON services.id = environment_services.service_id
WHERE environments.id = %(environment_id)s AND environments.organization_id = %(organization_id)s
    AND services.organization_id = environments.organization_id AND services.type_id = %(type_id)s
ORDER BY services.name, services.id;

-- name: get_account
SELECT id, name, parameters FROM services WHERE id = %(account_id)s AND type_id = %(type_id)s;

-- name: insert_sign_in
-- Credentials that a manifest gave; the same ones have one row.
INSERT INTO cloud_sign_ins (id, organization_id, fingerprint, sealed)
VALUES (%(id)s, %(organization_id)s, %(fingerprint)s, %(sealed)s)
ON CONFLICT (organization_id, fingerprint) DO NOTHING;

-- name: get_sign_in_id
SELECT id FROM cloud_sign_ins WHERE organization_id = %(organization_id)s AND fingerprint = %(fingerprint)s;

-- name: get_sign_in
SELECT sealed FROM cloud_sign_ins WHERE id = %(account_id)s;

-- name: lock_account
-- Keeps an account from being deleted until the transaction ends; answers nothing where it was.
SELECT true FROM services WHERE id = %(account_id)s FOR KEY SHARE;

-- name: list_users_of_account
-- The names of some instances that are not destroyed and have made machines with an account; nobody makes more until the
-- transaction ends.
WITH locked AS (SELECT id FROM services WHERE id = %(account_id)s FOR UPDATE)
SELECT DISTINCT instances.name
FROM locked JOIN instance_places ON instance_places.account_id = locked.id
JOIN instances ON instances.id = instance_places.instance_id
WHERE instances.status <> 'Destroyed' ORDER BY instances.name LIMIT 5;

-- name: record_place
INSERT INTO cloud_places (account_id, region, organization_id, environment_id)
VALUES (%(account_id)s, %(region)s, %(organization_id)s, %(environment_id)s)
ON CONFLICT (account_id, region)
DO UPDATE SET organization_id = excluded.organization_id, environment_id = excluded.environment_id;

-- name: record_place_of_instance
INSERT INTO instance_places (instance_id, account_id, region) VALUES (%(instance_id)s, %(account_id)s, %(region)s)
ON CONFLICT DO NOTHING;

-- name: list_places
-- Where machines may be, of accounts that are still known: nobody can look into the others.
SELECT account_id, region, organization_id, environment_id FROM cloud_places
WHERE EXISTS (SELECT FROM services WHERE services.id = account_id)
   OR EXISTS (SELECT FROM cloud_sign_ins WHERE cloud_sign_ins.id = account_id)
ORDER BY account_id, region;

-- name: list_places_by_instance
SELECT cloud_places.account_id, cloud_places.region, cloud_places.organization_id, cloud_places.environment_id
FROM instance_places JOIN cloud_places USING (account_id, region)
WHERE instance_places.instance_id = %(instance_id)s ORDER BY account_id, region;

-- name: get_owner_status
-- What decides whether a machine belongs to an instance. The lock keeps a job from being accepted until the transaction ends.
SELECT status, job_id, state FROM instances WHERE id = %(instance_id)s FOR NO KEY UPDATE;

-- name: get_host_key
-- The key that a host must show.
SELECT public_key FROM host_keys WHERE organization_id = %(organization_id)s AND host = %(host)s;

-- name: insert_host_key
-- Keeps the key of a new host; of a known one the first key stays. Read with `get` after.
INSERT INTO host_keys (organization_id, host, public_key) VALUES (%(organization_id)s, %(host)s, %(public_key)s)
ON CONFLICT DO NOTHING;

-- name: delete_host_key
DELETE FROM host_keys WHERE organization_id = %(organization_id)s AND host = %(host)s;

-- name: list_host_keys_by_organization
-- The pinned keys of an organization's hosts, by host.
SELECT host, public_key, pinned_at FROM host_keys WHERE organization_id = %(organization_id)s ORDER BY host;
