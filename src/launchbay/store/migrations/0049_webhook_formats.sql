-- The form of a webhook's requests: ours, or the one of a chat program.
ALTER TABLE webhooks ADD COLUMN format text NOT NULL DEFAULT 'json' CHECK (format IN ('json', 'slack', 'teams'));
