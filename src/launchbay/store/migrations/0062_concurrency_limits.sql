-- Limits of how many jobs run at a time. A limited job has a place in each of its groups, or waits until it gets them all.

-- Limits that people set for an application or environment, as a JSON list. Manifests have their own.
CREATE TABLE concurrency_limits (
    application_id  text UNIQUE REFERENCES applications ON DELETE CASCADE,
    environment_id  text UNIQUE REFERENCES environments ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    limits          text NOT NULL,
    CHECK (num_nonnulls(application_id, environment_id) = 1)
);
CREATE INDEX concurrency_limits_organization ON concurrency_limits (organization_id);

-- Only the jobs with this mark have places: the others' ends don't look for any.
ALTER TABLE jobs ADD COLUMN is_limited boolean NOT NULL DEFAULT false;

-- A job's place in one group: held, or waited for. A job waits for all of its places or for none.
CREATE TABLE concurrency_places (
    job_id          text NOT NULL REFERENCES jobs ON DELETE CASCADE,
    organization_id text NOT NULL,
    bucket          text NOT NULL,
    -- What the group is called, and at most how many jobs it may have when this one starts.
    title           text NOT NULL,
    most            integer NOT NULL,
    -- The application or environment whose settings say so, and the key there; null for a manifest.
    setting_of      text,
    key             text NOT NULL,
    -- The order in which jobs wait. Jobs with the same limits have the same text in `alike`: only the first of them may be next.
    number          bigint NOT NULL,
    alike           text NOT NULL,
    is_held         boolean NOT NULL,
    -- A destruction is never cancelled for a newer job.
    is_destroy      boolean NOT NULL,
    is_outrun       boolean NOT NULL DEFAULT false, -- a newer job has asked for its cancellation
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, bucket)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX concurrency_places_bucket ON concurrency_places (organization_id, bucket, is_held, alike, number);
CREATE INDEX concurrency_places_outrun ON concurrency_places (job_id) WHERE is_outrun;
CREATE INDEX concurrency_places_setting ON concurrency_places (setting_of) WHERE setting_of IS NOT NULL;
CREATE SEQUENCE concurrency_numbers;

-- One transaction at a time gives and frees places of an organization: so no two see the same place free, and none misses that
-- one has become free. Who asks for this lock holds the locks of its instance and job already; who has it waits for no others.
CREATE FUNCTION launchbay_lock_places(of_organization text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('launchbay concurrency ' || of_organization, 0))
$$;

