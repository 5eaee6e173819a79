-- Everything here happens under the lock of the pool's row in `services`, so that all see the same.

-- name: handed_out
-- Every resource that was handed out at least once, with its holder or null.
SELECT resource_id, holder, changed_at FROM pool_resources WHERE service_id = %(service_id)s ORDER BY resource_id;

-- name: take
INSERT INTO pool_resources (service_id, resource_id, holder, changed_at)
VALUES (%(service_id)s, %(resource_id)s, %(holder)s, clock_timestamp())
ON CONFLICT (service_id, resource_id) DO UPDATE SET holder = excluded.holder, changed_at = excluded.changed_at;

-- name: give_back
UPDATE pool_resources SET holder = NULL, changed_at = clock_timestamp()
WHERE service_id = %(service_id)s AND holder = %(holder)s
RETURNING resource_id;

-- name: forget_silent
-- Who waits asks again and again; who has stopped asking has given up.
DELETE FROM pool_tickets
WHERE service_id = %(service_id)s AND asked_at < clock_timestamp() - make_interval(secs => %(silent_s)s);

-- name: ask
-- Keeps or makes the holder's place in the row of those who wait, and returns its number.
INSERT INTO pool_tickets (service_id, holder, asked_at) VALUES (%(service_id)s, %(holder)s, clock_timestamp())
ON CONFLICT (service_id, holder) DO UPDATE SET asked_at = excluded.asked_at
RETURNING ticket;

-- name: ahead
SELECT count(*) FROM pool_tickets WHERE service_id = %(service_id)s AND ticket < %(ticket)s;

-- name: waiting
SELECT count(*) FROM pool_tickets WHERE service_id = %(service_id)s;

-- name: leave
DELETE FROM pool_tickets WHERE service_id = %(service_id)s AND holder = %(holder)s;
