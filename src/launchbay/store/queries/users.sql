-- name: get_credentials
-- What a sign-in is verified against. `email` is in canonical form, as in every statement here.
SELECT id, email, name, password_hash, enabled, access_stamp,
       password_origin = 'given' AND coalesce(password_expires_at <= now(), false) AS is_expired,
       CASE WHEN EXISTS (SELECT FROM second_factors f WHERE f.user_id = users.id) THEN 'held'
            WHEN EXISTS (SELECT FROM memberships m JOIN organizations o ON o.id = m.organization_id
                         WHERE m.user_id = users.id AND o.requires_second_factor) THEN 'missing'
            ELSE '' END AS second_factor
FROM users WHERE email = %(email)s;

-- name: get
SELECT id, email, name, enabled, created_at FROM users WHERE id = %(id)s;

-- name: get_mailbox
-- The address at which an account may get email. Nobody has a mailbox under `invalid` (RFC 2606), as of service accounts.
SELECT email FROM users WHERE id = %(id)s AND enabled AND email !~ '[@.]invalid$';

-- name: insert
INSERT INTO users (id, email, name, password_hash) VALUES (%(id)s, %(email)s, %(name)s, %(password_hash)s);

-- name: set_password
-- A new password ends every verification of the old one.
UPDATE users SET password_hash = %(password_hash)s, access_stamp = nextval('access_stamps'),
                 password_origin = CASE WHEN password_hash IS NULL OR password_origin = 'given' THEN 'replaced'
                                        ELSE password_origin END
WHERE id = %(id)s;

-- name: mark_password_given
-- A lifetime of 0 has no end.
UPDATE users SET password_origin = 'given',
                 password_expires_at = CASE WHEN %(lifetime_s)s::float8 > 0 THEN now() + %(lifetime_s)s * interval '1 second' END
WHERE id = %(id)s;

-- name: is_password_given
SELECT password_origin = 'given' FROM users WHERE id = %(id)s;

-- name: end_inherited_password
-- No row: nobody else had to do with the password, or there is none.
UPDATE users SET password_hash = NULL, password_origin = 'own'
WHERE id = %(id)s AND password_origin <> 'own' AND password_hash IS NOT NULL;

-- name: renew_hash
-- The same password, hashed with today's parameters: what was verified stays verified. No row: it was changed meanwhile.
UPDATE users SET password_hash = %(password_hash)s WHERE id = %(id)s AND password_hash = %(old_hash)s;

-- name: set_enabled
UPDATE users SET enabled = %(enabled)s, access_stamp = nextval('access_stamps')
WHERE id = %(id)s AND enabled <> %(enabled)s;

-- name: join_organization
INSERT INTO memberships (organization_id, user_id) VALUES (%(organization_id)s, %(user_id)s) ON CONFLICT DO NOTHING;

-- name: leave_organization
-- What was held there goes too: coming back starts without roles.
WITH revoked AS (
    DELETE FROM role_assignments USING roles
    WHERE role_assignments.role_id = roles.id AND roles.organization_id = %(organization_id)s
      AND role_assignments.user_id = %(user_id)s
)
DELETE FROM memberships WHERE organization_id = %(organization_id)s AND user_id = %(user_id)s;

-- name: list_by_organization
-- The members who are people, with the names of their roles.
SELECT u.id, u.name, u.email,
       coalesce(array_agg(r.name ORDER BY r.name) FILTER (WHERE r.id IS NOT NULL), '{}') AS roles
FROM memberships m
JOIN users u ON u.id = m.user_id
LEFT JOIN (role_assignments a JOIN roles r ON r.id = a.role_id) ON a.user_id = u.id AND r.organization_id = m.organization_id
WHERE m.organization_id = %(organization_id)s AND u.service_of IS NULL
GROUP BY u.id
ORDER BY u.id;

