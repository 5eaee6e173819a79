-- Jobs that took long. Those that haven't ended are at the end of the index.
INSERT INTO index_changes
SELECT coalesce(max(number), 0) + 1, 'fleet_jobs_duration',
       'ON fleet_jobs (organization_id, coalesce(finished_at - created_at, ''100 years''::interval))'
FROM index_changes;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM fleet_jobs) AND NOT EXISTS (SELECT FROM instances) THEN
        EXECUTE (SELECT format('CREATE INDEX %I %s', name, definition) FROM index_changes WHERE name = 'fleet_jobs_duration');
        DELETE FROM index_changes WHERE name = 'fleet_jobs_duration';
    END IF;
END
$$;
