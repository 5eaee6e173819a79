-- Who somebody is at the OpenID Connect provider. The first sign-in finds the account by a verified e-mail address; from then on the
-- subject counts, which stays when addresses change hands.

CREATE TABLE identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (issuer, subject),
    -- An account is one person's: somebody else who gets their address later does not get their account.
    UNIQUE (issuer, user_id)
);
CREATE INDEX identities_user ON identities (user_id);
