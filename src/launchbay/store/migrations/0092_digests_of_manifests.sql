-- Digests of what each version means, as JSON; null until they are computed (manifest/digests.py).
ALTER TABLE manifests ADD COLUMN digests text;
