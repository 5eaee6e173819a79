-- E-mail addresses in the one form of model/email_address.py: printable ASCII in lower case, so that nothing depends on how
-- the database and Python fold other characters.
--
-- A row that cannot be brought over (other characters, or ASCII that is the same as an older account's) gets the address
-- <id>@invalid, and its old address goes before its name. It keeps its roles, links, tokens and password: the owner signs in
-- with the new address, or an administrator removes the account and invites the owner under an address that is allowed.

DROP INDEX users_email;
WITH known AS (
    SELECT id, lower(email COLLATE "C") AS canonical,
           email COLLATE "C" !~ '^[!-9;-?A-~]+@[!-9;-?A-~]+$' OR length(email) > 254 AS is_refused,
           row_number() OVER (PARTITION BY lower(email COLLATE "C") ORDER BY created_at, id) AS number
    FROM users
)
UPDATE users SET email = CASE WHEN is_refused OR number > 1 THEN users.id || '@invalid' ELSE canonical END,
                 name = CASE WHEN is_refused OR number > 1 THEN left(users.email || ' ' || name, 255) ELSE name END
FROM known WHERE known.id = users.id AND (is_refused OR number > 1 OR users.email <> canonical);
CREATE UNIQUE INDEX users_email ON users (email);
ALTER TABLE users ADD CONSTRAINT users_email_canonical
    CHECK (email COLLATE "C" ~ '^[!-9;-?\[-~]+@[!-9;-?\[-~]+$' AND length(email) <= 254);

-- Servers of older versions write addresses as they were typed.
CREATE FUNCTION canonical_address() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.email := lower(NEW.email COLLATE "C");
    RETURN NEW;
END $$;
CREATE TRIGGER users_canonical_address BEFORE INSERT OR UPDATE OF email ON users
    FOR EACH ROW EXECUTE FUNCTION canonical_address();
