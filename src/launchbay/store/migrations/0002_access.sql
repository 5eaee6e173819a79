-- Who calls, and may they: refresh tokens, the keys of session tokens, and stamps that cannot be forgotten.

-- Stamps are compared for equality only. They come from a sequence, which no rollback turns back: a stamp read in a
-- transaction that failed is never given to another state.
CREATE SEQUENCE access_stamps AS bigint START 1000;

CREATE FUNCTION raise_access_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE organizations SET access_stamp = nextval('access_stamps') WHERE id IN (SELECT organization_id FROM changed);
    RETURN NULL;
END
$$;

-- Assignments name a role, not an organization. Those that go with a deleted role find none; the role's own trigger
-- has raised the stamp then.
CREATE FUNCTION raise_access_stamp_of_role() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE organizations SET access_stamp = nextval('access_stamps')
    WHERE id IN (SELECT roles.organization_id FROM changed JOIN roles ON roles.id = changed.role_id);
    RETURN NULL;
END
$$;

CREATE TRIGGER roles_inserted AFTER INSERT ON roles
    REFERENCING NEW TABLE AS changed EXECUTE FUNCTION raise_access_stamp();
CREATE TRIGGER roles_updated AFTER UPDATE ON roles
    REFERENCING NEW TABLE AS changed EXECUTE FUNCTION raise_access_stamp();
CREATE TRIGGER roles_deleted AFTER DELETE ON roles
    REFERENCING OLD TABLE AS changed EXECUTE FUNCTION raise_access_stamp();
CREATE TRIGGER memberships_inserted AFTER INSERT ON memberships
    REFERENCING NEW TABLE AS changed EXECUTE FUNCTION raise_access_stamp();
CREATE TRIGGER memberships_deleted AFTER DELETE ON memberships
    REFERENCING OLD TABLE AS changed EXECUTE FUNCTION raise_access_stamp();
CREATE TRIGGER role_assignments_inserted AFTER INSERT ON role_assignments
    REFERENCING NEW TABLE AS changed EXECUTE FUNCTION raise_access_stamp_of_role();
CREATE TRIGGER role_assignments_deleted AFTER DELETE ON role_assignments
    REFERENCING OLD TABLE AS changed EXECUTE FUNCTION raise_access_stamp_of_role();

-- Set when a user generated too many refresh tokens; counting starts afresh when it has passed.
ALTER TABLE users ADD COLUMN tokens_blocked_until timestamptz;

CREATE TABLE refresh_tokens (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
    label        text NOT NULL,
    -- SHA-256 of the token, which has 256 random bits; the token itself is stored nowhere.
    token_hash   bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    -- Revoked tokens stay until they expire: they count for the generation limit.
    revoked_at   timestamptz
);
CREATE INDEX refresh_tokens_user ON refresh_tokens (user_id, created_at);

-- The keys that sign session tokens: the newest signs, older ones verify until what they signed has expired.
CREATE TABLE session_keys (
    id         text PRIMARY KEY,
    -- The private key, sealed with the server's secret key.
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
