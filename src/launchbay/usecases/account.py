"""What callers change about their own account (conformance.md, "Beyond the reference")."""

from launchbay.auth import permissions
from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.tokens import GeneratedToken, Session
from launchbay.errors import BadRequest, NotAuthenticated, TooManyRequests
from launchbay.limits import REFRESH_TOKEN_LABEL_CHARS
from launchbay.store import users
from launchbay.store.users import RedeemedTokenRow, RefreshTokenRow
from launchbay.usecases.context import AppContext, Context


async def change_password(ctx: Context, current: str, new: str) -> None:
    """Replace the caller's password and end all their sessions and tokens.

    A session token alone is not enough.

    Raises BadRequest when the current one is wrong or the new one is empty or too long, and TooManyRequests after
    several wrong ones: they count as attempts to sign in.
    """
    async with ctx.read() as work:
        caller = await work.lookup.caller()
    try:
        verified, _ = await ctx.app.sign_in.verify_password(BasicCredentials(caller.email, current), ctx.actor.address)
        password_hash = await ctx.app.passwords.hash_new(new, caller.email)
        async with ctx.begin() as work:
            # What was verified may have changed since; the lookup compares, as it does for every caller.
            await ctx.app.lookups.bind(work.connection, verified).caller()
            await users.set_password(work.connection, id=caller.id, password_hash=password_hash)
            await users.end_credentials(work.connection, user_id=caller.id)
            await work.audit_own(
                "change_password", permissions.user(caller.id), after={"password": work.fingerprint(password_hash)}
            )
    except NotAuthenticated as error:
        raise BadRequest(
            "currentPassword: this is not the current password of the account.", code="WrongPassword"
        ) from error
    ctx.app.sign_in.invalidate(caller.id)


async def replace_password(app: AppContext, credentials: BasicCredentials, new: str, address: str) -> None:
    """Replace a password that somebody else chose.

    Raises as `change_password`, and NotAuthenticated for wrong credentials.
    """
    actor, _ = await app.sign_in.verify_password(credentials, address)
    if new == credentials.password:
        raise BadRequest("The new password is the old one.", "Choose another one.", code="WeakPassword")
    await change_password(Context(app, actor), credentials.password, new)


async def sign_out_everywhere(ctx: Context) -> None:
    """End all the caller's sessions of the console, refresh tokens and session tokens."""
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        await users.end_credentials(work.connection, user_id=caller.id)
        await work.audit_own("sign_out_everywhere", permissions.user(caller.id))
    ctx.app.sign_in.invalidate(caller.id)


async def list_tokens(ctx: Context) -> list[RefreshTokenRow]:
    """Return the caller's usable refresh tokens, the newest first; never their values."""
    async with ctx.read() as work:
        caller = await work.lookup.caller()
        return await users.list_refresh_tokens_by_user(work.connection, user_id=caller.id)


async def revoke_token(ctx: Context, token_id: str) -> None:
    """End one of the caller's refresh tokens.

    Raises NotFound; somebody else's is not found either.
    """
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        await ctx.app.refresh_tokens.revoke(work.connection, caller.id, token_id)
        await work.audit_own("revoke_token", _path(caller.id, token_id))


async def generate_token(ctx: Context, label: str) -> GeneratedToken:
    """Make a refresh token for the caller, who has just signed in.

    Raises BadRequest for a label that is too long, and TooManyRequests when there were too many: then no more are made
    for a while.
    """
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        label = label.strip()
        if len(label) > REFRESH_TOKEN_LABEL_CHARS or not label.isprintable():
            raise BadRequest(
                f"A token's label has at most {REFRESH_TOKEN_LABEL_CHARS} printable characters.",
                code="InvalidName",
                field="label",
            )
        generated = await ctx.app.refresh_tokens.generate(work.connection, caller.id, label)
        if isinstance(generated, GeneratedToken):
            await work.audit_own(
                "generate_token",
                _path(caller.id, generated.row.id),
                after={"label": label, "token": work.fingerprint(generated.token)},
            )
    if isinstance(generated, TooManyRequests):
        raise generated
    return generated


async def exchange_token(app: AppContext, refresh_token: str, address: str) -> Session:
    """Return a session token for a refresh token.

    Raises NotAuthenticated for one that is unknown, revoked or expired and for a disabled account, TooManyRequests
    after many wrong ones from the address.
    """
    try:
        user = await _redeem(app, refresh_token, address)
    except NotAuthenticated:
        await app.throttle.wrong_token(refresh_token, address)
        raise
    return await app.sessions.issue(user)


async def _redeem(app: AppContext, refresh_token: str, address: str) -> RedeemedTokenRow:
    async with app.database.transaction() as connection:
        user = await app.refresh_tokens.redeem(connection, refresh_token)
        await app.audit.record_own(
            connection,
            Actor(user.id, user.email, user.name, address, Method.EXCHANGE),
            "exchange_token",
            str(permissions.user(user.id)),
            after={"token": app.audit.fingerprint(refresh_token)},
        )
    return user


def _path(user_id: str, token_id: str) -> str:
    return f"{permissions.user(user_id)}/tokens/{token_id}"
