-- Sources in Git: an application or a directory that follows a branch of a repository.

CREATE TABLE git_sources (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    -- The service account on whose behalf it acts.
    account_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
    -- The application whose manifest it brings; none for a whole directory.
    application_id  text REFERENCES applications ON DELETE CASCADE,
    -- Repository, credentials by name, and what to do, as JSON without secrets.
    settings        text NOT NULL,
    is_paused       boolean NOT NULL DEFAULT false,
    -- When to look at the branch. Somebody asked for it if it is forced.
    due_at          timestamptz,
    is_forced       boolean NOT NULL DEFAULT false,
    -- Who looks at it now: a process that holds the lease and knows the fence.
    lease_until     timestamptz,
    fence           bigint NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,
    -- The commit that was seen last, that was applied last, and that waits for approval.
    seen            text,
    applied         text,
    planned         text,
    approved        text,
    problem         text,
    looked_at       timestamptz,
    -- The files of the applied commit, compressed.
    files           bytea,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, name)
);
CREATE INDEX git_sources_due ON git_sources (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX git_sources_account ON git_sources (account_id);
CREATE INDEX git_sources_application ON git_sources (application_id) WHERE application_id IS NOT NULL;

CREATE TABLE git_syncs (
    id              text PRIMARY KEY,
    source_id       text NOT NULL REFERENCES git_sources ON DELETE CASCADE,
    commit          text,
    -- The pull request whose preview it made; none for the branch.
    pull_request    bigint,
    status          text NOT NULL CHECK (status IN ('Applied', 'Planned', 'Refused', 'Failed')),
    message         text,
    -- What changed, as JSON, and the change sets that came of it.
    changes         text NOT NULL DEFAULT '[]',
    change_set_ids  text[] NOT NULL DEFAULT '{}',
    instance_id     text,
    attempts        integer NOT NULL DEFAULT 1,
    -- When to report the outcome to the commit, how often that failed, and with what.
    report_at       timestamptz,
    report_attempts integer NOT NULL DEFAULT 0,
    report_problem  text,
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX git_syncs_source ON git_syncs (source_id, id);
CREATE INDEX git_syncs_report ON git_syncs (report_at) WHERE report_at IS NOT NULL;

CREATE TABLE git_previews (
    source_id       text NOT NULL REFERENCES git_sources ON DELETE CASCADE,
    number          bigint NOT NULL,
    branch          text NOT NULL,
    commit          text NOT NULL,
    is_open         boolean NOT NULL,
    -- When the forge changed the pull request: older events don't count.
    changed_at      timestamptz NOT NULL,
    due_at          timestamptz,
    lease_until     timestamptz,
    fence           bigint NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,
    application_id  text REFERENCES applications ON DELETE SET NULL,
    instance_id     text REFERENCES instances ON DELETE SET NULL,
    applied         text,
    problem         text,
    PRIMARY KEY (source_id, number)
);
CREATE INDEX git_previews_due ON git_previews (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX git_previews_application ON git_previews (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX git_previews_instance ON git_previews (instance_id) WHERE instance_id IS NOT NULL;

-- Events that were accepted, so that none counts twice.
CREATE TABLE git_events (
    source_id       text NOT NULL REFERENCES git_sources ON DELETE CASCADE,
    digest          bytea NOT NULL,
    received_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source_id, digest)
);
CREATE INDEX git_events_received ON git_events (received_at);
