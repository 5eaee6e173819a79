-- Which addresses Launchbay puts back by itself: of all instances of an application or environment, or of one. The owner is on whose behalf.
-- Servers of the version before put nothing back by themselves.
CREATE TABLE put_back_rules (
    object_id       text PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('application', 'environment', 'instance')),
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text REFERENCES applications ON DELETE CASCADE,
    environment_id  text REFERENCES environments ON DELETE CASCADE,
    instance_id     text REFERENCES instances ON DELETE CASCADE,
    addresses       text[] NOT NULL,
    allow_deletes   text[] NOT NULL,
    most_per_day    integer NOT NULL,
    owner_id        text NOT NULL,
    method          text NOT NULL,
    token_id        text,
    -- Why it has stopped, until somebody saves it again.
    problem         text
);
CREATE INDEX put_back_rules_organization ON put_back_rules (organization_id);
CREATE INDEX put_back_rules_application ON put_back_rules (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX put_back_rules_environment ON put_back_rules (environment_id) WHERE environment_id IS NOT NULL;
CREATE INDEX put_back_rules_instance ON put_back_rules (instance_id) WHERE instance_id IS NOT NULL;

-- What became of putting an instance back by a rule. It is looked at again at a time, and after another check than the one of `checked_at`.
-- `done` has the findings that were put back within a day, as JSON.
CREATE TABLE put_backs (
    instance_id     text PRIMARY KEY REFERENCES instances ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    change_set_id   text,
    message         text,
    done            text NOT NULL DEFAULT '[]',
    checked_at      timestamptz,
    looks_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX put_backs_organization ON put_backs (organization_id);
