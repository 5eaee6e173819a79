-- The headers of an answer under an Idempotency-Key, as a JSON list of pairs: a repeated request names its job too.
ALTER TABLE idempotency_keys ADD COLUMN headers text;
