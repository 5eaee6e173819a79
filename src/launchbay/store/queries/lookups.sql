-- Every statement here answers one row for a caller who exists, found or not: what the caller's credentials and grants depend
-- on, then the object's columns in the order of its dataclass, all NULL when there is no such object.
--
-- The object and what belongs to it are joined inside the brackets of the one outer join. A chain of outer joins whose key
-- is also compared with a parameter made PostgreSQL 18.4 answer rows that the chain had ruled out.

-- name: caller
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, NULL::bigint AS organization_stamp,
       u.id, u.email, u.name, u.enabled, u.created_at
FROM users u
WHERE u.id = %(caller_id)s;

-- name: organization
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp, o.id, o.name
FROM users u LEFT JOIN organizations o ON o.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: application
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       a.id, a.organization_id, a.name, a.latest_version, a.source_url, a.created_at
FROM users u
LEFT JOIN (applications a JOIN organizations o ON o.id = a.organization_id) ON a.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: launch_target
-- An application with an environment of its organization: the default one, if none is named.
SELECT CASE WHEN %(refresh_token_id)s::text IS NULL OR EXISTS (
           SELECT FROM refresh_tokens WHERE id = %(refresh_token_id)s AND revoked_at IS NULL
       ) THEN u.access_stamp END AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       a.id, a.organization_id, a.name, a.latest_version, a.source_url, a.created_at, e.id AS environment_id,
       e.name AS environment_name, e.is_default, e.policies, e.markers, e.properties, e.created_at AS environment_created_at,
       EXISTS (SELECT FROM concurrency_limits c WHERE c.organization_id = a.organization_id) AS may_be_limited,
       EXISTS (SELECT FROM lifetime_rules l WHERE l.organization_id = a.organization_id) AS has_lifetime_rules,
       coalesce(e.change_policy, e.frozen, e.freeze_windows, a.frozen, a.freeze_windows) IS NOT NULL OR EXISTS (
           SELECT FROM change_rules r WHERE r.organization_id = a.organization_id AND r.is_current AND r.rules <> ''
       ) OR EXISTS (SELECT FROM promotion_orders p WHERE p.organization_id = a.organization_id) AS may_be_ruled
FROM users u
LEFT JOIN (
    applications a JOIN organizations o ON o.id = a.organization_id
    LEFT JOIN environments e ON e.organization_id = a.organization_id AND e.id = coalesce(
        %(environment_id)s, (SELECT d.id FROM environments d WHERE d.organization_id = a.organization_id AND d.is_default)
    )
) ON a.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: revision
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       r.id, r.application_id, a.organization_id, r.name, r.version, r.parameters, r.environment_id, r.submodules,
       r.created_at
FROM users u
LEFT JOIN (all_revisions r JOIN applications a ON a.id = r.application_id JOIN organizations o ON o.id = a.organization_id)
    ON r.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: environment
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       e.id, e.organization_id, e.name, e.is_default, e.policies, e.markers, e.properties, e.created_at
FROM users u
LEFT JOIN (environments e JOIN organizations o ON o.id = e.organization_id) ON e.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: default_environment
-- By the organization's id.
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       e.id, e.organization_id, e.name, e.is_default, e.policies, e.markers, e.properties, e.created_at
FROM users u
LEFT JOIN (environments e JOIN organizations o ON o.id = e.organization_id)
    ON e.organization_id = %(id)s AND e.is_default
WHERE u.id = %(caller_id)s;

-- name: service
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       s.id, s.organization_id, s.zone_id, s.name, s.type_id, s.parameters, s.status, s.status_pending, s.created_at
FROM users u
LEFT JOIN (services s JOIN organizations o ON o.id = s.organization_id) ON s.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: role
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       r.id, r.organization_id, r.name, r.permissions, r.kind, r.created_at
FROM users u
LEFT JOIN (roles r JOIN organizations o ON o.id = r.organization_id) ON r.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: member
-- A user as a member of an organization: nobody is found in an organization that they do not belong to.
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       member.id, member.email, member.name, member.enabled, member.created_at
FROM users u
LEFT JOIN (memberships m JOIN users member ON member.id = m.user_id JOIN organizations o ON o.id = m.organization_id)
    ON m.organization_id = %(organization_id)s AND m.user_id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: instance
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       i.id, i.organization_id, i.application_id, i.environment_id, i.revision_id, i.version, i.name, i.owner_id, i.status,
       i.parent_id, i.job_id, i.parameters, i.return_values, i.components, i.user_data, i.environment_view, i.state,
       i.error_message, i.destroy_at, i.created_at, i.is_observed