-- name: list_page
-- The next of these members in the order of their IDs who fit each part of a filter. A page of few looks at their roles one by one.
SELECT u.id, u.name, u.email,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}')
        FROM role_assignments a JOIN roles r ON r.id = a.role_id
        WHERE a.user_id = u.id AND r.organization_id = m.organization_id) AS roles
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND m.user_id > %(after)s AND u.service_of IS NULL
  AND (%(email)s::text IS NULL OR u.email = %(email)s)
  AND (NOT %(is_disabled)s OR NOT u.enabled)
  AND NOT EXISTS (
      SELECT FROM unnest(%(words)s::text[]) AS word
      WHERE position(word IN lower(u.name)) = 0 AND position(word IN lower(u.email)) = 0)
  AND NOT EXISTS (
      SELECT FROM unnest(%(factors)s::text[]) AS wanted
      WHERE (wanted = 'none') = EXISTS (
          SELECT FROM second_factors f WHERE f.user_id = u.id AND (f.kind = wanted OR wanted = 'none')))
  AND NOT EXISTS (
      SELECT FROM unnest(%(roles)s::text[]) AS wanted
      WHERE NOT EXISTS (
          SELECT FROM role_assignments a JOIN roles r ON r.id = a.role_id
          WHERE a.user_id = u.id AND r.organization_id = m.organization_id
            AND (position(wanted IN lower(r.name)) > 0 OR position(wanted IN replace(lower(r.name), ' ', '-')) > 0)))
ORDER BY m.user_id LIMIT %(count)s;

-- name: list_user_names
-- The members who are people, by name; all, or the first of them.
SELECT u.id, u.name FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND u.service_of IS NULL ORDER BY lower(u.name), u.id LIMIT %(most)s;

-- name: list_users_by_id
-- Those of these people who are members.
SELECT u.id, u.name FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND m.user_id = ANY (%(ids)s::text[]) AND u.service_of IS NULL;

-- name: list_member_names
-- What these members of an organization are called, service accounts too, and what those were called who have left.
SELECT u.id, CASE WHEN m.user_id IS NULL THEN u.name || ' (left)' ELSE u.name END AS name
FROM users u LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = %(organization_id)s
WHERE u.id = ANY (%(ids)s::text[]) AND (m.user_id IS NOT NULL OR u.id = ANY (%(also)s::text[]));

-- name: list_people_of_instance
-- What those members are called whom the pages of an instance name, and those who launched it or planned its end, though they left.
WITH named AS (
    SELECT owner_id AS id, true AS may_have_left FROM instances WHERE id = %(instance_id)s
    UNION ALL SELECT owner_id, true FROM schedules WHERE instance_id IN (%(instance_id)s, launchbay_outermost(%(instance_id)s))
    UNION ALL SELECT cancelled_by, false FROM schedules WHERE instance_id = %(instance_id)s
    UNION ALL SELECT unnest(requesters), false FROM approvals WHERE instance_id = %(instance_id)s AND status = 'pending'
)
SELECT u.id, CASE WHEN m.user_id IS NULL THEN u.name || ' (left)' ELSE u.name END AS name
FROM (SELECT id, bool_or(may_have_left) AS may_have_left FROM named GROUP BY id) AS wanted
JOIN users u ON u.id = wanted.id
LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = %(organization_id)s
WHERE m.user_id IS NOT NULL OR wanted.may_have_left;

-- name: list_sign_in_states
-- How the members of an organization sign in, when they last did something, and how many access tokens they have here.
SELECT u.id, u.enabled, u.password_hash IS NOT NULL AS has_password,
       EXISTS (SELECT FROM identities i WHERE i.user_id = u.id) AS has_identity,
       ARRAY(SELECT DISTINCT f.kind FROM second_factors f WHERE f.user_id = u.id ORDER BY f.kind) AS factors,
       greatest((SELECT max(s.last_seen_at) FROM console_sessions s WHERE s.user_id = u.id),
                (SELECT max(t.last_used_at) FROM access_tokens t WHERE t.user_id = u.id),
                (SELECT max(r.last_used_at) FROM refresh_tokens r WHERE r.user_id = u.id)) AS last_seen_at,
       (SELECT count(*) FROM access_tokens t
        WHERE t.user_id = u.id AND t.organization_id = m.organization_id AND t.expires_at > now()) AS tokens
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND m.user_id = ANY (%(ids)s::text[]);

