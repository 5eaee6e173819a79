-- name: default_id
SELECT id FROM environments WHERE organization_id = %(organization_id)s AND is_default;

-- name: insert
INSERT INTO environments (id, organization_id, name, is_default)
VALUES (%(environment_id)s, %(organization_id)s, %(name)s, %(is_default)s);
