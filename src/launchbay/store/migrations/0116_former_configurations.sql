-- What a reconfiguration that failed came from, for who resumes it. Null: an older server ended it, and resuming it finds no changes.
ALTER TABLE jobs ADD COLUMN former text;
