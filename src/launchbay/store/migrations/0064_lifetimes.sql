-- Rules for how long instances live, extensions of their lives, and warnings before their end.

CREATE TABLE lifetime_rules (
    application_id  text UNIQUE REFERENCES applications ON DELETE CASCADE,
    environment_id  text UNIQUE REFERENCES environments ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    rules           text NOT NULL,
    CHECK (num_nonnulls(application_id, environment_id) = 1)
);
CREATE INDEX lifetime_rules_organization ON lifetime_rules (organization_id);

CREATE TABLE instance_extensions (
    instance_id text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    extensions  integer NOT NULL
);

-- A warning that was given, so long before such an end. `mail_at` is when to send the email, null without one.
CREATE TABLE expiry_warnings (
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    destroy_at  timestamptz NOT NULL,
    ahead_s     integer NOT NULL,
    mail_at     timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (instance_id, destroy_at, ahead_s)
);
CREATE INDEX expiry_warnings_mail ON expiry_warnings (mail_at) WHERE mail_at IS NOT NULL;
