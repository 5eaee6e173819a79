-- The form of a webhook's requests: json, slack or teams.
ALTER TABLE webhooks ADD COLUMN format text NOT NULL DEFAULT 'json';
