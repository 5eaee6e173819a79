-- name: is_service_account
SELECT service_of IS NOT NULL FROM users WHERE id = %(user_id)s;

-- name: list_people
-- Who belongs to an organization, is invited to it, or is known to its provider; one page of those who match. A page
-- without people has one row, which says how many there are.
WITH accounts AS (
    SELECT u.id, u.email, u.name, u.created_at
    FROM memberships m JOIN users u ON u.id = m.user_id
    WHERE m.organization_id = %(organization_id)s AND u.service_of IS NULL
    UNION ALL
    SELECT u.id, u.email, p.name, p.created_at
    FROM pending_memberships p JOIN users u ON u.id = p.user_id
    WHERE p.organization_id = %(organization_id)s
      AND NOT EXISTS (SELECT FROM memberships m WHERE m.organization_id = p.organization_id AND m.user_id = p.user_id)
), people AS (
    SELECT coalesce(s.id, left(encode(sha256(convert_to(%(organization_id)s || ':' || a.id, 'UTF8')), 'hex'), 24)) AS id, coalesce(a.id, s.user_id) AS user_id, coalesce(s.user_name, a.email) AS user_name, s.external_id, s.document,
           coalesce(s.address, a.email) AS address, a.email, a.name, a.id IS NOT NULL AS is_active,
           coalesce(s.created_at, a.created_at) AS created_at, coalesce(s.changed_at, a.created_at) AS changed_at
    FROM accounts a
    -- By the account and never by the address: a record acts on the membership that it made or adopted, and on no other.
    FULL JOIN (SELECT * FROM scim_users WHERE organization_id = %(organization_id)s) s ON s.user_id = a.id
), found AS (
    SELECT * FROM people
    WHERE (%(id)s::text IS NULL OR id = %(id)s)
      AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
      AND (%(user_name)s::text IS NULL OR lower(user_name) = lower(%(user_name)s))
      AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s)
      AND (%(display_name)s::text IS NULL
           OR lower(coalesce(document::json ->> 'displayName', CASE WHEN document IS NULL THEN name END)) = lower(%(display_name)s))
      AND (%(is_active)s::boolean IS NULL OR is_active = %(is_active)s)
), page AS (
    SELECT * FROM found ORDER BY id LIMIT %(count)s OFFSET %(skipped)s
)
SELECT t.total, page.* FROM (SELECT count(*) AS total FROM found) t LEFT JOIN page ON true ORDER BY page.id;

-- name: get_person
-- One whom the provider made or adopted, as list_people has them, without looking at all accounts.
SELECT 1::bigint AS total, s.id, s.user_id, s.user_name, s.external_id, s.document, s.address, a.email, a.name,
       a.email IS NOT NULL AS is_active, s.created_at, s.changed_at
FROM scim_users s LEFT JOIN LATERAL (
    SELECT u.email, coalesce(CASE WHEN m.user_id IS NULL THEN p.name END, u.name) AS name
    FROM users u
    LEFT JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = u.id
    LEFT JOIN pending_memberships p ON p.organization_id = s.organization_id AND p.user_id = u.id
    WHERE u.id = s.user_id AND u.service_of IS NULL AND (m.user_id IS NOT NULL OR p.user_id IS NOT NULL)
) a ON true
WHERE s.organization_id = %(organization_id)s AND s.id = %(id)s;

-- name: list_groups_of_people
SELECT m.member_id AS id, g.id AS group_id, g.name
FROM scim_members m JOIN scim_groups g ON g.id = m.group_id
WHERE g.organization_id = %(organization_id)s AND m.member_id = ANY (%(ids)s::text[]) ORDER BY g.name;

-- name: count_people
SELECT count(*) FROM scim_users WHERE organization_id = %(organization_id)s;

-- name: put_person
INSERT INTO scim_users (id, organization_id, user_id, user_name, address, external_id, document)
VALUES (%(id)s, %(organization_id)s, %(user_id)s, %(user_name)s, %(address)s, %(external_id)s, %(document)s)
ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, address = excluded.address, user_name = excluded.user_name, external_id = excluded.external_id,
    document = excluded.document, changed_at = now()
