-- Lists of the jobs of an organization: a narrow row for each job, with an index for each filter, as `fleet` has for instances.

CREATE TABLE fleet_jobs (
    job_id          text PRIMARY KEY,
    organization_id text NOT NULL,
    instance_id     text NOT NULL,
    application_id  text NOT NULL,
    environment_id  text NOT NULL,
    owner_id        text NOT NULL,
    name            text NOT NULL,
    status          text NOT NULL,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX fleet_jobs_newest ON fleet_jobs (organization_id, created_at, job_id);
CREATE INDEX fleet_jobs_status ON fleet_jobs (organization_id, status, created_at, job_id);
CREATE INDEX fleet_jobs_workflow ON fleet_jobs (organization_id, name, created_at, job_id);
CREATE INDEX fleet_jobs_application ON fleet_jobs (application_id, created_at, job_id);
CREATE INDEX fleet_jobs_environment ON fleet_jobs (environment_id, created_at, job_id);

-- Triggers run at the end of the statement: the one that launches has written the instance by then.
CREATE FUNCTION launchbay_list_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fleet_jobs (job_id, organization_id, instance_id, application_id, environment_id, owner_id, name, status, created_at,
                            finished_at)
    SELECT NEW.id, organization_id, id, application_id, environment_id, NEW.owner_id, NEW.name, NEW.status, NEW.created_at,
           NEW.finished_at
    FROM instances WHERE id = NEW.instance_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_list_new AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION launchbay_list_job();

CREATE FUNCTION launchbay_list_ended_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fleet_jobs SET status = NEW.status, finished_at = NEW.finished_at WHERE job_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_list_ended AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION launchbay_list_ended_job();

CREATE FUNCTION launchbay_unlist_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fleet_jobs WHERE job_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_unlist AFTER DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION launchbay_unlist_job();

-- Jobs of before are listed bit by bit, the newest first: all at once would keep the jobs of running servers waiting.
CREATE TABLE fleet_jobs_unlisted (
    before_id text NOT NULL
);
INSERT INTO fleet_jobs_unlisted SELECT 'g' WHERE EXISTS (SELECT FROM jobs);

-- List so many of them. Returns how many, and 0 when all are listed or another process is at it.
CREATE FUNCTION launchbay_list_old_jobs(most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    mark text;
    ids text[];
BEGIN
    SELECT before_id INTO mark FROM fleet_jobs_unlisted FOR UPDATE SKIP LOCKED;
    IF mark IS NULL THEN
        RETURN 0;
    END IF;
    ids := ARRAY(SELECT id FROM jobs WHERE id < mark ORDER BY id DESC LIMIT most);
    IF cardinality(ids) = 0 THEN
        DELETE FROM fleet_jobs_unlisted;
        RETURN 0;
    END IF;
    -- Locked, so that none of them ends unnoticed.
    PERFORM FROM jobs WHERE id = ANY (ids) AND status = 'Executing' ORDER BY id FOR SHARE;
    INSERT INTO fleet_jobs (job_id, organization_id, instance_id, application_id, environment_id, owner_id, name, status, created_at,
                            finished_at)
    SELECT jobs.id, instances.organization_id, instances.id, instances.application_id, instances.environment_id, jobs.owner_id, jobs.name,
           jobs.status, jobs.created_at, jobs.finished_at
    FROM jobs JOIN instances ON instances.id = jobs.instance_id WHERE jobs.id = ANY (ids)
    ON CONFLICT DO NOTHING;
    UPDATE fleet_jobs_unlisted SET before_id = ids[cardinality(ids)];
    RETURN cardinality(ids);
END
$$;

-- For the summary, which reads this index alone. Filters by application use it too.
CREATE INDEX fleet_summary ON fleet (organization_id, application_id, environment_id, status, job_status);
DROP INDEX fleet_application;

-- Webhooks show the labels of the instance.
CREATE OR REPLACE FUNCTION launchbay_post(instance instances, kind text, detail json) RETURNS void LANGUAGE sql AS $$
    INSERT INTO webhook_deliveries (id, webhook_id, event, body)
    SELECT launchbay_new_id(), webhooks.id, kind, json_build_object(
        'event', kind,
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        'organization', instance.organization_id,
        'application', instance.application_id,
        'environment', instance.environment_id,
        'instance', instance.id,
        'instanceName', instance.name,
        'labels', instance.labels,
        kind, detail
    )::text
    FROM webhooks
    WHERE webhooks.organization_id = instance.organization_id AND webhooks.enabled AND kind = ANY (webhooks.events)
$$;
