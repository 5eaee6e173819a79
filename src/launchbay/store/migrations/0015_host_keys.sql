-- The key that every host of machines showed at its first use. Another one is refused until somebody forgets this one.

CREATE TABLE host_keys (
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    host            text NOT NULL, -- address:port
    public_key      text NOT NULL,
    pinned_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, host)
);
