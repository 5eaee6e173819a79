-- The process ID of the PostgreSQL session that sends a worker's heartbeats. Null: not known.
ALTER TABLE workers ADD COLUMN session_pid integer;
