-- The audit log, and the links by which new users set their first password.

CREATE TABLE audit_entries (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Null where the actor belongs to no organization. No foreign keys: what happened stays, whatever is deleted later.
    organization_id text,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_id        text NOT NULL,
    actor_email     text NOT NULL,
    method          text NOT NULL,
    address         text NOT NULL,
    -- The operation id of the endpoint table.
    operation       text NOT NULL,
    -- The path of what was changed, such as /applications/{id}/instances/{id}, and its last id.
    object          text NOT NULL,
    object_id       text NOT NULL,
    -- JSON documents; secrets stand in them as fingerprints. Null where there was or is nothing.
    before          text,
    after           text
);
CREATE INDEX audit_entries_organization ON audit_entries (organization_id, id);
CREATE INDEX audit_entries_object ON audit_entries (object_id, id);

CREATE TABLE invitations (
    user_id    text PRIMARY KEY REFERENCES users ON DELETE CASCADE,
    -- SHA-256 of the token in the link, which has 256 random bits.
    token_hash bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
