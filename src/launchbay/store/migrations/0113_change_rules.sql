-- Rules about changes, as YAML: those of an organization, or of one of its applications or environments, which is the owner. Each version
-- stays for a while. An empty text is one that was removed. Servers of the version before don't ask.
CREATE TABLE change_rules (
    owner_id        text NOT NULL,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text REFERENCES applications ON DELETE CASCADE,
    environment_id  text REFERENCES environments ON DELETE CASCADE,
    version         integer NOT NULL,
    rules           text NOT NULL,
    is_current      boolean NOT NULL,
    author_id       text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, version),
    CHECK (num_nonnulls(application_id, environment_id) <= 1)
);
CREATE UNIQUE INDEX change_rules_current ON change_rules (owner_id) WHERE is_current;
CREATE INDEX change_rules_organization ON change_rules (organization_id, owner_id) WHERE is_current AND rules <> '';
CREATE INDEX change_rules_application ON change_rules (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX change_rules_environment ON change_rules (environment_id) WHERE environment_id IS NOT NULL;

-- Processes keep rules as they keep grants: as long as the stamp of the organization is the one under which they read them.
CREATE TRIGGER change_rules_inserted AFTER INSERT ON change_rules
    REFERENCING NEW TABLE AS changed EXECUTE FUNCTION raise_access_stamp();

-- What rules know of a change set, as JSON: approvals are those of others than its author.
CREATE FUNCTION launchbay_change_set_facts(of_id text, in_organization text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'id', change_sets.id, 'author', change_sets.owner_email, 'comment', change_sets.comment,
        'approvals', (
            SELECT coalesce(json_agg(json_build_object('email', answers.email, 'roles', ARRAY(
                SELECT roles.name FROM role_assignments JOIN roles ON roles.id = role_assignments.role_id
                WHERE role_assignments.user_id = answers.user_id AND roles.organization_id = in_organization ORDER BY roles.name
            )) ORDER BY answers.at), '[]')
            FROM change_set_answers AS answers
            WHERE answers.change_set_id = change_sets.id AND answers.approves AND answers.user_id <> change_sets.owner_id
        )
    )::text
    FROM change_sets WHERE change_sets.id = of_id AND change_sets.organization_id = in_organization
$$;