-- Whether a job may have a place in a group: it has one left, and no earlier job waits for just that one.
CREATE FUNCTION launchbay_has_place(of_organization text, of_bucket text, at_most integer, my_number bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held integer;
BEGIN
    SELECT count(*) INTO held FROM (
        SELECT FROM concurrency_places WHERE organization_id = of_organization AND bucket = of_bucket AND is_held LIMIT at_most
    ) AS taken;
    RETURN held < at_most AND NOT EXISTS (
        SELECT FROM concurrency_places
        WHERE organization_id = of_organization AND bucket = of_bucket AND NOT is_held AND number < my_number AND most <= held
    );
END
$$;

-- The title of the first group that refuses a job, or null. Its end is that of the transaction: until then no place comes or goes.
CREATE FUNCTION launchbay_refuse_place(of_organization text, buckets text[], titles text[], mosts integer[], whens text[])
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    refusing text;
BEGIN
    PERFORM launchbay_lock_places(of_organization);
    SELECT title INTO refusing FROM unnest(buckets, titles, mosts, whens) AS wanted (bucket, title, most, at_once)
    WHERE at_once = 'refuse' AND NOT launchbay_has_place(of_organization, bucket, most, 9223372036854775807) LIMIT 1;
    RETURN refusing;
END
$$;

-- Give an accepted job its places, and make it ready; or let it wait for them, parked until it is woken. Returns whether it waits.
CREATE FUNCTION launchbay_take_places(
    of_job text, of_organization text, buckets text[], titles text[], mosts integer[], whens text[], settings_of text[], keys text[],
    destroys boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    my_number bigint;
    is_first boolean;
BEGIN
    PERFORM launchbay_lock_places(of_organization);
    my_number := nextval('concurrency_numbers');
    SELECT bool_and(launchbay_has_place(of_organization, bucket, most, my_number)) INTO is_first
    FROM unnest(buckets, mosts) AS wanted (bucket, most);
    -- So many of the oldest are outrun that the others leave a place.
    UPDATE concurrency_places AS older SET is_outrun = true
    FROM (
        SELECT job_id, wanted.bucket, row_number() OVER (PARTITION BY wanted.bucket ORDER BY number DESC) AS newer, wanted.most
        FROM unnest(buckets, mosts, whens) AS wanted (bucket, most, at_once)
        JOIN concurrency_places AS each ON each.organization_id = of_organization AND each.bucket = wanted.bucket
        WHERE wanted.at_once = 'cancel-older' AND NOT each.is_outrun
    ) AS ranked
    WHERE older.job_id = ranked.job_id AND older.bucket = ranked.bucket AND newer >= ranked.most AND NOT older.is_destroy;
    INSERT INTO concurrency_places (job_id, organization_id, bucket, title, most, setting_of, key, number, alike, is_held, is_destroy)
    SELECT of_job, of_organization, wanted.bucket, title, most, setting_of, key, my_number, buckets::text || mosts::text, is_first, destroys
    FROM unnest(buckets, titles, mosts, settings_of, keys) AS wanted (bucket, title, most, setting_of, key);
    IF is_first THEN
        INSERT INTO ready (organization_id, job_id) VALUES (of_organization, of_job);
    ELSE
        INSERT INTO parked (job_id, organization_id, due_at) VALUES (of_job, of_organization, '9999-12-31T00:00:00Z');
    END IF;
    RETURN NOT is_first;
END
$$;

-- Give free places to those who wait for them, in their order. Of jobs with the same limits only the first can be next, so a look
-- costs little however many wait. Without buckets, all groups of the organization. The caller has the lock.
CREATE FUNCTION launchbay_give_places(of_organization text, of_buckets text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    candidate record;
    has_given boolean := true;
BEGIN
    WHILE has_given LOOP
        has_given := false;
        FOR candidate IN
            SELECT job_id FROM (
                SELECT DISTINCT ON (alike) job_id, number FROM concurrency_places
                WHERE organization_id = of_organization AND (of_buckets IS NULL OR bucket = ANY (of_buckets)) AND NOT is_held
                ORDER BY alike, number
            ) AS firsts ORDER BY number
        LOOP
            IF NOT EXISTS (
                SELECT FROM concurrency_places
                WHERE job_id = candidate.job_id AND NOT launchbay_has_place(of_organization, bucket, most, number)
            ) THEN
                UPDATE concurrency_places SET is_held = true WHERE job_id = candidate.job_id;
                PERFORM launchbay_wake(ARRAY[candidate.job_id]);
                has_given := true;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- The end of a limited job, whoever writes it, frees its places in the same transaction.
CREATE FUNCTION launchbay_free_places() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its_organization text;
    freed text[];
BEGIN
    SELECT organization_id INTO its_organization FROM concurrency_places WHERE job_id = OLD.id LIMIT 1;
    IF its_organization IS NOT NULL THEN
        PERFORM launchbay_lock_places(its_organization);
        WITH gone AS (DELETE FROM concurrency_places WHERE job_id = OLD.id RETURNING bucket)
        SELECT array_agg(bucket) INTO freed FROM gone;
        PERFORM launchbay_give_places(its_organization, freed);
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD END;
END
$$;
CREATE TRIGGER jobs_free_places AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.is_limited AND OLD.status = 'Executing' AND NEW.status <> 'Executing') EXECUTE FUNCTION launchbay_free_places();
CREATE TRIGGER jobs_free_places_of_deleted BEFORE DELETE ON jobs FOR EACH ROW
    WHEN (OLD.is_limited AND OLD.status = 'Executing') EXECUTE FUNCTION launchbay_free_places();

-- Changed settings count for the jobs that wait already: with another number they wait for it, without their limit no more.
CREATE FUNCTION launchbay_limits_changed(of_organization text, whose text, keys text[], mosts integer[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    unlimited text[];
BEGIN
    PERFORM launchbay_lock_places(of_organization);
    UPDATE concurrency_places SET most = wanted.most, alike = concurrency_places.alike || ' ' || wanted.most
    FROM unnest(keys, mosts) AS wanted (key, most)
    WHERE setting_of = whose AND concurrency_places.key = wanted.key AND concurrency_places.most <> wanted.most;
    WITH gone AS (
        DELETE FROM concurrency_places WHERE setting_of = whose AND NOT key = ANY (keys) RETURNING job_id, is_held
    )
    SELECT array_agg(job_id) INTO unlimited FROM gone
    WHERE NOT is_held AND NOT EXISTS (
        SELECT FROM concurrency_places AS other
        WHERE other.job_id = gone.job_id AND NOT (other.setting_of IS NOT DISTINCT FROM whose AND NOT other.key = ANY (keys))
    );
    PERFORM launchbay_wake(coalesce(unlimited, '{}'));
    PERFORM launchbay_give_places(of_organization, NULL);
END
$$;
