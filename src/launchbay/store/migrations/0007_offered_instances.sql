-- Instances that environments offer as services, and what else components are connected to.

CREATE TABLE instance_offers (
    instance_id    text NOT NULL REFERENCES instances ON DELETE CASCADE,
    environment_id text NOT NULL REFERENCES environments ON DELETE CASCADE,
    PRIMARY KEY (instance_id, environment_id)
);
CREATE INDEX instance_offers_environment ON instance_offers (environment_id);

-- A link of the kind 'service-instance' leads to a row of `services`.
ALTER TABLE instance_links DROP CONSTRAINT instance_links_kind_check;
ALTER TABLE instance_links
    ADD CONSTRAINT instance_links_kind_check CHECK (kind IN ('own', 'shared', 'service', 'service-instance')),
    -- How a component is connected to its service, a JSON document; null where there is nothing to say.
    ADD COLUMN binding text;
