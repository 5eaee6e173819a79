-- A step with an artifact has begun what was approved, and its attempt hasn't ended. A server of the version before doesn't note it.
ALTER TABLE plan_artifacts ADD COLUMN has_begun boolean NOT NULL DEFAULT false;
