-- What a look at what runs was asked for, as a fingerprint: who asks the same again joins it. Servers of the version before leave both empty.
ALTER TABLE plans ADD COLUMN asked       text;
ALTER TABLE plans ADD COLUMN finished_at timestamptz;
CREATE INDEX plans_asked ON plans (asked) WHERE asked IS NOT NULL;
