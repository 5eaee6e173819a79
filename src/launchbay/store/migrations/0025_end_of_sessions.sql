-- Sessions of the console end when they are not used, and session tokens with the refresh token that they were made from.

ALTER TABLE console_sessions ADD COLUMN last_seen_at timestamptz NOT NULL DEFAULT now();

-- The stamp that credentials are compared with; none when they came through a refresh token that was revoked.
CREATE FUNCTION caller_stamp(stamp bigint, refresh_token_id text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN refresh_token_id IS NULL OR EXISTS (
        SELECT FROM refresh_tokens WHERE id = refresh_token_id AND revoked_at IS NULL
    ) THEN stamp END
$$;
