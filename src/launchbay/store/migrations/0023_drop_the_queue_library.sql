-- What the queue library of schemas before 0022 left, which nothing uses any more.
DROP TABLE IF EXISTS
    procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs, procrastinate_workers, launchbay_queue_migrations
    CASCADE;
DO $$
DECLARE
    leftover text;
BEGIN
    FOREACH leftover IN ARRAY ARRAY(
        SELECT format('DROP FUNCTION IF EXISTS %s CASCADE', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND (
            proname LIKE 'procrastinate\_%' OR proname IN (
                'launchbay_defer', 'launchbay_interrupt', 'launchbay_announce', 'launchbay_finish', 'launchbay_beat',
                'launchbay_rescue', 'launchbay_queue_depth', 'launchbay_backlog'
            )
        )
        UNION ALL
        SELECT format('DROP TYPE IF EXISTS %s CASCADE', pg_type.oid::regtype)
        FROM pg_type LEFT JOIN pg_class ON pg_class.oid = typrelid
        WHERE typnamespace = current_schema()::regnamespace AND typname LIKE 'procrastinate\_%'
          AND (typtype = 'e' OR pg_class.relkind = 'c')
    ) LOOP
        EXECUTE leftover;
    END LOOP;
END
$$;
