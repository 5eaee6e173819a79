-- A cancelled schedule of the manifest stays as a row, with a `due_at` that never comes: servers of the previous version leave it
-- alone, too. `was_due_at` is when it would have run.
ALTER TABLE schedules ADD COLUMN cancelled_at timestamptz, ADD COLUMN cancelled_by text, ADD COLUMN was_due_at timestamptz;
