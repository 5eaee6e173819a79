-- The newest version of each secret that somebody read, and the one that each step read: an instance whose step read another one uses an
-- old value. Versions are the provider's, or keyed fingerprints, never values. A server of the version before notes no version, so it marks
-- nothing; what it reads again stays marked until a server of this version reads it.
CREATE TABLE secret_versions (
    service_id text NOT NULL REFERENCES services ON DELETE CASCADE,
    path       text NOT NULL,
    version    text NOT NULL,
    seen_at    timestamptz NOT NULL,
    checked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (service_id, path)
);
CREATE INDEX secret_versions_checked ON secret_versions (checked_at);
ALTER TABLE secret_reads ADD COLUMN version text;

-- Reads of instances whose secret has another version since. The key of a secret follows its path after the first #.
CREATE VIEW changed_secrets AS
SELECT secret_reads.service_id, secret_reads.instance_id, secret_reads.component, secret_reads.step, secret_reads.secret
FROM secret_reads JOIN instances ON instances.id = secret_reads.instance_id AND instances.status <> 'Destroyed'
    JOIN secret_versions ON secret_versions.service_id = secret_reads.service_id
        AND secret_versions.path = split_part(secret_reads.secret, '#', 1)
WHERE secret_versions.version <> secret_reads.version;
