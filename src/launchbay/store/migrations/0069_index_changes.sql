-- Indexes of large tables are made and dropped by the new version, in this order and beside the work of everybody: a migration would hold
-- up all writers meanwhile. Null is an index to drop.
CREATE TABLE index_changes (
    number     integer PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    definition text
);

-- Words of instances by organization: the old index mixes those of all, so that a large organization slowed the searches of others. The
-- function names no other one, because PostgreSQL makes indexes without a search path.
CREATE FUNCTION launchbay_word_keys(organization_id text, search text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(DISTINCT organization_id || substr(search, place, 3)), '{}')
    FROM generate_series(1, length(search) - 2) AS place
$$;
INSERT INTO index_changes VALUES
    (1, 'instances_words', 'ON instances USING gin (launchbay_word_keys(organization_id, launchbay_search_text(name, labels)))'),
    (2, 'instances_search', NULL),
    (3, 'fleet_jobs_owner', 'ON fleet_jobs (owner_id, created_at, job_id)');

-- A new database has nothing to hold up.
DO $$
DECLARE
    change index_changes;
BEGIN
    IF NOT EXISTS (SELECT FROM instances) AND NOT EXISTS (SELECT FROM fleet_jobs) THEN
        FOR change IN SELECT * FROM index_changes ORDER BY number LOOP
            EXECUTE CASE WHEN change.definition IS NULL THEN format('DROP INDEX %I', change.name)
                         ELSE format('CREATE INDEX %I %s', change.name, change.definition) END;
        END LOOP;
        DELETE FROM index_changes;
    END IF;
END
$$;

-- By the index in any case: to compute the groups of all instances takes seconds.
CREATE OR REPLACE FUNCTION launchbay_search(of_organization text, word text, most integer) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF EXISTS (SELECT FROM index_changes WHERE name = 'instances_words') THEN
        RETURN QUERY
        SELECT found.id FROM (
            -- OFFSET keeps the other condition, and its index, out.
            SELECT id, organization_id FROM instances
            WHERE launchbay_trigrams(launchbay_search_text(name, labels)) @> launchbay_trigrams(word) OFFSET 0
        ) AS found WHERE found.organization_id = of_organization LIMIT most;
    ELSE
        RETURN QUERY
        SELECT id FROM instances
        WHERE launchbay_word_keys(organization_id, launchbay_search_text(name, labels)) @> launchbay_word_keys(of_organization, word)
        LIMIT most;
    END IF;
    RETURN QUERY
    SELECT instance_id FROM fleet
    WHERE organization_id = of_organization AND instance_id >= word AND instance_id < word || 'g' LIMIT most;
END
$$;
