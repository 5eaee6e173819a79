-- name: get
-- The key that a host must show.
SELECT public_key FROM host_keys WHERE organization_id = %(organization_id)s AND host = %(host)s;

-- name: pin
-- Keeps the key of a new host; of a known one the first key stays. Read with `get` after.
INSERT INTO host_keys (organization_id, host, public_key) VALUES (%(organization_id)s, %(host)s, %(public_key)s)
ON CONFLICT DO NOTHING;

-- name: forget
DELETE FROM host_keys WHERE organization_id = %(organization_id)s AND host = %(host)s;

-- name: of_organization
-- The pinned keys of an organization's hosts, by host.
SELECT host, public_key, pinned_at FROM host_keys WHERE organization_id = %(organization_id)s ORDER BY host;
