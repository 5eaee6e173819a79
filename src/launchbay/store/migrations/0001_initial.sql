-- The first schema. Ids are 24 hex digits (text), times are timestamptz, JSON documents whose key order matters are text.

CREATE TABLE organizations (
    id             text PRIMARY KEY,
    name           text NOT NULL,
    -- Raised by every change of a role, a membership or an assignment: a process keeps parsed grants only while the stamp is the same.
    access_stamp   bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
    id             text PRIMARY KEY,
    email          text NOT NULL,
    name           text NOT NULL,
    password_hash  text,
    enabled        boolean NOT NULL DEFAULT true,
    -- Raised by a new password and by disabling: verified credentials are kept only while the stamp is the same.
    access_stamp   bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE memberships (
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    user_id         text NOT NULL REFERENCES users ON DELETE CASCADE,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);

CREATE TABLE roles (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    permissions     text NOT NULL,
    -- 'administrator' and 'guest' come with the organization; 'custom' is everybody's own.
    kind            text NOT NULL CHECK (kind IN ('administrator', 'guest', 'custom')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, name)
);

CREATE TABLE role_assignments (
    role_id text NOT NULL REFERENCES roles ON DELETE CASCADE,
    user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
    PRIMARY KEY (role_id, user_id)
);
CREATE INDEX role_assignments_user ON role_assignments (user_id);

CREATE TABLE applications (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    latest_version  integer NOT NULL,
    -- Where the manifest is loaded from; null when it is uploaded.
    source_url      text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, name)
);

CREATE TABLE manifests (
    application_id text NOT NULL REFERENCES applications ON DELETE CASCADE,
    version        integer NOT NULL,
    content        text NOT NULL,
    author_id      text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application_id, version)
);

CREATE TABLE environments (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    is_default      boolean NOT NULL DEFAULT false,
    policies        text NOT NULL DEFAULT '{}',
    markers         text NOT NULL DEFAULT '[]',
    properties      text NOT NULL DEFAULT '[]',
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, name)
);
CREATE UNIQUE INDEX environments_one_default ON environments (organization_id) WHERE is_default;

