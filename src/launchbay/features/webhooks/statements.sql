-- name: list_by_organization
SELECT id, organization_id, url, sealed_url, events, enabled, disabled_reason, failing_since, created_at, format FROM webhooks
WHERE organization_id = %(organization_id)s ORDER BY id;

-- name: get
SELECT id, organization_id, url, sealed_url, events, enabled, disabled_reason, failing_since, created_at, format FROM webhooks WHERE id = %(webhook_id)s;

-- name: list_unsealed
-- Those whose URL is still in the clear.
SELECT id, url FROM webhooks WHERE sealed_url IS NULL FOR NO KEY UPDATE;

-- name: seal
UPDATE webhooks SET url = %(url)s, sealed_url = %(sealed_url)s WHERE id = %(webhook_id)s;

-- name: insert
INSERT INTO webhooks (id, organization_id, url, sealed_url, events, secret, format)
VALUES (%(webhook_id)s, %(organization_id)s, %(url)s, %(sealed_url)s, %(events)s, %(secret)s, %(format)s);

-- name: update
-- Null leaves as it is. Who is switched on again begins with a clean record.
UPDATE webhooks
SET url = coalesce(%(url)s, url), sealed_url = coalesce(%(sealed_url)s, sealed_url), events = coalesce(%(events)s, events), secret = coalesce(%(secret)s, secret), format = coalesce(%(format)s, format),
    enabled = coalesce(%(enabled)s, enabled),
    disabled_reason = CASE WHEN %(enabled)s IS NULL THEN disabled_reason END,
    failing_since = CASE WHEN %(enabled)s THEN NULL ELSE failing_since END
WHERE id = %(webhook_id)s;

-- name: delete
DELETE FROM webhooks WHERE id = %(webhook_id)s;

-- name: delete_pending
-- What was on its way to a webhook that is switched off.
UPDATE webhook_deliveries SET status = 'failed', finished_at = now(), last_error = coalesce(last_error, %(reason)s)
WHERE webhook_id = %(webhook_id)s AND status = 'pending';

-- name: separate
-- A webhook of programs gets each event by itself, also those that waited for one message.
UPDATE webhook_deliveries SET joined_to = NULL, failure = NULL, next_at = now()
WHERE webhook_id = %(webhook_id)s AND status = 'pending'
  AND (joined_to IS NOT NULL OR id IN (SELECT follow_up_id FROM webhook_failures WHERE webhook_id = %(webhook_id)s));

-- name: list_deliveries
-- Deliveries of a webhook, the newest first, those after the one with the id `after`.
SELECT id, event, status, attempts, created_at, CASE WHEN status = 'pending' THEN next_at END AS next_at, finished_at, last_status, last_error, joined_to,
       body::json ->> 'instance' AS instance_id, body::json ->> 'instanceName' AS instance_name
FROM webhook_deliveries
WHERE webhook_id = %(webhook_id)s
  AND (%(after)s::text IS NULL OR (created_at, id) < (
      SELECT created_at, id FROM webhook_deliveries WHERE webhook_id = %(webhook_id)s AND id = %(after)s))
ORDER BY created_at DESC, id DESC LIMIT %(count)s;

-- name: get_delivery
-- A delivery with what is sent, secrets included.
SELECT id, event, status, attempts, created_at, CASE WHEN status = 'pending' THEN next_at END AS next_at, finished_at, last_status, last_error, joined_to,
       body
FROM webhook_deliveries WHERE webhook_id = %(webhook_id)s AND id = %(delivery_id)s;

-- name: insert_test
INSERT INTO webhook_deliveries (id, webhook_id, event, body) VALUES (%(delivery_id)s, %(webhook_id)s, 'test', %(body)s);

-- name: retry
-- Sends failed deliveries again, all of them or one; answers how many.
WITH retried AS (
    UPDATE webhook_deliveries SET status = 'pending', next_at = now(), finished_at = NULL, failure = NULL, joined_to = NULL
    WHERE webhook_id = %(webhook_id)s AND status = 'failed' AND (%(delivery_id)s::text IS NULL OR id = %(delivery_id)s)
    RETURNING id
)
SELECT count(*)::integer FROM retried;

-- name: count_deliveries
-- How many deliveries of each webhook of an organization failed and were delivered since a time, with the last answers.
SELECT webhooks.id, count(*) FILTER (WHERE delivery.status = 'failed')::integer AS failed,
       count(*) FILTER (WHERE delivery.status = 'delivered')::integer AS delivered,
       count(*) FILTER (WHERE delivery.status = 'pending')::integer AS pending,
       (array_agg(delivery.status ORDER BY delivery.created_at DESC))[1:%(shown)s] AS newest
