-- When to ask whether a pull request is still open: the event that says so may have come while no server ran.

ALTER TABLE git_previews ADD COLUMN check_at timestamptz DEFAULT now();
CREATE INDEX git_previews_check ON git_previews (check_at) WHERE is_open AND due_at IS NULL;
