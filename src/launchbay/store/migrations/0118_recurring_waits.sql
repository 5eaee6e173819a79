-- Why a recurring schedule that is due was put off, such as a freeze. An older server leaves it as it is.
ALTER TABLE recurring_schedules ADD COLUMN waits_for text;