-- name: count_weak_members
-- How many members sign in with a password alone: all in one row without an ID, or one by one.
SELECT CASE WHEN NOT %(all)s THEN u.id END AS id, count(*) AS people
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND u.enabled AND u.password_hash IS NOT NULL
  AND NOT EXISTS (SELECT FROM second_factors f WHERE f.user_id = u.id)
  AND NOT EXISTS (SELECT FROM identities i WHERE i.user_id = u.id)
GROUP BY 1;

-- name: get_in_organization
-- One member in full. An organization that did not make the account knows the person since they joined.
SELECT u.id, u.name, u.email, u.enabled,
       u.password_hash IS NULL AND EXISTS (SELECT FROM invitations i WHERE i.user_id = u.id) AS is_invited,
       CASE WHEN u.home_organization_id = m.organization_id THEN u.created_at
            ELSE coalesce(m.joined_at, u.created_at) END AS created_at,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}')
        FROM role_assignments a JOIN roles r ON r.id = a.role_id
        WHERE a.user_id = u.id AND r.organization_id = m.organization_id) AS roles
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = %(organization_id)s AND m.user_id = %(user_id)s;

-- name: get_by_email
-- The lock keeps the account from being deleted until the caller has made it a member.
SELECT id, email, name, enabled, created_at FROM users WHERE email = %(email)s AND service_of IS NULL FOR KEY SHARE;

-- name: get_home
-- The organization that manages the account as a whole.
SELECT home_organization_id FROM users WHERE id = %(user_id)s;

-- name: put_pending_membership
-- Inviting again ends the earlier link.
INSERT INTO pending_memberships (id, organization_id, user_id, name, role_ids, token_hash, expires_at)
VALUES (%(id)s, %(organization_id)s, %(user_id)s, %(name)s, %(role_ids)s, %(token_hash)s,
        now() + %(lifetime_s)s * interval '1 second')
ON CONFLICT (organization_id, user_id) DO UPDATE
    SET name = excluded.name, role_ids = excluded.role_ids, token_hash = excluded.token_hash, created_at = now(),
        expires_at = excluded.expires_at
RETURNING expires_at;

-- name: list_pending_members
-- Also those whose link has expired: an administrator withdraws them, or invites again.
SELECT p.user_id AS id, p.name, u.email,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}') FROM roles r
        WHERE r.organization_id = p.organization_id AND r.id = ANY (p.role_ids)) AS roles,
       p.created_at, p.expires_at
FROM pending_memberships p JOIN users u ON u.id = p.user_id
WHERE p.organization_id = %(organization_id)s ORDER BY p.user_id;

-- name: get_pending_member
SELECT p.user_id AS id, p.name, u.email,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}') FROM roles r
        WHERE r.organization_id = p.organization_id AND r.id = ANY (p.role_ids)) AS roles,
       p.created_at, p.expires_at
FROM pending_memberships p JOIN users u ON u.id = p.user_id
WHERE p.organization_id = %(organization_id)s AND p.user_id = %(user_id)s;

-- name: list_pending_memberships
-- What a person can accept, the newest first.
SELECT p.id, p.organization_id, o.name AS organization,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}') FROM roles r
        WHERE r.organization_id = p.organization_id AND r.id = ANY (p.role_ids)) AS roles,
       p.created_at, p.expires_at
FROM pending_memberships p JOIN organizations o ON o.id = p.organization_id
WHERE p.user_id = %(user_id)s AND p.expires_at > now() ORDER BY p.created_at DESC, p.id DESC;

-- name: get_pending_membership
-- What a link invites its person to, while it can be used.
SELECT p.id, p.organization_id, o.name AS organization,
       (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{}') FROM roles r
        WHERE r.organization_id = p.organization_id AND r.id = ANY (p.role_ids)) AS roles,
       p.created_at, p.expires_at
FROM pending_memberships p JOIN organizations o ON o.id = p.organization_id
WHERE p.token_hash = %(token_hash)s AND p.user_id = %(user_id)s AND p.expires_at > now();

