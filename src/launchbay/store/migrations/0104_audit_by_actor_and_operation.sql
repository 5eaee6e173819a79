-- The audit log of an actor, by the address that all entries of an account have, and of an operation. A launch is what most entries are
-- about: its operation has no entry. Partitions to come have these indexes at once, and those that there are get theirs beside the work of
-- everybody.
CREATE INDEX audit_entries_address ON ONLY audit_entries (lower(actor_email COLLATE "C"), id);
CREATE INDEX audit_entries_operation ON ONLY audit_entries (organization_id, operation, id) WHERE operation <> 'launch_application';
INSERT INTO index_changes
SELECT (SELECT coalesce(max(number), 0) FROM index_changes) + row_number() OVER (ORDER BY part, made.name), format('%s_%s', part, made.name),
       format('ON %I %s', part, made.definition)
FROM (VALUES
    ('address', '(lower(actor_email COLLATE "C"), id)'),
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