FROM users u
LEFT JOIN (instances i JOIN organizations o ON o.id = i.organization_id) ON i.id = %(id)s
WHERE u.id = %(caller_id)s;

-- name: instance_detail
-- An instance with its newest jobs, in one statement: status, return values and jobs must be of one moment, because who sees
-- a job's end reads what it returned. The running job brings the rows of its steps, which are newer.
SELECT caller_stamp(u.access_stamp, %(refresh_token_id)s::text) AS caller_stamp, u.enabled AS caller_enabled, o.access_stamp AS organization_stamp,
       i.id, i.organization_id, i.application_id, i.environment_id, i.version, i.name, i.owner_id, i.status,
       i.parameters, i.parameter_origins, i.return_values, i.components, i.user_data, i.environment_view, i.error_message, i.last_failure, i.destroy_at,
       i.created_at, i.labels::text AS labels, (
    SELECT coalesce(json_agg(json_build_array(
        id, name, status, owner_id, steps::json, error_message,
        floor(extract(epoch FROM started_at) * 1000)::bigint, floor(extract(epoch FROM finished_at) * 1000)::bigint,
        CASE WHEN status = 'Executing' THEN (
            SELECT json_agg(json_build_array(path, status, launchbay_percent(status, percent, started_at, ends_at))) FROM steps WHERE job_id = newest.id
        ) END, number, bytes_before = 0 AND status = 'Failed' AND EXISTS (
            SELECT FROM jobs WHERE id = newest.id AND plan::json ->> 'kind' = 'refused' -- plans of all would be sorted, too
        )
    ) ORDER BY created_at DESC), '[]')
    FROM (
        SELECT *, sum(octet_length(steps)) OVER (ORDER BY created_at DESC, id DESC) - octet_length(steps) AS bytes_before
        FROM (SELECT * FROM jobs WHERE instance_id = %(id)s ORDER BY created_at DESC, id DESC LIMIT %(jobs)s) AS last
    ) AS newest
    WHERE bytes_before < %(steps_bytes)s
)::text AS history,
       CASE WHEN i.status <> 'Destroyed' THEN launchbay_awaited(i.id, i.job_id, i.organization_id, 1) END::text AS waits,
       NULL AS destruction -- which is one of the sentences that are made of `waits`
FROM users u
LEFT JOIN (instances i JOIN organizations o ON o.id = i.organization_id) ON i.id = %(id)s
WHERE u.id = %(caller_id)s;

-- The owner of the object of a resource path. No row: the object does not exist.

-- name: organization_of_application
SELECT organization_id FROM applications WHERE id = %(id)s;

-- name: organization_of_environment
SELECT organization_id FROM environments WHERE id = %(id)s;

-- name: organization_of_service
SELECT organization_id FROM services WHERE id = %(id)s;

-- name: organization_of_role
SELECT organization_id FROM roles WHERE id = %(id)s;

-- name: instance_environment
-- The environment of an instance, which every operation on the instance touches.
SELECT environment_id FROM instances WHERE id = %(id)s AND application_id = %(application_id)s;

-- name: shared_organizations
-- The organizations that all of these users belong to.
SELECT array_agg(organization_id ORDER BY organization_id)
FROM (SELECT organization_id FROM memberships WHERE user_id = ANY (%(user_ids)s::text[])
      GROUP BY organization_id HAVING count(*) = cardinality(%(user_ids)s::text[])) AS shared;

-- The locks of conditional changes. FOR UPDATE also makes those wait who add what belongs to the object; an organization
-- has too much of that, and whoever changes it itself takes its lock.

-- name: lock_organization
SELECT id FROM organizations WHERE id = %(id)s FOR NO KEY UPDATE;

-- name: lock_user
SELECT id FROM users WHERE id = %(id)s FOR NO KEY UPDATE;

-- name: lock_application
SELECT id FROM applications WHERE id = %(id)s FOR UPDATE;

-- name: lock_revision
SELECT id FROM revisions WHERE id = %(id)s FOR UPDATE;

-- name: lock_environment
SELECT id FROM environments WHERE id = %(id)s FOR UPDATE;

-- name: lock_service
SELECT id FROM services WHERE id = %(id)s FOR UPDATE;

-- name: lock_role
SELECT id FROM roles WHERE id = %(id)s FOR UPDATE;

-- name: lock_instance
SELECT id FROM instances WHERE id = %(id)s FOR UPDATE;

-- name: lock_approval
SELECT id FROM approvals WHERE id = %(id)s FOR UPDATE;
