-- What steps keep beyond their job, such as the state of OpenTofu: needed to change and to take down what they have made.

CREATE TABLE kept_documents (
    id          text PRIMARY KEY,
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    -- The component and action whose document it is, and the name that the manifest gives it.
    component   text NOT NULL,
    action      text NOT NULL,
    name        text NOT NULL,
    -- Raised by every write: who writes names the one that they read.
    version     integer NOT NULL DEFAULT 1,
    -- Sealed with the server's secret key: it may hold passwords of what was made.
    sealed      bytea NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (instance_id, component, action, name)
);
