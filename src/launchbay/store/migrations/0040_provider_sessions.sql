-- Sessions that were opened through the identity provider, so that its logouts end them.

-- Null for sessions that were opened otherwise.
ALTER TABLE console_sessions ADD COLUMN issuer text;
-- The session at the provider (`sid`), empty if the provider named none.
ALTER TABLE console_sessions ADD COLUMN provider_session text;
