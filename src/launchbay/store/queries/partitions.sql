-- name: begin_block
-- Lets a sequence begin its next block if the newest is that old, and makes partitions ahead. Says whether a block began.
SELECT launchbay_begin_block(%(sequence)s, %(block_s)s::float8, %(parents)s::text[], %(spans)s::integer[]);

-- name: drop_old
-- Drops the partitions of a table that only have rows older than that; returns how many, or null if the table is in use for long.
SELECT launchbay_drop_partitions(%(parent)s, %(days)s::float8);