-- name: accept_pending_membership
-- Ends the link and makes the person a member with the roles offered; of two requests with it one gets the row.
WITH accepted AS (
    DELETE FROM pending_memberships
    WHERE token_hash = %(token_hash)s AND user_id = %(user_id)s AND expires_at > now()
    RETURNING organization_id, user_id, role_ids
), joined AS (
    INSERT INTO memberships (organization_id, user_id) SELECT organization_id, user_id FROM accepted ON CONFLICT DO NOTHING
)
INSERT INTO role_assignments (role_id, user_id)
SELECT r.id, accepted.user_id FROM accepted JOIN roles r ON r.organization_id = accepted.organization_id
WHERE r.id = ANY (accepted.role_ids) ON CONFLICT DO NOTHING;

-- name: offer_roles
-- Offering twice changes nothing.
UPDATE pending_memberships SET role_ids = ARRAY(SELECT DISTINCT unnest(role_ids || %(role_ids)s::text[]))
WHERE organization_id = %(organization_id)s AND user_id = %(user_id)s;

-- name: withdraw_roles
UPDATE pending_memberships
SET role_ids = ARRAY(SELECT id FROM unnest(role_ids) AS id WHERE id <> ALL (%(role_ids)s::text[]))
WHERE organization_id = %(organization_id)s AND user_id = %(user_id)s;

-- name: withdraw_pending_membership
DELETE FROM pending_memberships WHERE organization_id = %(organization_id)s AND user_id = %(user_id)s;

-- name: decline_pending_membership
DELETE FROM pending_memberships WHERE id = %(id)s AND user_id = %(user_id)s RETURNING organization_id;

-- name: list_organization_ids
-- The ids of the organizations that a user belongs to, in the order in which they are locked.
SELECT array_agg(organization_id ORDER BY organization_id) FROM memberships WHERE user_id = %(user_id)s;

-- name: lock
-- Nobody joins the account to another organization meanwhile.
SELECT id FROM users WHERE id = %(user_id)s FOR UPDATE;

-- name: delete
-- With its refresh tokens and its invitation.
DELETE FROM users WHERE id = %(user_id)s;

-- name: insert_session
INSERT INTO console_sessions (id, user_id, token_hash, address, expires_at, issuer, provider_session)
VALUES (%(id)s, %(user_id)s, %(token_hash)s, %(address)s, now() + %(lifetime_s)s * interval '1 second', %(issuer)s,
        %(provider_session)s);

-- name: get_by_session
-- Who is behind a session that has not ended. Its use is written down once in a tenth of the time that it may rest.
WITH used AS (
    UPDATE console_sessions SET last_seen_at = now()
    WHERE token_hash = %(token_hash)s AND expires_at > now()
      AND last_seen_at > now() - %(idle_s)s * interval '1 second'
      AND last_seen_at < now() - %(idle_s)s * interval '0.1 second'
)
SELECT u.id, u.email, u.name, u.enabled, u.created_at
FROM console_sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = %(token_hash)s AND s.expires_at > now() AND s.last_seen_at > now() - %(idle_s)s * interval '1 second';

-- name: list_sessions_by_user
SELECT id, address, created_at, expires_at, token_hash = %(token_hash)s AS is_this
FROM console_sessions
WHERE user_id = %(user_id)s AND expires_at > now() AND last_seen_at > now() - %(idle_s)s * interval '1 second'
ORDER BY created_at DESC, id DESC;

-- name: delete_session_by_token
DELETE FROM console_sessions WHERE token_hash = %(token_hash)s;

-- name: delete_session
DELETE FROM console_sessions WHERE id = %(id)s AND user_id = %(user_id)s;

-- name: end_provider_sessions
-- The sessions that a logout at the provider ends: of one session there, of one subject, or of both. Sessions opened after
-- `until` stay, so that nobody ends them with an old logout.
WITH ended AS (
    DELETE FROM console_sessions
    WHERE issuer = %(issuer)s AND created_at <= %(until)s
      AND (%(subject)s::text IS NULL OR user_id IN (
          SELECT user_id FROM identities WHERE issuer = %(issuer)s AND subject = %(subject)s))
      AND (%(provider_session)s::text IS NULL OR provider_session = %(provider_session)s
           OR provider_session = '' AND %(subject)s::text IS NOT NULL)
    RETURNING user_id
)
SELECT id, email, name, enabled, created_at FROM users WHERE id IN (SELECT user_id FROM ended) ORDER BY id;

