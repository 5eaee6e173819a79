-- What a million ended jobs showed about throwing them away.

-- A job that goes takes its approvals with it. The index of pending ones does not serve that: each job read the whole table.
CREATE INDEX approvals_job ON approvals (job_id);

-- Old events are looked for every five minutes, and without an index that read all of the others.
CREATE INDEX instance_events_age ON instance_events (at);

-- As for the tables of 0012: thinned out at the old end all the time.
ALTER TABLE instance_events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
ALTER TABLE audit_entries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