CREATE TABLE services (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    zone_id         text NOT NULL,
    name            text NOT NULL,
    type_id         text NOT NULL,
    parameters      text NOT NULL DEFAULT '{}',
    status          text NOT NULL DEFAULT 'Ready',
    status_pending  boolean NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX services_organization ON services (organization_id);

CREATE TABLE environment_services (
    environment_id text NOT NULL REFERENCES environments ON DELETE CASCADE,
    service_id     text NOT NULL REFERENCES services ON DELETE CASCADE,
    PRIMARY KEY (environment_id, service_id)
);

CREATE TABLE revisions (
    id             text PRIMARY KEY,
    application_id text NOT NULL REFERENCES applications ON DELETE CASCADE,
    name           text NOT NULL,
    version        integer NOT NULL,
    parameters     text NOT NULL DEFAULT '{}',
    environment_id text REFERENCES environments ON DELETE SET NULL,
    submodules     text NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (application_id, name)
);

CREATE TABLE instances (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    application_id  text NOT NULL REFERENCES applications,
    environment_id  text NOT NULL REFERENCES environments,
    revision_id     text,
    version         integer NOT NULL,
    name            text NOT NULL,
    owner_id        text NOT NULL,
    status          text NOT NULL
                    CHECK (status IN ('Requested', 'Executing', 'Running', 'Failed', 'Destroying', 'Destroyed')),
    -- The one job under way; set by the conditional UPDATE that accepts a job, cleared by the job's last transaction.
    job_id          text,
    -- Given parameters (not defaults), return values and components as the API shows them.
    parameters      text NOT NULL DEFAULT '{}',
    return_values   text NOT NULL DEFAULT '{}',
    components      text NOT NULL DEFAULT '[]',
    user_data       text NOT NULL DEFAULT '{}',
    -- What the environment offered at launch or last reconfiguration: policies, markers, properties.
    environment_view text NOT NULL DEFAULT '{}',
    -- Per component: published signals and returned variables. Written by the running job only.
    state           text NOT NULL DEFAULT '{}',
    error_message   text,
    destroy_at      timestamptz,
    -- Something fell due while a job ran (see schedules.blocked).
    work_waiting    boolean NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (application_id, version) REFERENCES manifests (application_id, version)
);
CREATE INDEX instances_application ON instances (application_id, id);
CREATE INDEX instances_environment ON instances (environment_id, id);
CREATE INDEX instances_revision ON instances (revision_id, id) WHERE revision_id IS NOT NULL;
CREATE INDEX instances_work_waiting ON instances (id) WHERE work_waiting;
CREATE INDEX instances_organization ON instances (organization_id, id);

CREATE TABLE jobs (
    id              text PRIMARY KEY,
    instance_id     text NOT NULL REFERENCES instances ON DELETE CASCADE,
    -- The workflow's name, as shown in workflowHistory.
    name            text NOT NULL,
    owner_id        text NOT NULL,
    status          text NOT NULL CHECK (status IN ('Executing', 'Succeeded', 'Failed')),
    -- The frozen plan: kind, arguments and every choice made at accept. Its first field is the plan's format version.
    plan            text NOT NULL,
    -- The steps in brief, [[path, name, status, percent], …]: all Requested at the first claim, final at the end.
    -- While the job runs, the rows of `steps` are newer.
    steps           text NOT NULL DEFAULT '[]',
    -- Raised by every claim; a worker writes only while it holds the newest number.
    fence           integer NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    error_message   text,
    -- The time of acceptance, when the instance is locked: it orders the jobs of an instance, which now(), the begin of
    -- the transaction, and the ids, whose time has whole seconds, do not.
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at      timestamptz,
    finished_at     timestamptz
);
CREATE INDEX jobs_instance ON jobs (instance_id, created_at);
CREATE UNIQUE INDEX jobs_one_under_way ON jobs (instance_id) WHERE status = 'Executing';

-- The journal: what is done stays done.
CREATE TABLE steps (
    job_id      text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    -- The step's place in the plan, never its order: component, workflow, step, and so on inwards.
    path        text NOT NULL,
    name        text NOT NULL,
    status      text NOT NULL CHECK (status IN ('Requested', 'Executing', 'Succeeded', 'Failed')),
    percent     smallint NOT NULL DEFAULT 0 CHECK (percent BETWEEN 0 AND 100),
    -- A record of an effect, which counts on recovery; the others only show what is going on and are computed again.
    is_record   boolean NOT NULL,
    attempt     integer NOT NULL DEFAULT 1,
    outputs     text,
    error_message text,
    started_at  timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (job_id, path)
);

CREATE TABLE log_lines (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    job_id      text NOT NULL,
    step        text,
    level       text NOT NULL,
    text        text NOT NULL,
    at          timestamptz NOT NULL
);
CREATE INDEX log_lines_instance ON log_lines (instance_id, id);

-- One flush of a job's journal. The caller holds the job's row, so that no other worker writes at the same time.
-- In PL/pgSQL, because that keeps the plans of its statements from call to call.
CREATE FUNCTION launchbay_write_journal(
    of_job text, of_instance text,
    paths text[], names text[], statuses text[], percents smallint[], are_records boolean[], attempts integer[],
    outputs text[], errors text[], started timestamptz[], finished timestamptz[],
    log_steps text[], log_levels text[], log_texts text[], log_times timestamptz[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs, error_message, started_at,
                       finished_at)
    SELECT of_job, step.*
    FROM unnest(paths, names, statuses, percents, are_records, attempts, outputs, errors, started, finished) AS step
    ON CONFLICT (job_id, path) DO UPDATE SET
        status = excluded.status, percent = greatest(steps.percent, excluded.percent), attempt = excluded.attempt,
        outputs = excluded.outputs, error_message = excluded.error_message,
        started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at;
    INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
    SELECT of_instance, of_job, line.*
    FROM unnest(log_steps, log_levels, log_texts, log_times) AS line;
END
$$;

-- Everything that falls due: scheduled workflows, and the expiry of instances.
CREATE TABLE schedules (
    id          text PRIMARY KEY,
    instance_id text NOT NULL REFERENCES instances ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind IN ('workflow', 'expiry')),
    workflow    text NOT NULL,
    parameters  text NOT NULL DEFAULT '{}',
    owner_id    text NOT NULL,
    due_at      timestamptz NOT NULL,
    -- Fell due while a job ran; that job's last transaction clears the mark.
    blocked     boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX schedules_due ON schedules (due_at) WHERE NOT blocked;
CREATE INDEX schedules_instance ON schedules (instance_id, due_at);
CREATE UNIQUE INDEX schedules_one_expiry ON schedules (instance_id) WHERE kind = 'expiry';

CREATE TABLE server_keys (
    name       text PRIMARY KEY,
    value      bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
