-- Reads of secrets by the path of the secret, without its key: of a secret that is looked at again, and of one whose version has changed. The
-- time of a read isn't part of it, so that a step that reads again writes no entry.
INSERT INTO index_changes
SELECT coalesce(max(number), 0) + 1, 'secret_reads_path', 'ON secret_reads (service_id, split_part(secret, ''#'', 1))' FROM index_changes;

-- A new database has nothing to hold up.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM secret_reads) THEN
        CREATE INDEX secret_reads_path ON secret_reads (service_id, split_part(secret, '#', 1));
        DELETE FROM index_changes WHERE name = 'secret_reads_path';
    END IF;
END
$$;
