-- Roles that members get from the groups that they have at the identity provider.

CREATE TABLE group_roles (
    role_id    text NOT NULL REFERENCES roles ON DELETE CASCADE,
    group_name text NOT NULL,
    PRIMARY KEY (role_id, group_name)
);
CREATE INDEX group_roles_of_group ON group_roles (group_name);

-- Only these are taken away again when the group is: what somebody gave by hand stays.
ALTER TABLE role_assignments ADD COLUMN from_groups boolean NOT NULL DEFAULT false;
