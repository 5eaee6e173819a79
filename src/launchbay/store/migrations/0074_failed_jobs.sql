-- Failures of the last day, for the summary: without it, those of all time are read. Only failures are in it.
INSERT INTO index_changes
SELECT coalesce(max(number), 0) + 1, 'fleet_jobs_failures', 'ON fleet_jobs (organization_id, finished_at) WHERE status = ''Failed'''
FROM index_changes;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM fleet_jobs) AND NOT EXISTS (SELECT FROM instances) THEN
        EXECUTE (SELECT format('CREATE INDEX %I %s', name, definition) FROM index_changes WHERE name = 'fleet_jobs_failures');
        DELETE FROM index_changes WHERE name = 'fleet_jobs_failures';
    END IF;
END
$$;
