-- Until when a person who was refused, because a triggered workflow ran, goes before the next one of the instance.
ALTER TABLE instances ADD COLUMN person_first_until timestamptz;
