-- Whether a person has to confirm a change set for which no policy asks for approvals: its author too, but no access token.
ALTER TABLE change_sets ADD COLUMN confirm boolean NOT NULL DEFAULT false;
