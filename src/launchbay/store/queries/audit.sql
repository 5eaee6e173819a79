-- name: insert
INSERT INTO audit_entries
    (organization_id, actor_id, actor_email, method, address, operation, object, object_id, before, after, token_id,
     token_name)
VALUES (%(organization_id)s, %(actor_id)s, %(actor_email)s, %(method)s, %(address)s, %(operation)s, %(object)s,
        %(object_id)s, %(before)s, %(after)s, %(token_id)s, %(token_name)s);

-- name: post_override
-- Tells webhooks who has overridden a freeze, and why.
SELECT launchbay_post_override(%(organization_id)s, %(instance_id)s, %(what)s::json);

-- name: insert_for_actor
-- What people do with their own account is seen by the organization that made the account, and by no other one that they
-- belong to. Without one, it is still written down.
INSERT INTO audit_entries
    (organization_id, actor_id, actor_email, method, address, operation, object, object_id, before, after, token_id,
     token_name)
SELECT users.home_organization_id, %(actor_id)s, %(actor_email)s, %(method)s, %(address)s, %(operation)s, %(object)s,
       %(object_id)s, %(before)s, %(after)s, %(token_id)s, %(token_name)s
FROM (SELECT) AS once LEFT JOIN users ON users.id = %(actor_id)s;

-- name: insert_for_home
-- What happened to a person is seen by the home organization.
INSERT INTO audit_entries
    (organization_id, actor_id, actor_email, method, address, operation, object, object_id, before, after, token_id,
     token_name)
SELECT home_organization_id, %(actor_id)s, %(actor_email)s, %(method)s, %(address)s, %(operation)s, %(object)s, %(object_id)s,
       %(before)s, %(after)s, %(token_id)s, %(token_name)s
FROM users WHERE id = %(actor_id)s AND home_organization_id IS NOT NULL;

-- name: get_place
-- The ID of the first entry of an organization from a time on, 0 if it has no entries. Lists take it as a number: PostgreSQL would
-- call the function again for each partition while it makes their plan. The minutes are added here, where no time is too early or late.
SELECT launchbay_audit_place(%(organization_id)s, %(at)s::timestamptz + make_interval(mins => %(minutes)s));

-- name: list_entries
-- Entries of an organization in the order of their IDs: by an actor, with an operation, about an object by its ID, or about a path and what
-- is below it. Conditions that are not asked for fold away when PostgreSQL plans with the parameters. One value is compared as such: its
-- index then has the entries in their order.
SELECT id, at, actor_id, actor_email, method, address, operation, object, before, after, token_id, token_name
FROM audit_entries
WHERE organization_id = %(organization_id)s AND id >= %(first)s AND id < %(end)s
  AND CASE WHEN %(descends)s::boolean THEN id < %(after)s ELSE id > %(after)s END
  AND (%(actor_id)s::text IS NULL OR actor_id = %(actor_id)s)
  -- The index has entries by address, and by ID those of what a server did for somebody.
  AND (%(actor_email)s::text IS NULL
       OR CASE WHEN strpos(actor_email, '@') > 0 THEN lower(actor_email COLLATE "C") ELSE actor_id END = lower(%(actor_email)s COLLATE "C")
       OR %(actor_id)s::text IS NOT NULL
          AND CASE WHEN strpos(actor_email, '@') > 0 THEN lower(actor_email COLLATE "C") ELSE actor_id END = %(actor_id)s)
  -- What is neither an ID nor an address.
  AND (%(actor)s::text IS NULL OR actor_id = %(actor)s OR lower(actor_email COLLATE "C") = lower(%(actor)s COLLATE "C"))
  AND (%(object_id)s::text IS NULL OR object_id = %(object_id)s)
  AND (%(path)s::text IS NULL OR object = %(path)s OR starts_with(object, %(path)s || '/'))
  AND (%(actions)s::text[] IS NULL OR CASE cardinality(%(actions)s::text[])
      WHEN 1 THEN operation = (%(actions)s::text[])[1] ELSE operation = ANY (%(actions)s::text[]) END)
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY CASE WHEN %(descends)s::boolean THEN id END DESC, CASE WHEN NOT %(descends)s::boolean THEN id END LIMIT %(limit)s;

-- name: list_recent_by
-- The newest entries of some people with some operations, and the environment of each, as far as it is known.
SELECT at, actor_id, actor_email, operation, object,
       coalesce(instances.environment_id, substring(after FROM '"environmentId":"([0-9a-f]{24})"')) AS environment_id
FROM audit_entries LEFT JOIN instances
  ON instances.id = audit_entries.object_id AND instances.organization_id = %(organization_id)s
WHERE audit_entries.organization_id = %(organization_id)s AND actor_id = ANY (%(actor_ids)s::text[])
  AND operation = ANY (%(operations)s::text[])
ORDER BY audit_entries.id DESC LIMIT %(limit)s;

-- name: list_last_changes
-- Who changed each of some objects last, and when. To look at a secret changes nothing.
SELECT wanted.id, newest.at, coalesce(users.name, newest.actor_email) AS actor
FROM unnest(%(ids)s::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT at, actor_id, actor_email FROM audit_entries
    WHERE object_id = wanted.id AND organization_id = %(organization_id)s AND NOT starts_with(operation, 'reveal_')
    ORDER BY id DESC LIMIT 1
) AS newest
LEFT JOIN memberships ON memberships.user_id = newest.actor_id AND memberships.organization_id = %(organization_id)s
LEFT JOIN users ON users.id = memberships.user_id;

-- name: list_names
-- What objects and members of an organization are called today.
SELECT id, name FROM named_objects WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]);

-- name: list_named
-- Objects and members of an organization by the beginning of their names, those of exactly this name first.
SELECT kind, id, name FROM named_objects
WHERE organization_id = %(organization_id)s AND starts_with(lower(name), lower(%(text)s))
ORDER BY lower(name) <> lower(%(text)s), lower(name), id LIMIT %(count)s;

-- name: insert_idempotency_key
-- Takes a key for a request; waits for whoever is taking it at this moment. No row: it is taken, and not too long ago.
INSERT INTO idempotency_keys (user_id, key, fingerprint) VALUES (%(user_id)s, %(key)s, %(fingerprint)s)
ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, answer = NULL, headers = NULL, created_at = excluded.created_at
    WHERE idempotency_keys.created_at <= now() - %(hours)s * interval '1 hour'
RETURNING true;

-- name: set_idempotent_answer
UPDATE idempotency_keys SET answer = %(answer)s, headers = %(headers)s WHERE user_id = %(user_id)s AND key = %(key)s;

-- name: get_idempotency_key
SELECT fingerprint, answer, headers FROM idempotency_keys WHERE user_id = %(user_id)s AND key = %(key)s;

-- name: delete_idempotency_keys
-- So many of those that nobody may rely on any more.
DELETE FROM idempotency_keys WHERE (user_id, key) IN (
    SELECT user_id, key FROM idempotency_keys WHERE created_at <= now() - %(hours)s * interval '1 hour'
    ORDER BY created_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
);