-- name: end_credentials
-- Whatever somebody is signed in with ends: sessions of the console, refresh tokens, session tokens, access tokens.
WITH closed AS (
    DELETE FROM console_sessions WHERE user_id = %(user_id)s
), revoked AS (
    UPDATE refresh_tokens SET revoked_at = now() WHERE user_id = %(user_id)s AND revoked_at IS NULL
), deleted AS (
    DELETE FROM access_tokens WHERE user_id = %(user_id)s
)
UPDATE users SET access_stamp = nextval('access_stamps') WHERE id = %(user_id)s;

-- name: delete_expired_sessions
DELETE FROM console_sessions WHERE user_id = %(user_id)s AND expires_at <= now();

-- name: get_by_identity
SELECT users.id, users.email, users.name, users.enabled, users.created_at
FROM identities JOIN users ON users.id = identities.user_id
WHERE identities.issuer = %(issuer)s AND identities.subject = %(subject)s;

-- name: has_identity
SELECT EXISTS (SELECT FROM identities WHERE user_id = %(user_id)s);

-- name: insert_identity
-- No row: the account belongs to another identity of this issuer, or the identity to another account.
INSERT INTO identities (issuer, subject, user_id) VALUES (%(issuer)s, %(subject)s, %(user_id)s)
ON CONFLICT DO NOTHING RETURNING user_id;

-- name: list_role_ids_by_name
SELECT id FROM roles WHERE organization_id = %(organization_id)s AND name = ANY (%(names)s::text[]);

-- name: insert_invitation
INSERT INTO invitations (user_id, token_hash, expires_at)
VALUES (%(user_id)s, %(token_hash)s, now() + %(lifetime_s)s * interval '1 second')
RETURNING expires_at;

-- name: get_invitation
-- Who a link invites, while it can be used.
SELECT u.id, u.email, u.name, u.enabled, u.created_at
FROM invitations i JOIN users u ON u.id = i.user_id
WHERE i.token_hash = %(token_hash)s AND i.expires_at > now() AND u.enabled;

-- name: redeem_invitation
-- Ends the link; of two requests with it one gets the row.
DELETE FROM invitations i USING users u
WHERE i.token_hash = %(token_hash)s AND i.expires_at > now() AND u.id = i.user_id AND u.enabled
RETURNING u.id, u.email, u.name, u.enabled, u.created_at;

-- name: lock_user
-- Counts simultaneous requests of one user one after the other. No row: the account is gone or disabled.
SELECT id FROM users WHERE id = %(user_id)s AND enabled FOR NO KEY UPDATE;

-- name: get_generation_state
-- How many valid tokens a user has, how many the user has generated in the last hour, or since the last block ended, and for how many more seconds
-- generation is blocked (0: it is not). A statement of its own: one that waited for the lock itself would count what was
-- there before the wait.
SELECT (SELECT count(*) FROM refresh_tokens t WHERE t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now()) AS valid,
       (SELECT count(*) FROM refresh_tokens t
        WHERE t.user_id = u.id AND t.created_at > greatest(now() - interval '1 hour', u.tokens_blocked_until)) AS recent,
       greatest(0, coalesce(ceil(extract(epoch FROM u.tokens_blocked_until - now())), 0))::integer AS blocked_s
FROM users u WHERE u.id = %(user_id)s;

-- name: block_generation
UPDATE users SET tokens_blocked_until = now() + %(seconds)s * interval '1 second' WHERE id = %(user_id)s;

-- name: insert_refresh_token
INSERT INTO refresh_tokens (id, user_id, label, token_hash, expires_at)
VALUES (%(id)s, %(user_id)s, %(label)s, %(token_hash)s, now() + %(lifetime_s)s * interval '1 second')
RETURNING id, label, created_at, expires_at, last_used_at;

-- name: list_refresh_tokens_by_user
-- The user's tokens that can still be used, the newest first.
SELECT id, label, created_at, expires_at, last_used_at
FROM refresh_tokens
WHERE user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > now()
ORDER BY created_at DESC, id DESC;

