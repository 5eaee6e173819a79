-- How many resources a state had when it was adopted. Null: a server of the version before wrote it, and `resources` has all or says so.
ALTER TABLE adoptions ADD COLUMN resource_count integer;
