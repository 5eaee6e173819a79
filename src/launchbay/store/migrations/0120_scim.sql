-- People and groups that the identity providers of organizations tell of (SCIM).

CREATE TABLE scim_users (
    -- It stays when the person comes back with another account.
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    -- Null while the person has no account here.
    user_id         text REFERENCES users ON DELETE SET NULL,
    user_name       text NOT NULL,
    -- The email address that names the account.
    address         text NOT NULL,
    external_id     text,
    -- What else the provider says of the person, as the JSON that it gets again.
    document        text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    changed_at      timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX scim_users_name ON scim_users (organization_id, lower(user_name));
CREATE UNIQUE INDEX scim_users_account ON scim_users (organization_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX scim_users_user ON scim_users (user_id) WHERE user_id IS NOT NULL;

CREATE TABLE scim_groups (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    -- Roles are mapped to it in group_roles.
    name            text NOT NULL,
    external_id     text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    changed_at      timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX scim_groups_name ON scim_groups (organization_id, name);

CREATE TABLE scim_members (
    group_id text NOT NULL REFERENCES scim_groups ON DELETE CASCADE,
    member_id text NOT NULL REFERENCES scim_users ON DELETE CASCADE,
    PRIMARY KEY (group_id, member_id)
);
CREATE INDEX scim_members_member ON scim_members (member_id);

-- When the provider of an organization was last here, and what was refused to it.
CREATE TABLE scim_activity (
    organization_id text PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
    succeeded_at    timestamptz,
    failed_at       timestamptz,
    -- The last refusals as a JSON list, the newest first.
    refusals        text NOT NULL DEFAULT '[]'
);

-- What a person has in an organization ends with the membership, however it ends: nothing of it comes back with the person.
CREATE FUNCTION end_what_members_have() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM access_tokens WHERE organization_id = OLD.organization_id AND user_id = OLD.user_id;
    DELETE FROM recurring_schedules WHERE organization_id = OLD.organization_id AND owner_id = OLD.user_id;
    RETURN NULL;
END $$;
CREATE TRIGGER memberships_end_what_members_have AFTER DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION end_what_members_have();
