-- name: get_audiences
-- JSON; no row: none.
SELECT audiences FROM identity_audiences WHERE environment_id = %(environment_id)s;

-- name: set_audiences
INSERT INTO identity_audiences (environment_id, organization_id, audiences)
VALUES (%(environment_id)s, %(organization_id)s, %(audiences)s)
ON CONFLICT (environment_id) DO UPDATE SET audiences = excluded.audiences;

-- name: remove_audiences
DELETE FROM identity_audiences WHERE environment_id = %(environment_id)s;

-- name: get_facts
-- What a token says of a job, as it is now, and the audiences of its environment.
SELECT organizations.name AS organization, applications.id AS application_id, applications.name AS application,
       environments.name AS environment, instances.version, instances.revision_id, instances.name AS instance,
       jobs.owner_id, identity_audiences.audiences
FROM jobs
    JOIN instances ON instances.id = jobs.instance_id
    JOIN applications ON applications.id = instances.application_id
    JOIN environments ON environments.id = instances.environment_id
    JOIN organizations ON organizations.id = instances.organization_id
    LEFT JOIN identity_audiences ON identity_audiences.environment_id = environments.id
WHERE jobs.id = %(job_id)s;
