-- What a version of a manifest changed, in the words of its author.
ALTER TABLE manifests ADD COLUMN message text;
