-- Each version of a manifest has a revision without a name: a launch that names no revision is of that one.
ALTER TABLE manifests ADD COLUMN revision_id text NOT NULL DEFAULT launchbay_new_id();
CREATE UNIQUE INDEX manifests_revision ON manifests (revision_id);

-- Named revisions, and those of the versions, whose name is empty.
CREATE VIEW all_revisions AS
SELECT id, application_id, name, version, parameters, environment_id, submodules, created_at FROM revisions
UNION ALL
SELECT revision_id, application_id, '', version, '{}', NULL, '{}', created_at FROM manifests;