FROM webhooks CROSS JOIN LATERAL (
    SELECT status, created_at FROM webhook_deliveries
    WHERE webhook_id = webhooks.id AND created_at > %(since)s ORDER BY created_at DESC LIMIT %(most)s
) AS delivery
WHERE webhooks.organization_id = %(organization_id)s
GROUP BY webhooks.id;

-- name: insert_notifications
-- Puts what a step says on its way to the webhooks that ask for notifications, each once under the step's key; answers how many ask.
WITH asking AS (
    SELECT webhooks.id FROM instances JOIN webhooks ON webhooks.organization_id = instances.organization_id
    WHERE instances.id = %(instance_id)s AND webhooks.enabled AND 'notification' = ANY (webhooks.events)
), posted AS (
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT left(encode(sha256(convert_to(%(key)s || asking.id, 'UTF8')), 'hex'), 24), asking.id, 'notification', json_build_object(
        'event', 'notification',
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        'organization', instances.organization_id,
        'application', instances.application_id,
        'environment', instances.environment_id,
        'instance', instances.id,
        'instanceName', instances.name,
        'job', (SELECT json_build_object('id', jobs.id, 'name', jobs.name, 'status', jobs.status) FROM jobs WHERE jobs.id = %(job_id)s),
        'notification', %(document)s::json
    )::text
    FROM asking, instances WHERE instances.id = %(instance_id)s
    ON CONFLICT (id) DO NOTHING
)
SELECT count(*) FROM asking;

-- name: list_due
-- Webhooks with deliveries that are due.
SELECT id FROM webhooks
WHERE enabled AND EXISTS (
    SELECT FROM webhook_deliveries WHERE webhook_id = webhooks.id AND status = 'pending' AND next_at <= now());

-- name: claim
-- Takes due deliveries, a few of each webhook that is not in `busy`, and counts the attempt. Nobody else takes them before the lease is over.
WITH due AS (
    SELECT delivery.id
    FROM webhooks CROSS JOIN LATERAL (
        SELECT id FROM webhook_deliveries
        WHERE webhook_id = webhooks.id AND status = 'pending' AND next_at <= now()
          -- What another delivery's message counts goes with it, or alone if that one was given up.
          AND (joined_to IS NULL OR NOT EXISTS (
              SELECT FROM webhook_deliveries AS message WHERE message.id = webhook_deliveries.joined_to AND message.status = 'pending'))
        ORDER BY next_at LIMIT %(each)s FOR UPDATE SKIP LOCKED
    ) AS delivery
    WHERE webhooks.enabled AND webhooks.id <> ALL (%(busy)s::text[])
    LIMIT %(count)s
)
UPDATE webhook_deliveries AS delivery
SET attempts = attempts + 1, next_at = now() + %(lease_s)s * interval '1 second'
FROM due, webhooks WHERE delivery.id = due.id AND webhooks.id = delivery.webhook_id
RETURNING delivery.id, delivery.webhook_id, delivery.event, delivery.body, delivery.attempts, delivery.created_at, webhooks.sealed_url,
          webhooks.secret, webhooks.format, delivery.failure, delivery.joined_to,
          (SELECT name FROM applications WHERE id = delivery.body::json ->> 'application') AS application,
          (SELECT name FROM environments WHERE id = delivery.body::json ->> 'environment') AS environment;

-- name: lock_failure
-- Locks equal failures of a webhook until the end of the transaction, so that one process at a time decides which message says them.
-- Answers since when the next message may be sent, and the delivery that will be it.
INSERT INTO webhook_failures AS known (webhook_id, failure, until) VALUES (%(webhook_id)s, %(failure)s, now())
ON CONFLICT (webhook_id, failure) DO UPDATE SET failure = known.failure
RETURNING until AS next_message_at, until > now() AS must_wait, (
    SELECT id FROM webhook_deliveries WHERE id = known.follow_up_id AND status = 'pending'
) AS follow_up_id;

-- name: begin_message
-- A claimed delivery becomes a message at once, and equal failures wait from now on.
WITH message AS (
    UPDATE webhook_deliveries SET failure = %(failure)s, joined_to = NULL WHERE id = %(delivery_id)s
)
UPDATE webhook_failures SET until = now() + %(hold_s)s * interval '1 second', follow_up_id = NULL
WHERE webhook_id = %(webhook_id)s AND failure = %(failure)s;

-- name: hold
-- Gives a claimed delivery back until a time: `joined_to` counts it, or it is the next message itself.
WITH held AS (
    UPDATE webhook_deliveries
    SET attempts = attempts - 1, next_at = %(until)s, failure = %(failure)s, joined_to = %(joined_to)s WHERE id = %(delivery_id)s
)
UPDATE webhook_failures SET follow_up_id = coalesce(%(joined_to)s, %(delivery_id)s)
WHERE webhook_id = %(webhook_id)s AND failure = %(failure)s;

