-- Change sets that apply a directory. What they show is in the sealed act; their instances aren't in change_set_instances.

-- What they touch, for who approves them and who may see them.
ALTER TABLE change_sets ADD COLUMN environment_ids text[] NOT NULL DEFAULT '{}';
ALTER TABLE change_sets ADD COLUMN application_ids text[] NOT NULL DEFAULT '{}';
-- How the result differs from what was shown: a JSON list, null until it is known.
ALTER TABLE change_sets ADD COLUMN differences text;
-- The source in Git that made it, and for which commit. No reference: the record outlives the source.
ALTER TABLE change_sets ADD COLUMN git_source_id text;
ALTER TABLE change_sets ADD COLUMN git_commit text;
