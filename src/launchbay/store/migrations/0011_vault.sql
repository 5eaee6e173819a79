-- What vaults keep: key pairs and named secrets, each sealed with the server's secret key for its entry alone.

CREATE TABLE vault_entries (
    id         text PRIMARY KEY,
    service_id text NOT NULL REFERENCES services ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('key-pair', 'secret')),
    name       text NOT NULL,
    -- The private key, or the secret.
    sealed     bytea NOT NULL,
    -- Of key pairs only; the public key in the form of authorized_keys.
    algorithm  text,
    public_key text,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (service_id, kind, name),
    CHECK ((kind = 'key-pair') = (algorithm IS NOT NULL AND public_key IS NOT NULL))
);
