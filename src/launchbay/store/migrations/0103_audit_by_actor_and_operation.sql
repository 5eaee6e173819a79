-- The audit log of an actor, by the address that entries of an account have, or else by the ID: what a server does for somebody has its own
-- name instead. And the log of an operation: a launch, which most entries are about, has no entry there. Partitions to come have these
-- indexes at once, and those that there are get theirs beside the work of everybody.
CREATE INDEX audit_entries_actor ON ONLY audit_entries
    ((CASE WHEN strpos(actor_email, '@') > 0 THEN lower(actor_email COLLATE "C") ELSE actor_id END), id);
CREATE INDEX audit_entries_operation ON ONLY audit_entries (organization_id, operation, id) WHERE operation <> 'launch_application';
INSERT INTO index_changes
SELECT (SELECT coalesce(max(number), 0) FROM index_changes) + row_number() OVER (ORDER BY part, made.name), format('%s_%s', part, made.name),
       format('ON %I %s', part, made.definition)
FROM (VALUES
    ('actor', '((CASE WHEN strpos(actor_email, ''@'') > 0 THEN lower(actor_email COLLATE "C") ELSE actor_id END), id)'),
    ('operation', '(organization_id, operation, id) WHERE operation <> ''launch_application''')
) AS made (name, definition), (
    SELECT inhrelid::regclass::text AS part FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass
) AS parts;

-- A new database has nothing to hold up.
DO $$
DECLARE
    change index_changes;
BEGIN
    IF NOT EXISTS (SELECT FROM audit_entries) THEN
        FOR change IN SELECT * FROM index_changes WHERE definition LIKE 'ON audit_entries_%' ORDER BY number LOOP
            EXECUTE format('CREATE INDEX %I %s', change.name, change.definition);
            EXECUTE format('ALTER INDEX %I ATTACH PARTITION %I', 'audit_entries_' || substring(change.name FROM '[a-z]+$'), change.name);
        END LOOP;
        DELETE FROM index_changes WHERE definition LIKE 'ON audit_entries_%';
    END IF;
END
$$;