-- name: list_joined
-- What a message counts besides its own event, the first one first.
SELECT body FROM webhook_deliveries WHERE joined_to = %(delivery_id)s AND status = 'pending' ORDER BY created_at, id;

-- name: delete_old_failures
-- Failures of which no message was sent lately.
DELETE FROM webhook_failures WHERE until < now() - %(days)s * interval '1 day';

-- name: mark_delivered
-- What its message counted is delivered with it. A delivery that compares with others no more, since its webhook is one of programs
-- now, counted none.
WITH delivery AS (
    UPDATE webhook_deliveries SET status = 'delivered', finished_at = now(), last_status = %(last_status)s, last_error = NULL
    WHERE id = %(delivery_id)s AND attempts = %(attempt)s AND status = 'pending'
    RETURNING webhook_id, failure
), joined AS (
    UPDATE webhook_deliveries SET status = 'delivered', finished_at = now(), last_status = %(last_status)s, last_error = NULL
    WHERE joined_to = %(delivery_id)s AND status = 'pending' AND EXISTS (SELECT FROM delivery WHERE failure IS NOT NULL)
)
UPDATE webhooks SET failing_since = NULL FROM delivery
WHERE webhooks.id = delivery.webhook_id AND webhooks.failing_since IS NOT NULL;

-- name: mark_failed
-- An attempt that failed: the next one, or none after so long. What its message counts goes with it, and is due after it.
-- Answers since when the webhook has been failing.
WITH delivery AS (
    UPDATE webhook_deliveries
    SET last_status = %(last_status)s, last_error = %(last_error)s, next_at = now() + %(pause_s)s * interval '1 second',
        status = CASE WHEN created_at < now() - %(give_up_s)s * interval '1 second' THEN 'failed' ELSE status END,
        finished_at = CASE WHEN created_at < now() - %(give_up_s)s * interval '1 second' THEN now() END
    WHERE id = %(delivery_id)s AND attempts = %(attempt)s AND status = 'pending'
    RETURNING webhook_id, status, finished_at, next_at, failure
), joined AS (
    UPDATE webhook_deliveries AS other
    SET last_status = %(last_status)s, last_error = %(last_error)s, status = delivery.status, finished_at = delivery.finished_at, next_at = delivery.next_at
    FROM delivery WHERE other.joined_to = %(delivery_id)s AND other.status = 'pending' AND delivery.failure IS NOT NULL
)
UPDATE webhooks SET failing_since = coalesce(failing_since, now()) FROM delivery WHERE webhooks.id = delivery.webhook_id
RETURNING extract(epoch FROM now() - failing_since)::double precision;

-- name: disable
UPDATE webhooks SET enabled = false, disabled_reason = %(reason)s WHERE id = %(webhook_id)s AND enabled
RETURNING id, organization_id;

-- name: list_secrets_by_organization
-- What instances were given: its secrets are covered in what is sent.
SELECT id, parameters, environment_view FROM instances WHERE id = ANY (%(instance_ids)s::text[]);

-- name: delete_excess
-- Of a webhook that cannot keep up only so many wait; the oldest are given up.
UPDATE webhook_deliveries SET status = 'failed', finished_at = now(), last_error = coalesce(last_error, %(reason)s)
WHERE id IN (
    SELECT delivery.id FROM webhooks CROSS JOIN LATERAL (
        SELECT id FROM webhook_deliveries WHERE webhook_id = webhooks.id AND status = 'pending'
        ORDER BY created_at DESC OFFSET %(most)s LIMIT %(count)s
    ) AS delivery
);

-- name: delete_old_deliveries
-- So many of the finished ones that are too old to be shown.
DELETE FROM webhook_deliveries WHERE id IN (
    SELECT id FROM webhook_deliveries
    WHERE status <> 'pending' AND finished_at < now() - %(days)s * interval '1 day' LIMIT %(count)s FOR UPDATE SKIP LOCKED
);

-- name: lock_webhook
SELECT id FROM webhooks WHERE id = %(id)s FOR UPDATE;

-- name: list_sealed_secrets
SELECT id, '' AS part, secret AS sealed FROM webhooks
WHERE id > %(id)s AND substring(secret FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed_secret
UPDATE webhooks SET secret = %(sealed)s WHERE id = %(id)s AND secret = %(before)s;

-- name: list_sealed_urls
SELECT id, '' AS part, sealed_url AS sealed FROM webhooks
WHERE id > %(id)s AND substring(sealed_url FROM 1 FOR 5) <> %(mark)s ORDER BY id LIMIT %(count)s;

-- name: put_sealed_url
UPDATE webhooks SET sealed_url = %(sealed)s WHERE id = %(id)s AND sealed_url = %(before)s;
