-- The order in which an organization promotes versions, or an application of its own: the owner is one of them. `stages` is JSON. Servers of
-- the version before don't ask its gates. The author is on whose behalf promotions are automatic; null: whoever it was is gone.
CREATE TABLE promotion_orders (
    owner_id        text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text REFERENCES applications ON DELETE CASCADE,
    stages          text NOT NULL,
    is_automatic    boolean NOT NULL,
    author_id       text NOT NULL,
    method          text NOT NULL,
    token_id        text,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX promotion_orders_organization ON promotion_orders (organization_id);
CREATE INDEX promotion_orders_application ON promotion_orders (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX promotion_orders_automatic ON promotion_orders (owner_id) WHERE is_automatic;

-- Change sets that promote a version.
CREATE TABLE promotions (
    change_set_id   text PRIMARY KEY REFERENCES change_sets ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text NOT NULL REFERENCES applications ON DELETE CASCADE,
    environment_id  text NOT NULL,
    version         integer NOT NULL,
    is_automatic    boolean NOT NULL
);
CREATE INDEX promotions_organization ON promotions (organization_id);
CREATE INDEX promotions_application ON promotions (application_id, environment_id, version);

-- What became of automatic promotion of an application to an environment, and when to look again.
CREATE TABLE promotion_attempts (
    application_id  text NOT NULL REFERENCES applications ON DELETE CASCADE,
    environment_id  text NOT NULL REFERENCES environments ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    message         text,
    looks_at        timestamptz NOT NULL DEFAULT now(),
    -- Until somebody saves the order again.
    is_stopped      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (application_id, environment_id)
);
CREATE INDEX promotion_attempts_environment ON promotion_attempts (environment_id);
CREATE INDEX promotion_attempts_organization ON promotion_attempts (organization_id);
