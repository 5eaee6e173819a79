-- Second factors of accounts that sign in with a password, and organizations that demand one of their members.

CREATE TABLE second_factors (
    id            text PRIMARY KEY,
    user_id       text NOT NULL REFERENCES users ON DELETE CASCADE,
    kind          text NOT NULL CHECK (kind IN ('totp', 'passkey')),
    name          text NOT NULL,
    secret        bytea, -- of an authenticator application, sealed with the server's secret key
    credential_id bytea UNIQUE,
    public_key    bytea,
    -- The newest time step whose code was used, or the passkey's own count of signatures: neither is taken twice.
    used_count    bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    last_used_at  timestamptz,
    CHECK (CASE kind WHEN 'totp' THEN secret IS NOT NULL ELSE credential_id IS NOT NULL AND public_key IS NOT NULL END)
);
CREATE INDEX second_factors_of_user ON second_factors (user_id);

CREATE TABLE recovery_codes (
    code_hash bytea PRIMARY KEY, -- SHA-256; a code has 120 random bits
    user_id   text NOT NULL REFERENCES users ON DELETE CASCADE
);
CREATE INDEX recovery_codes_of_user ON recovery_codes (user_id);

-- Who has entered the password and has a moment to go on: to sign in with a second factor, or to set one up.
CREATE TABLE second_steps (
    token_hash   bytea PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
    purpose      text NOT NULL CHECK (purpose IN ('sign in', 'set up')),
    access_stamp bigint NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX second_steps_of_user ON second_steps (user_id);

CREATE TABLE wrong_second_factors (
    user_id  text PRIMARY KEY REFERENCES users ON DELETE CASCADE,
    attempts integer NOT NULL,
    last_at  timestamptz NOT NULL,
    next_at  timestamptz NOT NULL
);

ALTER TABLE organizations ADD COLUMN requires_second_factor boolean NOT NULL DEFAULT false;

-- What was verified with a password alone ends when an organization demands more, or when somebody joins one that does.
CREATE FUNCTION end_passwords_alone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET access_stamp = nextval('access_stamps') FROM memberships
    WHERE memberships.organization_id = NEW.id AND users.id = memberships.user_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION end_password_alone_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET access_stamp = nextval('access_stamps') FROM organizations
    WHERE users.id = NEW.user_id AND organizations.id = NEW.organization_id AND organizations.requires_second_factor;
    RETURN NULL;
END
$$;
CREATE TRIGGER second_factor_required AFTER UPDATE OF requires_second_factor ON organizations
    FOR EACH ROW WHEN (NEW.requires_second_factor AND NOT OLD.requires_second_factor)
    EXECUTE FUNCTION end_passwords_alone();
CREATE TRIGGER member_of_strict_organization AFTER INSERT ON memberships
    FOR EACH ROW EXECUTE FUNCTION end_password_alone_of_member();
