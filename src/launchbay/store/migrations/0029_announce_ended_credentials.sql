-- Open event streams of a person end when what they are signed in with ends: their server hears of it at once.

CREATE FUNCTION announce_ended_credentials() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    person text := CASE TG_TABLE_NAME WHEN 'users' THEN to_jsonb(OLD) ->> 'id' ELSE to_jsonb(OLD) ->> 'user_id' END;
BEGIN
    PERFORM pg_notify('launchbay_events', person) WHERE EXISTS (SELECT FROM event_watches);
    RETURN NULL;
END $$;
CREATE TRIGGER users_announce_changed AFTER UPDATE OF access_stamp, enabled ON users
    FOR EACH ROW WHEN (OLD.access_stamp <> NEW.access_stamp OR OLD.enabled <> NEW.enabled)
    EXECUTE FUNCTION announce_ended_credentials();
CREATE TRIGGER users_announce_deleted AFTER DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION announce_ended_credentials();
CREATE TRIGGER console_sessions_announce_ended AFTER DELETE ON console_sessions
    FOR EACH ROW EXECUTE FUNCTION announce_ended_credentials();
CREATE TRIGGER refresh_tokens_announce_revoked AFTER UPDATE OF revoked_at ON refresh_tokens
    FOR EACH ROW WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL)
    EXECUTE FUNCTION announce_ended_credentials();