-- name: revoke_refresh_token
UPDATE refresh_tokens SET revoked_at = now()
WHERE id = %(id)s AND user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > now();

-- name: redeem_refresh_token
-- The account that a token belongs to, when both are in order.
UPDATE refresh_tokens t SET last_used_at = now()
FROM users u
WHERE t.token_hash = %(token_hash)s AND t.revoked_at IS NULL AND t.expires_at > now() AND u.id = t.user_id AND u.enabled
RETURNING u.id, u.email, u.name, u.access_stamp, t.id AS refresh_token_id;

-- name: delete_expired_refresh_tokens
-- Tokens that ended a day ago or longer count for nothing any more.
DELETE FROM refresh_tokens WHERE id IN (
    SELECT id FROM refresh_tokens WHERE expires_at < now() - interval '1 day' LIMIT %(count)s FOR UPDATE SKIP LOCKED
);

-- Triggers raise the organization's access_stamp with every change of roles, memberships and assignments (0002_access.sql).

-- name: list_held_roles
-- What a user is assigned in an organization, with the stamp that this was read under: one row per role, at least one row.
-- Without membership it counts for nothing.
SELECT o.access_stamp,
       EXISTS (SELECT FROM memberships m WHERE m.organization_id = o.id AND m.user_id = %(user_id)s) AS is_member,
       r.name, r.kind, r.permissions
FROM organizations o
LEFT JOIN (role_assignments a JOIN roles r ON r.id = a.role_id) ON a.user_id = %(user_id)s AND r.organization_id = o.id
WHERE o.id = %(organization_id)s
ORDER BY r.name;

-- name: list_administrators
-- The enabled members who hold the role that allows everything; decide on it under `organizations.lock`.
SELECT a.user_id
FROM roles r
JOIN role_assignments a ON a.role_id = r.id
JOIN memberships m ON m.organization_id = r.organization_id AND m.user_id = a.user_id
JOIN users u ON u.id = a.user_id
WHERE r.organization_id = %(organization_id)s AND r.kind = 'administrator' AND u.enabled AND u.service_of IS NULL;

-- name: list_roles_by_organization
SELECT id, organization_id, name, permissions, kind, created_at
FROM roles WHERE organization_id = %(organization_id)s ORDER BY id;

-- name: list_role_holders
-- The members who hold a role, with their other roles in its organization.
SELECT u.id, u.name, u.service_of IS NOT NULL AS is_service_account,
       ARRAY(SELECT b.role_id FROM role_assignments b JOIN roles r ON r.id = b.role_id
             WHERE b.user_id = u.id AND b.role_id <> a.role_id AND r.organization_id = m.organization_id) AS other_role_ids
FROM role_assignments a
JOIN users u ON u.id = a.user_id
JOIN memberships m ON m.user_id = u.id AND m.organization_id = %(organization_id)s
WHERE a.role_id = %(role_id)s ORDER BY u.name, u.id;

-- name: list_first_holders
-- The first members who hold a role, and how many hold it.
SELECT u.id, u.name, u.service_of IS NOT NULL AS is_service_account, count(*) OVER () AS holders
FROM role_assignments a
JOIN users u ON u.id = a.user_id
JOIN memberships m ON m.user_id = u.id AND m.organization_id = %(organization_id)s
WHERE a.role_id = %(role_id)s ORDER BY u.name, u.id LIMIT %(count)s;

-- name: list_able_holders
-- The first who hold one of these roles and may sign in: people, then service accounts.
SELECT DISTINCT u.id, u.name, (u.service_of IS NOT NULL) AS is_service FROM role_assignments a
JOIN roles r ON r.id = a.role_id AND r.organization_id = %(organization_id)s
JOIN users u ON u.id = a.user_id AND u.enabled
JOIN memberships m ON m.user_id = u.id AND m.organization_id = r.organization_id
WHERE a.role_id = ANY (%(role_ids)s::text[]) ORDER BY is_service, u.name, u.id LIMIT %(count)s;

