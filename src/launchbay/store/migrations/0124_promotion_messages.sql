-- The version that a message of automatic promotion is about. Null: that isn't known, or there is no message.
ALTER TABLE promotion_attempts ADD COLUMN version integer;
