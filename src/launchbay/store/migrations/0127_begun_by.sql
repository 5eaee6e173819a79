-- Which attempt has begun what was approved. A server of the version before only sets `has_begun`: it may leave another attempt here.
ALTER TABLE plan_artifacts ADD COLUMN begun_by text;
