"""Who calls: what authentication hands to everything behind it."""

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How the caller proved who they are."""

    BASIC = "basic"
    BEARER = "bearer"
    EXCHANGE = "exchange"  # a refresh token, for a session token
    INVITATION = "invitation"  # the link that sets the first password
    OPENID = "openid"  # the OpenID Connect provider
    CONSOLE = "console"  # a session of the console
    ENGINE = "engine"  # no caller: a duty of the engine, in the audit log alone


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller whose credentials were verified. E-mail and name are labels; every decision rests on `user_id`.

    `stamp` is the user's `access_stamp` under which the credentials were verified, or None where they do not depend on
    the password. The lookup compares it with the stored one in the query that it makes anyway, so a verification kept
    in memory ends with the very next request after a change, without a query of its own.
    """

    user_id: str
    email: str
    name: str
    address: str
    method: Method
    stamp: int | None = None
