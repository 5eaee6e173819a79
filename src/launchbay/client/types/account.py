"""Types of the API: account. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class TokenItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refresh token, never its value. Times are milliseconds since the Unix epoch."""

    id: str
    label: str
    created_at: int
    expires_at: int
    last_used_at: int | None


class SessionToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session token, and for how many seconds it is good."""

    jwt_bearer: str
    expires_in: int
