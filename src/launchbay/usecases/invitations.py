"""Invitations: a link, shown once, by which a new user sets the first password; it works once, and for some days."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Method
from launchbay.errors import NotFound
from launchbay.limits import INVITATION_LIFETIME_DAYS
from launchbay.store import users
from launchbay.store import users as store
from launchbay.store.database import Connection
from launchbay.store.users import User
from launchbay.usecases.desk import Desk

_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all


@dataclass(frozen=True, slots=True)
class Invitation:
    """What the link is made of, here and nowhere else in clear, and when it ends."""

    token: str = field(repr=False)
    expires_at: datetime


async def invite(connection: Connection, user_id: str) -> Invitation:
    """Make an invitation for a new account, in the transaction that makes the account."""
    token = secrets.token_urlsafe(_RANDOM_BYTES)
    expires_at = await store.invitations_insert(
        connection, user_id=user_id, token_hash=_hash(token), lifetime_s=INVITATION_LIFETIME_DAYS * 24 * 3600
    )
    assert expires_at is not None, "an insert answers its row"
    return Invitation(token, expires_at)


async def read_invitation(desk: Desk, token: str) -> User:
    """Return whom a link invites. Raises NotFound when it was used, has expired, or never was."""
    if len(token) > _LONGEST:
        raise _invalid()
    async with desk.database.connection() as connection:
        user = await store.invitations_find(connection, token_hash=_hash(token))
    if user is None:
        raise _invalid()
    return user


async def accept_invitation(desk: Desk, token: str, password: str, address: str) -> User:
    """Set the first password and end the link. Raises NotFound as `read_invitation`, BadRequest for the password."""
    await read_invitation(desk, token)  # nobody makes us hash without a link
    password_hash = await desk.passwords.hash(password)
    async with desk.database.transaction() as connection:
        user = await store.use(connection, token_hash=_hash(token))
        if user is None:
            raise _invalid()
        await users.set_password(connection, id=user.id, password_hash=password_hash)
        await desk.audit.record_own(
            connection,
            Actor(user.id, user.email, user.name, address, Method.INVITATION),
            "accept_invitation",
            str(permissions.user(user.id)),
            after={"password": desk.audit.fingerprint(password_hash)},
        )
    return user


def _invalid() -> NotFound:
    return NotFound(
        "This invitation was used already, has expired, or never existed.",
        "Ask who invited you for a new one.",
        code="InvalidInvitation",
    )


def _hash(token: str) -> bytes:
    """Return what is stored; a plain hash is enough for a token of 256 random bits."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