WHERE scim_users.organization_id = excluded.organization_id
RETURNING id;

-- name: delete_person
DELETE FROM scim_users WHERE organization_id = %(organization_id)s AND id = %(id)s;

-- name: list_groups
-- One page of those that match; without any, one row, which says how many there are.
WITH found AS (
    SELECT * FROM scim_groups g
    WHERE organization_id = %(organization_id)s
      AND (%(id)s::text IS NULL OR id = %(id)s)
      AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s)
      AND (%(display_name)s::text IS NULL OR lower(name) = lower(%(display_name)s))
      AND (%(member_id)s::text IS NULL
           OR EXISTS (SELECT FROM scim_members m WHERE m.group_id = g.id AND m.member_id = %(member_id)s))
), page AS (
    SELECT * FROM found ORDER BY id LIMIT %(count)s OFFSET %(skipped)s
)
SELECT t.total, page.id, page.name, page.external_id, page.created_at, page.changed_at
FROM (SELECT count(*) AS total FROM found) t LEFT JOIN page ON true ORDER BY page.id;

-- name: list_members
SELECT m.group_id, m.member_id AS id
FROM scim_members m JOIN scim_users s ON s.id = m.member_id
WHERE s.organization_id = %(organization_id)s AND m.group_id = ANY (%(ids)s::text[]) ORDER BY m.member_id;

-- name: count_groups
SELECT count(*) FROM scim_groups WHERE organization_id = %(organization_id)s;

-- name: insert_group
INSERT INTO scim_groups (id, organization_id, name, external_id)
VALUES (%(id)s, %(organization_id)s, %(name)s, %(external_id)s);

-- name: update_group
UPDATE scim_groups SET name = %(name)s, external_id = %(external_id)s, changed_at = now()
WHERE organization_id = %(organization_id)s AND id = %(id)s;

-- name: delete_group
DELETE FROM scim_groups WHERE organization_id = %(organization_id)s AND id = %(id)s;

-- name: adopt
-- Members and invited people whom the provider names without having made them; their IDs are as in list_people.
INSERT INTO scim_users (id, organization_id, user_id, user_name, address, document)
SELECT a.id, %(organization_id)s, a.user_id, a.email, a.email, json_build_object('displayName', a.name)::text
FROM (
    SELECT u.id AS user_id, u.email, u.name,
           left(encode(sha256(convert_to(%(organization_id)s || ':' || u.id, 'UTF8')), 'hex'), 24) AS id
    FROM users u
    WHERE u.service_of IS NULL
      AND (EXISTS (SELECT FROM memberships m WHERE m.organization_id = %(organization_id)s AND m.user_id = u.id)
           OR EXISTS (SELECT FROM pending_memberships p WHERE p.organization_id = %(organization_id)s AND p.user_id = u.id))
) a
WHERE a.id = ANY (%(ids)s::text[])
ON CONFLICT DO NOTHING;

-- name: list_known
-- Those of these IDs that are people of the organization.
SELECT id FROM scim_users WHERE organization_id = %(organization_id)s AND id = ANY (%(ids)s::text[]);

-- name: add_members
INSERT INTO scim_members (group_id, member_id)
SELECT %(group_id)s, id FROM unnest(%(ids)s::text[]) AS id ON CONFLICT DO NOTHING;

-- name: remove_members
DELETE FROM scim_members WHERE group_id = %(group_id)s AND member_id = ANY (%(ids)s::text[]);

-- name: has_groups
SELECT EXISTS (SELECT FROM scim_groups WHERE organization_id = %(organization_id)s);

-- name: list_provisioned_in
-- The organizations whose providers tell of this person and of groups.
SELECT s.organization_id FROM scim_users s
WHERE s.user_id = %(user_id)s AND EXISTS (SELECT FROM scim_groups g WHERE g.organization_id = s.organization_id);