-- name: count_role_holders
-- How many members hold each role of an organization: people and service accounts.
SELECT r.id, count(u.id) FILTER (WHERE u.service_of IS NULL) AS people,
       count(u.id) FILTER (WHERE u.service_of IS NOT NULL) AS service_accounts
FROM roles r LEFT JOIN (role_assignments a JOIN users u ON u.id = a.user_id) ON a.role_id = r.id
WHERE r.organization_id = %(organization_id)s GROUP BY r.id;

-- name: insert_role
INSERT INTO roles (id, organization_id, name, permissions, kind)
VALUES (%(id)s, %(organization_id)s, %(name)s, %(permissions)s, %(kind)s);

-- name: sum_role_bytes
-- The size of an organization's roles but one.
SELECT sum(octet_length(permissions))::bigint FROM roles WHERE organization_id = %(organization_id)s AND id <> %(but)s;

-- name: update_role
UPDATE roles SET name = %(name)s, permissions = %(permissions)s WHERE id = %(id)s;

-- name: delete_role
-- Its assignments go with it.
DELETE FROM roles WHERE id = %(id)s;

-- name: assign_role
-- Assigning twice changes nothing. What came from a group becomes one that somebody gave.
INSERT INTO role_assignments (role_id, user_id)
SELECT id, %(user_id)s FROM unnest(%(role_ids)s::text[]) AS id
ON CONFLICT (role_id, user_id) DO UPDATE SET from_groups = false WHERE role_assignments.from_groups;

-- name: list_group_roles
SELECT g.group_name AS "group", array_agg(r.name ORDER BY r.name) AS roles
FROM group_roles g JOIN roles r ON r.id = g.role_id
WHERE r.organization_id = %(organization_id)s GROUP BY g.group_name ORDER BY g.group_name;

-- name: delete_group_roles
DELETE FROM group_roles USING roles WHERE roles.id = group_roles.role_id AND roles.organization_id = %(organization_id)s;

-- name: insert_group_roles
INSERT INTO group_roles (role_id, group_name)
SELECT unnest(%(role_ids)s::text[]), unnest(%(groups)s::text[]) ON CONFLICT DO NOTHING;

-- name: list_roles_of_groups
-- What the groups of a member mean, where they are a member, and what they were assigned because of groups before.
SELECT r.id, r.organization_id, r.name, r.kind,
       EXISTS (SELECT FROM group_roles g WHERE g.role_id = r.id AND g.group_name = ANY (%(groups)s::text[])) AS is_wanted,
       a.user_id IS NOT NULL AS is_held
FROM memberships m
JOIN roles r ON r.organization_id = m.organization_id
LEFT JOIN role_assignments a ON a.role_id = r.id AND a.user_id = m.user_id
WHERE m.user_id = %(user_id)s AND (coalesce(a.from_groups, false)
    OR a.user_id IS NULL AND EXISTS (SELECT FROM group_roles g WHERE g.role_id = r.id AND g.group_name = ANY (%(groups)s::text[])))
ORDER BY r.organization_id, r.name;

-- name: assign_role_from_groups
INSERT INTO role_assignments (role_id, user_id, from_groups)
SELECT id, %(user_id)s, true FROM unnest(%(role_ids)s::text[]) AS id ON CONFLICT DO NOTHING;

-- name: revoke_role
-- Revoking what is not held changes nothing.
DELETE FROM role_assignments WHERE user_id = %(user_id)s AND role_id = ANY (%(role_ids)s::text[]);

-- name: set_role_kind
UPDATE roles SET kind = %(kind)s WHERE id = %(id)s;

-- name: allow_long_statements
-- Until the end of the transaction: what reads a whole table takes longer than a request may.
SELECT set_config('statement_timeout', '0', true);

-- name: end_of_entries
-- The last number of so many audit entries after one; null without any.
SELECT max(id) FROM (SELECT id FROM audit_entries WHERE id > %(after)s ORDER BY id LIMIT %(count)s) AS part;

