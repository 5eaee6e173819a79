-- Service instances: zones, sealed parameters, resource pools, and the two services that come with every organization.

CREATE TABLE zones (
    id              text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name            text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, name)
);

-- Secret parameters, each sealed with the server's secret key. They are not among `services.parameters`.
CREATE TABLE service_secrets (
    service_id text NOT NULL REFERENCES services ON DELETE CASCADE,
    name       text NOT NULL,
    sealed     bytea NOT NULL,
    PRIMARY KEY (service_id, name)
);

CREATE INDEX environment_services_service ON environment_services (service_id);

-- Resources that were handed out at least once. What a pool holds is in its parameters; here is who has it.
CREATE TABLE pool_resources (
    service_id  text NOT NULL REFERENCES services ON DELETE CASCADE,
    resource_id text NOT NULL,
    -- Null when it is free.
    holder      text,
    -- When it was handed out or came back.
    changed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (service_id, resource_id)
);
CREATE UNIQUE INDEX pool_resources_holder ON pool_resources (service_id, holder) WHERE holder IS NOT NULL;

-- Who waits for a resource, in the order of the tickets. Who has not asked for a while has given up.
CREATE TABLE pool_tickets (
    ticket     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service_id text NOT NULL REFERENCES services ON DELETE CASCADE,
    holder     text NOT NULL,
    asked_at   timestamptz NOT NULL,
    UNIQUE (service_id, holder)
);

-- Organizations that were made before get what new ones come with.
CREATE FUNCTION pg_temp.new_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT lpad(to_hex(extract(epoch FROM now())::bigint & 4294967295), 8, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 16)
$$;

INSERT INTO zones (id, organization_id, name) SELECT pg_temp.new_id(), id, 'Default' FROM organizations;

UPDATE services SET zone_id = zones.id FROM zones WHERE zones.organization_id = services.organization_id;

WITH made AS (
    INSERT INTO services (id, organization_id, zone_id, name, type_id)
    SELECT pg_temp.new_id(), zones.organization_id, zones.id, new.name, new.type_id
    FROM zones
    CROSS JOIN (VALUES ('Default workflow service', 'builtin:workflow_service'),
                       ('Default credentials service', 'builtin:cobalt_secure_store')) AS new (name, type_id)
    RETURNING id, organization_id
)
INSERT INTO environment_services (environment_id, service_id)
SELECT environments.id, made.id
FROM made JOIN environments ON environments.organization_id = made.organization_id AND environments.is_default;
