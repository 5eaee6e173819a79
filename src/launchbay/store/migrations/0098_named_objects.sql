-- What objects and members of organizations are called, in one place for the activity and its search. A feature adds its objects with a migration.
CREATE VIEW named_objects AS
    SELECT organization_id, 'application' AS kind, id, name FROM applications
    UNION ALL
    SELECT organization_id, 'instance', instance_id, name FROM fleet
    UNION ALL
    SELECT organization_id, 'environment', id, name FROM environments
    UNION ALL
    SELECT organization_id, 'role', id, name FROM roles
    UNION ALL
    SELECT organization_id, 'service', id, name FROM services
    UNION ALL
    SELECT organization_id, 'webhook', id, url FROM webhooks
    UNION ALL
    SELECT organization_id, 'schedule', id, name FROM recurring_schedules
    UNION ALL
    SELECT organization_id, 'source in Git', id, name FROM git_sources
    UNION ALL
    SELECT memberships.organization_id, 'user', users.id, users.name FROM memberships JOIN users ON users.id = memberships.user_id;
