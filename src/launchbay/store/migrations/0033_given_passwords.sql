-- Who chose a password: 'given' by whoever made the account, and good for one sign-in; 'replaced' by the person after that,
-- or set with an invitation link, which others have seen; 'own' where nobody else had to do with it. The passwords of older
-- versions count as own, so that nobody is kept out.

ALTER TABLE users ADD COLUMN password_origin text NOT NULL DEFAULT 'own';
