-- name: lock
-- The instance, locked after its expiry: the stager locks them in this order, too.
WITH expiry AS MATERIALIZED (
    SELECT id FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry' FOR UPDATE
), counted AS MATERIALIZED (
    SELECT count(*) AS expiries FROM expiry
)
SELECT status, destroy_at, EXISTS (SELECT FROM instance_offers WHERE instance_offers.instance_id = instances.id) AS is_offered
FROM instances WHERE id = %(instance_id)s AND (SELECT expiries FROM counted) >= 0
FOR NO KEY UPDATE OF instances;

-- name: move
-- Sets when an instance is destroyed, whether it was to be before or not; who set it first stays the owner of that.
WITH changed AS (
    UPDATE instances SET destroy_at = %(destroy_at)s WHERE id = %(instance_id)s
)
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
VALUES (%(schedule_id)s, %(instance_id)s, 'expiry', 'destroy', %(owner_id)s, %(destroy_at)s)
ON CONFLICT (instance_id) WHERE kind = 'expiry' DO UPDATE SET due_at = excluded.due_at, blocked = false;

-- name: clear
WITH changed AS (
    UPDATE instances SET destroy_at = NULL WHERE id = %(instance_id)s
)
DELETE FROM schedules WHERE instance_id = %(instance_id)s AND kind = 'expiry';
