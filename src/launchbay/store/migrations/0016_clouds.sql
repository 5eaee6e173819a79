-- Machines of clouds and containers: which installation made them, with whose credentials, and where they may be.

CREATE TABLE installation (
    -- Every machine carries it, so that two installations in one account never take each other's machines for strays.
    id       text PRIMARY KEY,
    is_one   boolean NOT NULL DEFAULT true UNIQUE CHECK (is_one),
    -- When a process last began to look for strays.
    swept_at timestamptz
);
INSERT INTO installation (id) VALUES (substr(replace(gen_random_uuid()::text, '-', ''), 1, 24));

-- Credentials that manifests gave; a machine that was made with them is taken down with them, long after its step.
CREATE TABLE cloud_sign_ins (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    fingerprint     text NOT NULL,
    sealed          bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, fingerprint)
);

-- Where machines may be: written before the first one is made there. An account is a service or a row of cloud_sign_ins.
CREATE TABLE cloud_places (
    account_id      text NOT NULL,
    region          text NOT NULL,
    -- Who made machines there last: on their behalf the sweep may reach the place.
    organization_id text NOT NULL,
    environment_id  text NOT NULL,
    PRIMARY KEY (account_id, region)
);
CREATE TABLE instance_places (
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    account_id  text NOT NULL,
    region      text NOT NULL,
    PRIMARY KEY (instance_id, account_id, region)
);
