-- What was answered under an Idempotency-Key, for a day (api-decisions, "Wire" 8). A row is written in the transaction of the change.

CREATE TABLE idempotency_keys (
    user_id     text NOT NULL,
    key         text NOT NULL,
    -- Tells whether a request is the same one, and nothing of what it was.
    fingerprint text NOT NULL,
    -- The answer, sealed with the server's secret key: some answers hold a secret.
    answer      bytea,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
