"""Sessions of the console: opened by signing in, kept in a cookie, ended by signing out (docs/decisions/0087)."""

import secrets
from hashlib import sha256

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.tokens import Session
from launchbay.errors import NotAuthenticated, NotFound
from launchbay.ids import is_id, new_id
from launchbay.store import users as store
from launchbay.store.users import ConsoleSessionRow
from launchbay.usecases.desk import Desk

_PREFIX = "lbc_"  # tells people and secret scanners what they have found
_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all


async def open_session(desk: Desk, actor: Actor) -> Session:
    """Return a new session for the caller, who has just signed in. Raises NotAuthenticated for a disabled account."""
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    async with desk.database.transaction() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        await store.forget_ended(connection, user_id=caller.id)
        await store.console_sessions_insert(
            connection,
            id=new_id(),
            user_id=caller.id,
            token_hash=_hash(token),
            address=actor.address,
            lifetime_s=desk.session_lifetime_s,
        )
        await desk.audit.record_own(connection, actor, "open_session", str(permissions.user(caller.id)))
    return Session(token, desk.session_lifetime_s)


async def caller_of_session(desk: Desk, token: str, address: str) -> Actor:
    """Return who is behind a session. Raises NotAuthenticated for one that has ended, or never was.

    Whether the account is enabled is for the lookup to see.
    """
    user = None
    if token.startswith(_PREFIX) and len(token) <= _LONGEST and token.isascii():
        async with desk.database.connection() as connection:
            user = await store.user_of(connection, token_hash=_hash(token))
    if user is None:
        raise NotAuthenticated("The session has ended.", "Sign in again.")
    return Actor(user.id, user.email, user.name, address, Method.CONSOLE)


async def close_session(desk: Desk, actor: Actor, token: str) -> None:
    """End the session, wherever its token has got to."""
    async with desk.database.transaction() as connection:
        if await store.end_by_token(connection, token_hash=_hash(token)):
            await desk.audit.record_own(connection, actor, "close_session", str(permissions.user(actor.user_id)))


async def list_sessions(desk: Desk, actor: Actor, token: str) -> list[ConsoleSessionRow]:
    """Return the caller's sessions, the newest first; the one with this token is marked."""
    async with desk.database.connection() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        return await store.of_user(connection, user_id=caller.id, token_hash=_hash(token))


async def close_other_session(desk: Desk, actor: Actor, session_id: str) -> None:
    """End a session of the caller's, in another browser for example. Raises NotFound."""
    async with desk.database.transaction() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        if not is_id(session_id) or not await store.end_by_id(connection, id=session_id, user_id=caller.id):
            raise NotFound("You have no such session; it may have ended.", "Look at the list of your sessions.")
        await desk.audit.record_own(connection, actor, "close_session", str(permissions.user(caller.id)))


def _hash(token: str) -> bytes:
    """Return what is stored; a plain hash is enough for a token of 256 random bits."""
    return sha256(token.encode("utf-8", "replace")).digest()
