-- When an instance became Destroyed, so that it can be thrown away some time after.

ALTER TABLE instances ADD COLUMN destroyed_at timestamptz;
UPDATE instances
SET destroyed_at = coalesce((SELECT max(finished_at) FROM jobs WHERE jobs.instance_id = instances.id), now())
WHERE status = 'Destroyed';
CREATE INDEX instances_destroyed ON instances (destroyed_at) WHERE destroyed_at IS NOT NULL;

-- Whatever statement ends an instance, this says when; an older server beside this one does not know the column.
CREATE FUNCTION launchbay_note_destruction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.destroyed_at := now();
    RETURN NEW;
END
$$;
CREATE TRIGGER instances_destroyed BEFORE UPDATE ON instances FOR EACH ROW
    WHEN (NEW.status = 'Destroyed' AND OLD.status IS DISTINCT FROM 'Destroyed')
    EXECUTE FUNCTION launchbay_note_destruction();

CREATE INDEX jobs_finished ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;

-- These grow and are thinned out at their old end all the time: by count, a large table would be vacuumed too seldom.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
ALTER TABLE steps SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
ALTER TABLE log_lines SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
ALTER TABLE instances SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
