-- Each version of a manifest has a revision without a name: a launch that names no revision is of that one.
-- In steps: a column that begins with such a default would write the whole table anew.
ALTER TABLE manifests ADD COLUMN revision_id text;
ALTER TABLE manifests ALTER COLUMN revision_id SET DEFAULT launchbay_new_id();
UPDATE manifests SET revision_id = launchbay_new_id();
ALTER TABLE manifests ALTER COLUMN revision_id SET NOT NULL;
CREATE UNIQUE INDEX manifests_revision ON manifests (revision_id);

-- Named revisions, and those of the versions, whose name is empty.
CREATE VIEW all_revisions AS
SELECT id, application_id, name, version, parameters, environment_id, submodules, created_at FROM revisions
UNION ALL
SELECT revision_id, application_id, '', version, '{}', NULL, '{}', created_at FROM manifests;
