-- What a change set does to each of its instances, as the audit log would have it if somebody did it directly.
CREATE FUNCTION launchbay_applied_changes(of_id text, in_organization text)
RETURNS TABLE (operation text, object text, after text, instance_id text, application_id text, environment_id text) LANGUAGE sql STABLE AS $$
    SELECT CASE change_sets.kind
               WHEN 'launch' THEN 'launch_application'
               WHEN 'destroy' THEN 'run_workflow'
               WHEN 'relaunch' THEN 'run_workflow'
               WHEN 'manage' THEN 'take_over_instance'
               ELSE 'reconfigure_instance' END,
           concat('/applications/', one.application_id, '/instances/', one.instance_id,
                  CASE change_sets.kind WHEN 'destroy' THEN '/workflows/destroy' WHEN 'relaunch' THEN '/workflows/launch' END),
           json_build_object('name', one.instance_name, 'version', one.promise::json -> 'version')::text,
           one.instance_id, one.application_id, one.environment_id
    FROM change_sets JOIN change_set_instances AS one ON one.change_set_id = change_sets.id
    WHERE change_sets.id = of_id AND change_sets.organization_id = in_organization
$$;
