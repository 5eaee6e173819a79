-- Since when an instance of a bulk run was put off because it was busy: it is given up after a time.
ALTER TABLE bulk_instances ADD COLUMN put_off_at timestamptz;
