-- Queries of lists that people keep under a name, as a JSON list for each person and organization.
CREATE TABLE saved_views (
    user_id         text NOT NULL REFERENCES users ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    views           jsonb NOT NULL,
    PRIMARY KEY (user_id, organization_id)
);
CREATE INDEX saved_views_organization ON saved_views (organization_id);
