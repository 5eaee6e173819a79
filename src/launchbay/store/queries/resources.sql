-- Where the object of a resource path belongs. No row: there is none.

-- name: application
SELECT organization_id FROM applications WHERE id = %(id)s;

-- name: environment
SELECT organization_id FROM environments WHERE id = %(id)s;

-- name: service
SELECT organization_id FROM services WHERE id = %(id)s;

-- name: role
SELECT organization_id FROM roles WHERE id = %(id)s;

-- name: instance_environment
-- The environment of an instance, which every operation on the instance touches.
SELECT environment_id FROM instances WHERE id = %(id)s AND application_id = %(application_id)s;

-- name: shared_organizations
-- The organizations that all of these users belong to.
SELECT array_agg(organization_id ORDER BY organization_id)
FROM (SELECT organization_id FROM memberships WHERE user_id = ANY (%(user_ids)s::text[])
      GROUP BY organization_id HAVING count(*) = cardinality(%(user_ids)s::text[])) AS shared;
