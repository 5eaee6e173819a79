-- In which version what a program stores for a later one is written, so that an older program leaves alone what it cannot read.

-- Programs that do not know the column write version 1 and read it (decision 0086).
ALTER TABLE instances ADD COLUMN state_version smallint NOT NULL DEFAULT 1;

-- A plan's version is the last thing in its text. Whatever else is in it, PostgreSQL may be unable to read.
CREATE FUNCTION launchbay_plan_version(plan text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(substring(right(plan, 24) FROM '"version":([0-9]{1,9})}$')::integer, 1)
$$;
