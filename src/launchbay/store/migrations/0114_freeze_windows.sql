-- When nothing changes, as JSON: the switch of an application as that of an environment, and the windows of both. Null: none. Servers of
-- the version before don't ask.
ALTER TABLE environments ADD COLUMN freeze_windows text;
ALTER TABLE applications ADD COLUMN frozen text, ADD COLUMN freeze_windows text;

-- All that freezes an instance, or null: what `model/freezes.py` reads. Its owners are an environment and an application.
CREATE FUNCTION launchbay_freezes(frozen text, windows text, application_frozen text, application_windows text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(frozen, windows, application_frozen, application_windows) IS NOT NULL
        THEN json_build_array(frozen::json, windows::json, application_frozen::json, application_windows::json)::text END
$$;

-- An override of a freeze, for the webhooks of an organization that want to know.
CREATE FUNCTION launchbay_post_override(of_organization text, of_instance text, what json) RETURNS bigint LANGUAGE sql AS $$
    WITH posted AS (
        INSERT INTO webhook_deliveries (id, webhook_id, event, body)
        SELECT launchbay_new_id(), webhooks.id, 'override', json_build_object(
            'event', 'override', 'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 'organization', of_organization,
            'instance', of_instance, 'instanceName', (SELECT name FROM instances WHERE id = of_instance), 'override', what
        )::text
        FROM webhooks WHERE organization_id = of_organization AND enabled AND 'override' = ANY (events)
        RETURNING id
    )
    SELECT count(*) FROM posted
$$;
