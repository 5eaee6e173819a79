-- Words of instances by organization, in half the bytes. The last four characters of the organization's ID tell it apart from most others:
-- they are random. Whoever shares them is left out by its ID.
CREATE FUNCTION launchbay_word_groups(organization_id text, search text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(right(organization_id, 4) || substr(search, place, 3)), '{}')
    FROM generate_series(1, length(search) - 2) AS place
$$;

-- A database from before 0069 goes on with its first index until it has this one.
DO $$
DECLARE
    before integer := (SELECT coalesce(max(number), 0) FROM index_changes);
BEGIN
    UPDATE index_changes SET number = before + 3 WHERE name = 'instances_search';
    INSERT INTO index_changes VALUES
        (before + 1, 'instances_word_groups',
         'ON instances USING gin (launchbay_word_groups(organization_id, launchbay_search_text(name, labels)))'),
        (before + 2, 'instances_words', NULL)
    ON CONFLICT (name) DO UPDATE SET number = excluded.number, definition = NULL;
    -- A new database has nothing to hold up.
    IF NOT EXISTS (SELECT FROM instances) THEN
        EXECUTE (SELECT format('CREATE INDEX %I %s', name, definition) FROM index_changes WHERE name = 'instances_word_groups');
        ALTER INDEX instances_word_groups ALTER COLUMN 1 SET STATISTICS 0;
        DROP INDEX instances_words;
        DELETE FROM index_changes WHERE name IN ('instances_word_groups', 'instances_words');
    END IF;
END
$$;

-- By the index in any case: to compute the groups of all instances takes seconds. OFFSET keeps the other condition, and its index, out.
CREATE OR REPLACE FUNCTION launchbay_search(of_organization text, word text, most integer) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM index_changes WHERE name = 'instances_word_groups') THEN
        RETURN QUERY
        SELECT found.id FROM (
            SELECT id, organization_id FROM instances
            WHERE launchbay_word_groups(organization_id, launchbay_search_text(name, labels)) @> launchbay_word_groups(of_organization, word)
            OFFSET 0
        ) AS found WHERE found.organization_id = of_organization LIMIT most;
    ELSIF EXISTS (SELECT FROM index_changes WHERE name = 'instances_search') THEN
        RETURN QUERY
        SELECT found.id FROM (
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
