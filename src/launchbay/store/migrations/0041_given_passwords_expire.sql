-- When a password that somebody else chose expires. Null: never.

ALTER TABLE users ADD COLUMN password_expires_at timestamptz;
UPDATE users SET password_expires_at = now() + interval '7 days' WHERE password_origin = 'given';
