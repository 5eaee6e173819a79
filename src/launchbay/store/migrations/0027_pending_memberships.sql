-- A membership in an organization that did not make the account begins when the person accepts it.

CREATE TABLE pending_memberships (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    user_id         text NOT NULL REFERENCES users ON DELETE CASCADE,
    name            text NOT NULL, -- as the organization wrote it: it does not see the account
    role_ids        text[] NOT NULL, -- those that still exist are assigned
    token_hash      bytea NOT NULL UNIQUE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    UNIQUE (organization_id, user_id)
);
CREATE INDEX pending_memberships_user ON pending_memberships (user_id);

-- Null for memberships of older versions.
ALTER TABLE memberships ADD COLUMN joined_at timestamptz;
ALTER TABLE memberships ALTER COLUMN joined_at SET DEFAULT now();

-- The organization that an account was made in: it alone disables the account and sees its sign-ins. Null once the person
-- has left it. For accounts of older versions: where the audit log says that they were made, else their oldest organization.
ALTER TABLE users ADD COLUMN home_organization_id text REFERENCES organizations ON DELETE SET NULL;
UPDATE users SET home_organization_id = coalesce(
    (SELECT e.organization_id
     FROM audit_entries e JOIN memberships m ON m.organization_id = e.organization_id AND m.user_id = users.id
     WHERE e.object_id = users.id AND e.operation = 'create_user' AND e.after::json ->> 'isNewAccount' = 'true'
     ORDER BY e.id DESC LIMIT 1),
    (SELECT min(m.organization_id) FROM memberships m WHERE m.user_id = users.id)
);

-- Servers of older versions do not write the column.
CREATE FUNCTION make_first_organization_home() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET home_organization_id = NEW.organization_id
    WHERE id = NEW.user_id AND home_organization_id IS NULL AND NOT EXISTS (
        SELECT FROM memberships WHERE user_id = NEW.user_id AND organization_id <> NEW.organization_id
    );
    RETURN NULL;
END $$;
CREATE FUNCTION forget_home() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET home_organization_id = NULL WHERE id = OLD.user_id AND home_organization_id = OLD.organization_id;
    RETURN NULL;
END $$;
CREATE TRIGGER memberships_make_home AFTER INSERT ON memberships
    FOR EACH ROW EXECUTE FUNCTION make_first_organization_home();
CREATE TRIGGER memberships_forget_home AFTER DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION forget_home();
