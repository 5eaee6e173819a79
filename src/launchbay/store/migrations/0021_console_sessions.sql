-- Who is signed in to the console, in which browser. What the cookie holds is stored as a hash only.

CREATE TABLE console_sessions (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    token_hash bytea NOT NULL UNIQUE,
    address    text NOT NULL, -- from where it was opened
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_of_user ON console_sessions (user_id);
