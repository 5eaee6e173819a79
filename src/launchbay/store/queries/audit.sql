-- name: insert
INSERT INTO audit_entries
    (organization_id, actor_id, actor_email, method, address, operation, object, object_id, before, after)
VALUES (%(organization_id)s, %(actor_id)s, %(actor_email)s, %(method)s, %(address)s, %(operation)s, %(object)s,
        %(object_id)s, %(before)s, %(after)s);

-- name: insert_for_actor
-- What belongs to a person and no single organization is seen by each organization of the actor. Without any, it is still
-- written down.
INSERT INTO audit_entries
    (organization_id, actor_id, actor_email, method, address, operation, object, object_id, before, after)
SELECT memberships.organization_id, %(actor_id)s, %(actor_email)s, %(method)s, %(address)s, %(operation)s, %(object)s,
       %(object_id)s, %(before)s, %(after)s
FROM (SELECT) AS once LEFT JOIN memberships ON memberships.user_id = %(actor_id)s;

-- name: of_organization
-- The entries of an organization, oldest first: by an actor (id or e-mail address), about a path and what is below it.
SELECT id, at, actor_id, actor_email, method, address, operation, object, before, after
FROM audit_entries
WHERE organization_id = %(organization_id)s AND id > %(after)s
  AND (%(actor)s::text IS NULL OR actor_id = %(actor)s OR lower(actor_email) = lower(%(actor)s))
  AND (%(object)s::text IS NULL OR object = %(object)s OR starts_with(object, %(object)s || '/'))
ORDER BY id LIMIT %(limit)s;

-- name: of_object
-- The same for one object by its id. A statement of its own, so that it has its own index.
SELECT id, at, actor_id, actor_email, method, address, operation, object, before, after
FROM audit_entries
WHERE organization_id = %(organization_id)s AND id > %(after)s AND object_id = %(object)s
  AND (%(actor)s::text IS NULL OR actor_id = %(actor)s OR lower(actor_email) = lower(%(actor)s))
ORDER BY id LIMIT %(limit)s;
