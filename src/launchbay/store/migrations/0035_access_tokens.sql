-- Service accounts, and access tokens of people and of service accounts.

-- The organization of a service account, NULL for people. Service accounts never have a password.
ALTER TABLE users ADD COLUMN service_of text REFERENCES organizations ON DELETE CASCADE;
ALTER TABLE users ADD COLUMN description text NOT NULL DEFAULT '';
ALTER TABLE users ADD CONSTRAINT service_accounts_have_no_password CHECK (service_of IS NULL OR password_hash IS NULL);
CREATE INDEX users_service_of ON users (service_of) WHERE service_of IS NOT NULL;

CREATE TABLE access_tokens (
    id              text PRIMARY KEY,
    -- A token is of one organization, also if its owner belongs to several.
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    user_id         text NOT NULL REFERENCES users ON DELETE CASCADE,
    name            text NOT NULL,
    -- What it allows of what its owner may do, as the text of a role. NULL: all of it.
    scope           text,
    -- SHA-256 of the token, which has 256 random bits; the token itself is stored nowhere.
    token_hash      bytea NOT NULL UNIQUE,
    -- The token that made it, whose end is its end too.
    parent_id       text REFERENCES access_tokens ON DELETE CASCADE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    last_used_at    timestamptz
);
CREATE INDEX access_tokens_owner ON access_tokens (user_id, organization_id);
CREATE INDEX access_tokens_organization ON access_tokens (organization_id, id);
CREATE INDEX access_tokens_parent ON access_tokens (parent_id) WHERE parent_id IS NOT NULL;

-- Which token acted.
ALTER TABLE audit_entries ADD COLUMN token_id text;
ALTER TABLE audit_entries ADD COLUMN token_name text;

-- Streams that were opened with a token end with it.
CREATE TRIGGER access_tokens_announce_revoked AFTER DELETE ON access_tokens
    FOR EACH ROW EXECUTE FUNCTION announce_ended_credentials();
