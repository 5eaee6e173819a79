-- Wrong attempts to sign in, for all servers. Keys and passwords are keyed hashes: without the server's secret key, nobody
-- learns from them which accounts and passwords were tried.

-- A leaky bucket: `level` attempts at the time `at`, one less every `leak_s` seconds, never more than `capacity`.
CREATE TABLE wrong_sign_ins (
    key      text PRIMARY KEY,
    -- The account, for administrators. Not a foreign key: unknown accounts must take as long as known ones.
    user_id  text,
    level    double precision NOT NULL,
    at       timestamptz NOT NULL,
    capacity double precision NOT NULL,
    leak_s   double precision NOT NULL,
    -- When it was full and the audit log said so; under a lasting attack that's once an hour.
    full_at  timestamptz
);
CREATE INDEX wrong_sign_ins_user ON wrong_sign_ins (user_id) WHERE user_id IS NOT NULL;

-- What was wrong a short while ago counts only once.
CREATE TABLE wrong_passwords (
    hash text PRIMARY KEY,
    at   timestamptz NOT NULL
);
CREATE INDEX wrong_passwords_at ON wrong_passwords (at);
