"""What callers change about their own account (api-decisions, "Beyond the reference")."""

from launchbay.auth import permissions
from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.permissions import Actor
from launchbay.errors import BadRequest, NotAuthenticated
from launchbay.store import users
from launchbay.usecases.desk import Desk


async def change_password(desk: Desk, actor: Actor, current: str, new: str) -> None:
    """Replace the caller's password, which ends their sessions of the console; a session token alone is not enough.

    Raises BadRequest when the current one is wrong or the new one is empty or too long, and TooManyRequests after
    several wrong ones: they count as attempts to sign in.
    """
    async with desk.database.connection() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
    try:
        verified = await desk.sign_in.authenticate(BasicCredentials(caller.email, current), actor.address)
        password_hash = await desk.passwords.hash(new)
        async with desk.database.transaction() as connection:
            # What was verified may have been changed meanwhile; the look-up compares, as it does for every caller.
            await desk.lookups.on(connection, verified).caller()
            await users.set_password(connection, id=caller.id, password_hash=password_hash)
            await users.end_all(connection, user_id=caller.id)
            await desk.audit.record_own(
                connection,
                actor,
                "change_password",
                str(permissions.user(caller.id)),
                after={"password": desk.audit.fingerprint(password_hash)},
            )
    except NotAuthenticated as error:
        raise BadRequest(
            "currentPassword: this is not the current password of the account.", code="WrongPassword"
        ) from error
    desk.sign_in.forget(caller.id)
