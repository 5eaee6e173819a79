-- name: insert
-- An instance that runs already, with its expiry. No job has made it, and none may change it yet.
WITH instance AS (
    INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name, owner_id, status, is_observed,
                           parameters, parameter_origins, components, environment_view, destroy_at, labels, state, component_count, running_count)
    VALUES (%(instance_id)s, %(organization_id)s, %(application_id)s, %(environment_id)s, %(revision_id)s, %(version)s,
            %(name)s, %(owner_id)s, %(status)s, true, %(parameters)s, %(parameter_origins)s, %(components)s,
            %(environment_view)s, now() + %(destroy_after_ms)s::bigint * interval '1 millisecond', %(labels)s::jsonb, %(state)s,
            %(component_count)s, %(running_count)s)
    RETURNING id, owner_id, destroy_at
)
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
SELECT %(schedule_id)s, id, 'expiry', 'destroy', owner_id, destroy_at FROM instance WHERE destroy_at IS NOT NULL;

-- name: insert_document
INSERT INTO kept_documents (id, instance_id, component, action, name, sealed)
VALUES (%(document_id)s, %(instance_id)s, %(component)s, %(action)s, %(name)s, %(sealed)s);

-- name: insert_adoption
INSERT INTO adoptions (instance_id, organization_id, component, action, name, identity, resources, resource_count, about,
                       adopted_by)
VALUES (%(instance_id)s, %(organization_id)s, %(component)s, %(action)s, %(name)s, %(identity)s, %(resources)s, %(resource_count)s,
        %(about)s, %(adopted_by)s);

-- name: list_owners
-- The instances that have adopted some of these things before.
SELECT adoptions.identity, instances.id, instances.name, adoptions.component
FROM adoptions JOIN instances ON instances.id = adoptions.instance_id
WHERE adoptions.organization_id = %(organization_id)s AND action = %(action)s AND identity = ANY (%(identities)s::text[]);

-- name: list_keepers
-- The instances that keep such a document, also of a launch.
SELECT kept_documents.id AS document_id, kept_documents.sealed, instances.id, instances.name, kept_documents.component
FROM kept_documents JOIN instances ON instances.id = kept_documents.instance_id
WHERE instances.organization_id = %(organization_id)s AND kept_documents.action = %(action)s AND kept_documents.name = %(name)s
ORDER BY instances.id;

-- name: list_of_instance
SELECT component, action, name, identity, resources, coalesce(resource_count, json_array_length(resources::json)) AS resource_count,
       about, adopted_at, adopted_by
FROM adoptions
WHERE instance_id = %(instance_id)s ORDER BY component, action, name;
