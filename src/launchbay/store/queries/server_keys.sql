-- name: get
-- The key of this name.
SELECT value FROM server_keys WHERE name = %(name)s;

-- name: propose
-- Keeps the key unless one of this name is there. Whoever comes first decides for all servers; read with `get` after.
INSERT INTO server_keys (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT DO NOTHING;
