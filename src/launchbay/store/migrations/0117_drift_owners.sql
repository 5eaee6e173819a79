-- On whose behalf a schedule checks, and why it stopped or left instances out. A server of the version before sets schedules without.
ALTER TABLE drift_schedules ADD COLUMN owner_id text;
ALTER TABLE drift_schedules ADD COLUMN method   text NOT NULL DEFAULT 'engine';
ALTER TABLE drift_schedules ADD COLUMN token_id text;
ALTER TABLE drift_schedules ADD COLUMN problem  text;

-- Take overs that wait for the next check, as a JSON list. A server of the version before knows one, in `take_over`.
ALTER TABLE drift_reports ADD COLUMN take_overs text NOT NULL DEFAULT '[]';
