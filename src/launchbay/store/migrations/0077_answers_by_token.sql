-- The access token with which somebody answered. Null: in person, or on a server of an older version.
ALTER TABLE approval_answers ADD COLUMN token_id text;
ALTER TABLE change_set_answers ADD COLUMN token_id text;