-- name: apply_groups
-- Gives members the roles of their groups, and takes those of former groups away. What somebody gave by hand stays.
WITH wanted AS (
    SELECT DISTINCT r.id AS role_id, s.user_id
    FROM scim_groups g
    JOIN scim_members m ON m.group_id = g.id
    JOIN scim_users s ON s.id = m.member_id
    JOIN memberships ms ON ms.organization_id = g.organization_id AND ms.user_id = s.user_id
    JOIN group_roles gr ON gr.group_name = g.name
    JOIN roles r ON r.id = gr.role_id AND r.organization_id = g.organization_id
    WHERE g.organization_id = %(organization_id)s
), gained AS (
    INSERT INTO role_assignments (role_id, user_id, from_groups)
    SELECT role_id, user_id, true FROM wanted ON CONFLICT DO NOTHING RETURNING role_id, user_id
), lost AS (
    DELETE FROM role_assignments a USING roles r, scim_users s
    WHERE r.id = a.role_id AND r.organization_id = %(organization_id)s AND a.from_groups
      AND s.organization_id = r.organization_id AND s.user_id = a.user_id
      AND NOT EXISTS (SELECT FROM wanted w WHERE w.role_id = a.role_id AND w.user_id = a.user_id)
    RETURNING a.role_id, a.user_id
)
SELECT c.user_id, coalesce(array_agg(r.name ORDER BY r.name) FILTER (WHERE c.is_gained), '{}') AS gained,
       coalesce(array_agg(r.name ORDER BY r.name) FILTER (WHERE NOT c.is_gained), '{}') AS lost
FROM (SELECT role_id, user_id, true AS is_gained FROM gained UNION ALL SELECT role_id, user_id, false FROM lost) c
JOIN roles r ON r.id = c.role_id GROUP BY c.user_id ORDER BY c.user_id;

-- name: note_success
-- Once a minute at most: providers ask many times in a row.
INSERT INTO scim_activity (organization_id, succeeded_at) VALUES (%(organization_id)s, now())
ON CONFLICT (organization_id) DO UPDATE SET succeeded_at = now()
WHERE scim_activity.succeeded_at IS NULL OR scim_activity.succeeded_at < now() - interval '1 minute'
   OR scim_activity.succeeded_at < scim_activity.failed_at;

-- name: note_refusal
INSERT INTO scim_activity (organization_id, failed_at, refusals)
VALUES (%(organization_id)s, now(), json_build_array(%(refusal)s::json)::text)
ON CONFLICT (organization_id) DO UPDATE SET failed_at = now(), refusals = (
    SELECT json_agg(each ORDER BY place)::text
    FROM (SELECT %(refusal)s::json AS each, 0::bigint AS place
          UNION ALL SELECT * FROM json_array_elements(scim_activity.refusals::json) WITH ORDINALITY
          ORDER BY place LIMIT %(most)s) AS newest);

-- name: get_activity
SELECT succeeded_at, failed_at, refusals FROM scim_activity WHERE organization_id = %(organization_id)s;

-- name: list_failing
-- Where the provider's last request was refused, and nothing succeeded after it.
SELECT o.name AS organization, a.refusals FROM scim_activity a JOIN organizations o ON o.id = a.organization_id
WHERE a.failed_at > coalesce(a.succeeded_at, '-infinity') ORDER BY o.name;

-- name: count_in_scim_users
SELECT count(*) FROM scim_users WHERE user_name ~* %(address)s OR address ~* %(address)s OR external_id ~* %(address)s
   OR document ~* %(address)s;

-- name: erase_in_scim_users
DELETE FROM scim_users WHERE id IN (
    SELECT id FROM scim_users WHERE user_name ~* %(address)s OR address ~* %(address)s OR external_id ~* %(address)s
       OR document ~* %(address)s LIMIT %(count)s);

-- name: count_in_scim_activity
SELECT count(*) FROM scim_activity WHERE refusals ~* %(address)s;

-- name: erase_in_scim_activity
UPDATE scim_activity SET refusals = regexp_replace(refusals, %(address)s, %(pseudonym)s, 'gi')
WHERE organization_id IN (SELECT organization_id FROM scim_activity WHERE refusals ~* %(address)s LIMIT %(count)s);
