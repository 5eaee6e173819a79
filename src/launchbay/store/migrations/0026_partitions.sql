-- Log lines, events and audit entries lie in partitions by time: retention drops a partition instead of deleting rows.

-- Their numbers tell the time. A sequence counts within a block of 2^36 numbers; after some hours or days, a server moves it to
-- the next block, with `launchbay_begin_block`. A partition is a range of whole blocks, so conditions on numbers choose partitions.
-- There is always a partition for the next block: an insert can't fail for the lack of one, also if no server moves the sequence
-- or a block is used up.
CREATE TABLE number_blocks (
    sequence text NOT NULL,
    block    integer NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (sequence, block)
);

CREATE TABLE partitions (
    parent      text NOT NULL,
    number      integer NOT NULL,
    sequence    text NOT NULL,
    -- The table `parent_number` has the rows of these blocks.
    first_block integer NOT NULL,
    end_block   integer NOT NULL, -- not included
    PRIMARY KEY (parent, number)
);

-- Let the newest block of a sequence have partitions, and the block after it.
CREATE FUNCTION launchbay_add_partitions(of_sequence text, of_parent text, blocks integer, newest integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last partitions;
BEGIN
    LOOP
        SELECT * INTO last FROM partitions WHERE parent = of_parent ORDER BY number DESC LIMIT 1;
        EXIT WHEN last.end_block > newest + 1;
        -- Attaching locks no reader or writer of the parent out; CREATE TABLE … PARTITION OF would.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', of_parent || '_' || last.number + 1, of_parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', of_parent, of_parent || '_' || last.number + 1,
                       last.end_block::bigint << 36, (last.end_block + blocks)::bigint << 36);
        INSERT INTO partitions VALUES (of_parent, last.number + 1, of_sequence, last.end_block, last.end_block + blocks);
    END LOOP;
END
$$;

-- Begin the next block of a sequence if the newest is that old, and make partitions ahead, each of so many blocks.
-- One session at a time: the callers hold a lock.
CREATE FUNCTION launchbay_begin_block(of_sequence text, block_s float8, parents text[], spans integer[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    newest number_blocks;
    reached integer;
    is_over boolean;
BEGIN
    -- A clock that was ahead for a while would keep the sequence in its block until that time comes.
    UPDATE number_blocks SET began_at = clock_timestamp() WHERE sequence = of_sequence AND began_at > clock_timestamp() + interval '1 minute';
    SELECT * INTO newest FROM number_blocks WHERE sequence = of_sequence ORDER BY block DESC LIMIT 1;
    EXECUTE format('SELECT (last_value >> 36)::integer FROM %I', of_sequence) INTO reached;
    is_over := newest.began_at <= clock_timestamp() - block_s * interval '1 second';
    reached := greatest(reached, newest.block) + is_over::integer;
    FOR place IN 1 .. cardinality(parents) LOOP
        PERFORM launchbay_add_partitions(of_sequence, parents[place], spans[place], reached);
    END LOOP;
    IF reached > newest.block THEN
        INSERT INTO number_blocks (sequence, block) VALUES (of_sequence, reached);
        PERFORM setval(of_sequence, reached::bigint << 36) WHERE is_over;
    END IF;
    RETURN is_over;
END
$$;

-- Drop the partitions whose youngest row is older than that: the block after them began before. Returns how many, or null if
-- others use the table for long, such as a backup: whoever came later would wait behind the drop.
-- It locks the parent for as long as PostgreSQL takes to forget a table; the files are removed after the commit.
CREATE FUNCTION launchbay_drop_partitions(of_parent text, days float8) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    old partitions;
    dropped integer := 0;
BEGIN
    FOR old IN
        SELECT * FROM partitions
        WHERE parent = of_parent AND EXISTS (
            SELECT FROM number_blocks
            WHERE number_blocks.sequence = partitions.sequence AND block >= end_block
              AND began_at < clock_timestamp() - days * interval '1 day'
        )
        ORDER BY number
    LOOP
        EXECUTE format('DROP TABLE %I', old.parent || '_' || old.number);
        DELETE FROM partitions WHERE parent = old.parent AND number = old.number;
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM number_blocks WHERE block < (
        SELECT min(first_block) FROM partitions WHERE partitions.sequence = number_blocks.sequence
    );
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;

-- What was written until now is the first partition of each table, in its own files.

-- Lines go with their partition, also those of deleted instances. A reference would look at the instance for every line.
ALTER TABLE log_lines DROP CONSTRAINT log_lines_instance_id_fkey;
DROP INDEX instance_events_age;
ALTER TABLE audit_entries ALTER COLUMN id DROP IDENTITY;
CREATE SEQUENCE audit_numbers AS bigint;
SELECT setval('audit_numbers', coalesce(max(id), 0) + 1, false) FROM audit_entries;
ALTER TABLE audit_entries ALTER COLUMN id SET DEFAULT nextval('audit_numbers');

DO $$
DECLARE
    of_table text;
    of_sequence text;
    first_index record;
    definitions text[];
    definition text;
    reached integer;
BEGIN
    FOR of_sequence IN VALUES ('instance_changes'), ('audit_numbers') LOOP
        EXECUTE format('INSERT INTO number_blocks SELECT %L, (last_value >> 36)::integer, clock_timestamp() FROM %I', of_sequence, of_sequence);
    END LOOP;
    FOR of_table, of_sequence IN VALUES
        ('log_lines', 'instance_changes'), ('instance_events', 'instance_changes'), ('audit_entries', 'audit_numbers')
    LOOP
        SELECT block INTO reached FROM number_blocks WHERE sequence = of_sequence;
        definitions := ARRAY(
            SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = of_table AND indexname <> of_table || '_pkey'
            ORDER BY indexname
        ) || (SELECT format('ALTER TABLE %I ADD CONSTRAINT %I %s', of_table, conname, pg_get_constraintdef(oid))
              FROM pg_constraint WHERE conrelid = of_table::regclass AND contype = 'p');
        EXECUTE format('ALTER TABLE %I RENAME TO %I', of_table, of_table || '_0');
        FOR first_index IN SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = of_table || '_0' LOOP
            EXECUTE format('ALTER INDEX %I RENAME TO %I', first_index.indexname,
                           of_table || '_0' || substr(first_index.indexname, length(of_table) + 1));
        END LOOP;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (id)', of_table, of_table || '_0');
        FOREACH definition IN ARRAY definitions LOOP
            EXECUTE definition;
        END LOOP;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', of_table, of_table || '_0', (reached + 1)::bigint << 36);
        INSERT INTO partitions VALUES (of_table, 0, of_sequence, 0, reached + 1);
        PERFORM launchbay_add_partitions(of_sequence, of_table, 1, reached);
    END LOOP;
END
$$;

-- An instance that somebody deletes goes with all rows. Retention leaves lines and events to their partitions.
CREATE OR REPLACE FUNCTION launchbay_forget_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('launchbay.leaves_history', true) IS DISTINCT FROM 'on' THEN
        -- Its jobs are gone by now, and with them whoever might write.
        DELETE FROM log_lines WHERE instance_id = OLD.id;
        DELETE FROM instance_events WHERE instance_id = OLD.id;
    END IF;
    PERFORM pg_notify('launchbay_events', OLD.id) FROM event_watches WHERE instance_id = OLD.id LIMIT 1;
    RETURN NULL;
END
$$;