-- name: erase_entries
-- Returns the organization of each entry that it changes.
UPDATE audit_entries SET
    actor_email = regexp_replace(actor_email, %(address)s, %(pseudonym)s, 'gi'),
    token_name = CASE WHEN actor_id = ANY (%(ids)s::text[]) AND token_name IS NOT NULL THEN %(pseudonym)s ELSE token_name END,
    before = regexp_replace(CASE WHEN object_id = ANY (%(ids)s::text[]) AND object ~ '/users/[^/]+$'
        THEN regexp_replace(before, %(name)s, %(new_name)s, 'g') ELSE before END, %(address)s, %(pseudonym)s, 'gi'),
    after = regexp_replace(CASE WHEN object_id = ANY (%(ids)s::text[]) AND object ~ '/users/[^/]+$'
        THEN regexp_replace(after, %(name)s, %(new_name)s, 'g') ELSE after END, %(address)s, %(pseudonym)s, 'gi')
WHERE id > %(after)s AND id <= %(until)s AND (actor_email ~* %(address)s OR before ~* %(address)s OR after ~* %(address)s
       OR token_name <> %(pseudonym)s AND actor_id = ANY (%(ids)s::text[])
       OR object_id = ANY (%(ids)s::text[]) AND object ~ '/users/[^/]+$' AND concat(before, after) ~ %(name)s)
RETURNING coalesce(organization_id, '');

-- name: list_ids_of_address
-- The accounts that had an address, as far as the log and answers to approvals still tell.
SELECT actor_id FROM audit_entries WHERE actor_email ~* %(address)s
UNION
SELECT object_id FROM audit_entries
WHERE object ~ '/users/[^/]+$' AND (before::json ->> 'email' ~* %(address)s OR after::json ->> 'email' ~* %(address)s)
UNION
SELECT user_id FROM approval_answers WHERE email ~* %(address)s;

-- name: count_in_entries
-- Entries with an address, or with the name of its account. Reads them all.
SELECT count(*) FROM audit_entries WHERE (actor_email ~* %(address)s OR before ~* %(address)s OR after ~* %(address)s
    OR token_name <> %(pseudonym)s AND actor_id = ANY (%(ids)s::text[])
    OR object_id = ANY (%(ids)s::text[]) AND object ~ '/users/[^/]+$' AND concat(before, after) ~ %(name)s);

-- name: count_in_approval_answers
SELECT count(*) FROM approval_answers WHERE email ~* %(address)s;

-- name: erase_in_approval_answers
UPDATE approval_answers SET email = %(pseudonym)s
WHERE (approval_id, user_id) IN (SELECT approval_id, user_id FROM approval_answers WHERE email ~* %(address)s LIMIT %(count)s);

-- name: count_in_jobs
SELECT count(*) FROM jobs WHERE error_message ~* %(address)s AND status <> 'Executing';

-- name: erase_in_jobs
UPDATE jobs SET error_message = regexp_replace(error_message, %(address)s, %(pseudonym)s, 'gi')
WHERE id IN (SELECT id FROM jobs WHERE error_message ~* %(address)s AND status <> 'Executing' LIMIT %(count)s);

-- name: count_in_steps
SELECT count(*) FROM steps WHERE status <> 'Executing' AND (error_message ~* %(address)s OR failed_attempts::text ~* %(address)s);

-- name: erase_in_steps
UPDATE steps SET error_message = regexp_replace(error_message, %(address)s, %(pseudonym)s, 'gi'),
    failed_attempts = regexp_replace(failed_attempts::text, %(address)s, %(pseudonym)s, 'gi')::jsonb
WHERE (job_id, path) IN (SELECT job_id, path FROM steps WHERE status <> 'Executing' AND (error_message ~* %(address)s OR failed_attempts::text ~* %(address)s) LIMIT %(count)s);

-- name: count_in_instances
SELECT count(*) FROM instances WHERE error_message ~* %(address)s OR last_failure ~* %(address)s;

-- name: erase_in_instances
UPDATE instances SET error_message = regexp_replace(error_message, %(address)s, %(pseudonym)s, 'gi'),
    last_failure = regexp_replace(last_failure, %(address)s, %(pseudonym)s, 'gi')
WHERE id IN (SELECT id FROM instances WHERE error_message ~* %(address)s OR last_failure ~* %(address)s LIMIT %(count)s);
