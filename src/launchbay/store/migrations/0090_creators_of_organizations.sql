-- Who created each organization: its quota and its shares of the server count for that person. No foreign key, so that deleting an
-- account frees nothing. Null where nobody knows.
ALTER TABLE organizations ADD COLUMN creator_id text;
UPDATE organizations SET creator_id = entry.actor_id
FROM audit_entries AS entry
WHERE entry.organization_id = organizations.id AND entry.operation IN ('create_organization', 'import_organization')
      AND entry.object_id = organizations.id;
CREATE INDEX organizations_creator ON organizations (creator_id) WHERE creator_id IS NOT NULL;
