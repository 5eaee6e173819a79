"""Second factors of accounts with a password, and organizations that demand one.

The correct password gives a token for a few minutes, the second step. With it, a code or a passkey ends the sign-in,
or a new factor is set up. Who has a factor, or belongs to an organization that demands one, gets nothing for a password
alone. Identity providers have their own second factors, so accounts without a password need none here.
"""

import secrets
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from launchbay.auth import permissions, second_factors
from launchbay.auth.authentication import BasicCredentials, SecondFactor
from launchbay.auth.permissions import Actor, Method, Permission
from launchbay.auth.second_factors import RelyingParty
from launchbay.auth.tokens import hash_token
from launchbay.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests
from launchbay.ids import is_id, new_id
from launchbay.limits import NAME_CHARS, SECOND_FACTORS, SECOND_STEP_S
from launchbay.store import second_factors as store
from launchbay.store.database import Connection
from launchbay.store.second_factors import FactorKind, FactorRow, Purpose, StepRow
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.sign_in import require_own_password

_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all


def second_factor_purpose(factor_id: str) -> str:
    return f"second factor {factor_id}"


@dataclass(frozen=True, slots=True)
class SecondStep:
    """The token of a sign-in whose password was correct.

    With `must_set_up`, the account has no factor yet.
    """

    token: str = field(repr=False)
    must_set_up: bool


@dataclass(frozen=True, slots=True)
class SetUp:
    """Who has set a factor up, and the recovery codes of the first one.

    They are shown once.
    """

    actor: Actor
    recovery_codes: list[str] = field(repr=False)


class OwnFactors(NamedTuple):
    """The caller's factors, and how many recovery codes are left."""

    rows: list[FactorRow]
    recovery_codes: int


async def begin_sign_in(app: AppContext, credentials: BasicCredentials, address: str) -> Actor | SecondStep:
    """Return the caller, or the next step if the password alone is not enough.

    Raises as `BasicAuthentication`, and NotAllowed for a password that must be replaced first.
    """
    actor, needed = await app.sign_in.verify_password(credentials, address)
    async with app.database.connection() as connection:
        await require_own_password(connection, actor.user_id)
    if needed is SecondFactor.NOT_NEEDED:
        return actor
    must_set_up = needed is SecondFactor.MISSING
    token = await _begin_step(app, actor, Purpose.SET_UP if must_set_up else Purpose.SIGN_IN)
    return SecondStep(token, must_set_up)


async def sign_in_with_code(app: AppContext, token: str, code: str, address: str) -> Actor:
    """Return who has entered the password and now a code, or a recovery code.

    Raises NotAuthenticated for a wrong code and a second step that has ended, TooManyRequests after wrong codes.
    """
    user = await read_step(app, token, Purpose.SIGN_IN)
    await _count_attempt(app, user.id)
    async with app.database.transaction() as connection:
        used = await _use_code(app, connection, user, code)
        if not used:
            raise NotAuthenticated(
                "The code is wrong, or was used already.", "Enter the next one.", code="WrongCode", field="code"
            )
        actor = await _end_step(connection, token, user, address)
        if used == _RECOVERY:
            left = await store.count_recovery_codes(connection, user_id=user.id)
            path = str(permissions.user(user.id))
            await app.audit.record_own(connection, actor, "use_recovery_code", path, after={"left": left})
    return actor


async def sign_in_with_passkey(
    app: AppContext, token: str, response: str, party: RelyingParty | None, address: str
) -> Actor:
    """Return who has entered the password and now used a passkey. Raises NotAuthenticated."""
    user = await read_step(app, token, Purpose.SIGN_IN)
    async with app.database.connection() as connection:
        factors = await store.list_by_user(connection, user_id=user.id)
    wanted = second_factors.credential_id(response)
    factor = next((row for row in factors if row.credential_id == wanted), None)
    if factor is None or factor.public_key is None or party is None:
        raise NotAuthenticated("This passkey does not belong to the account.", "Use another one.", code="WrongCode")
    count = await second_factors.verify_use(party, token, response, factor.public_key, factor.used_count)
    async with app.database.transaction() as connection:
        if not await store.use(connection, id=factor.id, count=count):
            raise NotAuthenticated("The passkey was used twice, or copied.", "Try again.", code="WrongCode")
        return await _end_step(connection, token, user, address)


async def read_step(app: AppContext, token: str, purpose: Purpose) -> StepRow:
    """Return who has entered the password.

    Raises NotAuthenticated when the time is over, or for another token.
    """
    user = None
    if len(token) <= _LONGEST and token.isascii():
        async with app.database.connection() as connection:
            user = await store.get_step(connection, token_hash=hash_token(token), purpose=purpose)
    if user is None:
        raise NotAuthenticated("The sign-in took too long, or has ended.", "Begin again.", code="SignInFailed")
    return user


async def passkeys_of(app: AppContext, user_id: str) -> list[bytes]:
    """Return the IDs of a user's passkeys, for the options of the browser."""
    async with app.database.connection() as connection:
        rows = await store.list_by_user(connection, user_id=user_id)
    return [row.credential_id for row in rows if row.credential_id is not None]


async def list_own(ctx: Context) -> OwnFactors:
    """Return the caller's factors, the oldest first."""
    async with ctx.read() as work:
        caller = await work.lookup.caller()
        rows = await store.list_by_user(work.connection, user_id=caller.id)
        return OwnFactors(rows, await store.count_recovery_codes(work.connection, user_id=caller.id) or 0)


async def begin_set_up(ctx: Context, password: str) -> str:
    """Return the token with which the caller sets up a factor.

    Raises BadRequest for a wrong password.
    """
    await require_password(ctx, password)
    return await _begin_step(ctx.app, ctx.actor, Purpose.SET_UP)


async def set_up_totp(
    app: AppContext, token: str, code: str, address: str, *, name: str = "", session: str = ""
) -> SetUp:
    """Add the application that shows this code.

    `session` is the console session that continues; others end. Raises NotAuthenticated for a wrong code.
    """
    user = await read_step(app, token, Purpose.SET_UP)
    await _count_attempt(app, user.id)
    secret = second_factors.totp_secret(token)
    step = second_factors.totp_step(secret, code, app.clock.now().timestamp())
    if step is None:
        raise NotAuthenticated(
            "The code is wrong.",
            "Check the clock of the device, and enter the code that it shows.",
            code="WrongCode",
            field="code",
        )
    factor_id = new_id()
    columns = {
        "secret": app.secret_key.seal(secret, second_factor_purpose(factor_id)),
        "credential_id": None,
        "public_key": None,
        "used_count": step,
    }
    async with app.database.transaction() as connection:
        actor = await _end_step(connection, token, user, address)
        name = _named(name, "Authenticator app")
        codes = await _add(app, connection, actor, session, id=factor_id, kind=FactorKind.TOTP, name=name, **columns)
        await store.forget_attempts(connection, user_id=user.id)
    app.sign_in.invalidate(user.id)
    return SetUp(replace(actor, stamp=None), codes)  # the stamp has just been raised


async def set_up_passkey(
    app: AppContext,
    token: str,
    response: str,
    party: RelyingParty | None,
    address: str,
    *,
    name: str = "",
    session: str = "",
) -> SetUp:
    """Add the passkey that the browser has made.

    Raises NotAuthenticated for a response that is not the answer to this set-up.
    """
    user = await read_step(app, token, Purpose.SET_UP)
    if party is None:
        raise BadRequest("Passkeys need a server with a name.", "Open the console by its host name.")
    passkey = await second_factors.verify_creation(party, token, response)
    columns = {
        "secret": None,
        "credential_id": passkey.credential_id,
        "public_key": passkey.public_key,
        "used_count": passkey.count,
    }
    async with app.database.transaction() as connection:
        actor = await _end_step(connection, token, user, address)
        name = _named(name, "Passkey")
        codes = await _add(app, connection, actor, session, id=new_id(), kind=FactorKind.PASSKEY, name=name, **columns)
    app.sign_in.invalidate(user.id)
    return SetUp(replace(actor, stamp=None), codes)  # the stamp has just been raised


async def remove(ctx: Context, factor_id: str, password: str, session: str) -> None:
    """Take one of the caller's factors away, and end their other sessions.

    Raises BadRequest for a wrong password, and for the last factor while an organization demands one; NotFound.
    """
    await require_password(ctx, password)
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        rows = await store.list_by_user(work.connection, user_id=caller.id)
        factor = next((row for row in rows if row.id == factor_id), None)
        if factor is None or not await store.delete(work.connection, id=factor_id, user_id=caller.id):
            raise NotFound("You have no such second factor.", "Look at the list of your second factors.")
        if len(rows) == 1:
            if await store.is_required(work.connection, user_id=caller.id):
                raise BadRequest(
                    "One of your organizations demands a second factor, and this is the last one.",
                    "Add another one first.",
                    code="LastSecondFactor",
                )
            await store.delete_recovery_codes(work.connection, user_id=caller.id)
        await _end_other_sessions(work.connection, caller.id, session)
        before = {"kind": factor.kind, "name": factor.name}
        await work.audit_own("remove_second_factor", _path(caller.id, factor_id), before)
    ctx.app.sign_in.invalidate(ctx.actor.user_id)


async def renew_recovery_codes(ctx: Context, password: str) -> list[str]:
    """Replace the caller's recovery codes.

    Raises BadRequest for a wrong password, and without a factor.
    """
    await require_password(ctx, password)
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        if not await store.list_by_user(work.connection, user_id=caller.id):
            raise BadRequest("You have no second factor.", "Set one up first.")
        codes = await _new_codes(work.connection, caller.id)
        await work.audit_own("renew_recovery_codes", permissions.user(caller.id))
    return codes


async def read_requirement(ctx: Context, organization_id: str) -> bool:
    """Return whether an organization demands a second factor of its members."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return bool(await store.get_requirement(work.connection, organization_id=organization_id))


async def write_requirement(ctx: Context, organization_id: str, *, required: bool) -> None:
    """Demand a second factor of an organization's members, or stop to.

    What was signed in with a password ends.
    """
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.MANAGE_USERS, permissions.user(permissions.EVERY)
        )
        before = bool(await store.get_requirement(work.connection, organization_id=organization.id))
        await store.set_requirement(work.connection, organization_id=organization.id, required=required)
        shown = {"secondFactorRequired": before}, {"secondFactorRequired": required}
        await work.audit("write_sign_in_policy", organization, *shown)


async def _begin_step(app: AppContext, actor: Actor, purpose: Purpose) -> str:
    token = secrets.token_urlsafe(_RANDOM_BYTES)
    async with app.database.connection() as connection:
        await store.insert_step(
            connection,
            token_hash=hash_token(token),
            user_id=actor.user_id,
            purpose=purpose,
            lifetime_s=SECOND_STEP_S,
        )
    return token


async def _end_step(connection: Connection, token: str, user: StepRow, address: str) -> Actor:
    """End the second step, which works once, and return the caller."""
    if not await store.delete_step(connection, token_hash=hash_token(token)):
        raise NotAuthenticated("The sign-in has ended.", "Begin again.", code="SignInFailed")
    return Actor(user.id, user.email, user.name, address, Method.BASIC, user.access_stamp)


async def _count_attempt(app: AppContext, user_id: str) -> None:
    """Count an attempt as wrong, in a transaction of its own."""
    async with app.database.connection() as connection:
        wait_s = await store.count_attempt(connection, user_id=user_id) or 0
    if wait_s:
        raise TooManyRequests("Too many wrong codes.", f"Try again in {wait_s} s.", retry_after_s=wait_s)


_APPLICATION, _RECOVERY = "application", "recovery"


async def _use_code(app: AppContext, connection: Connection, user: StepRow, code: str) -> str:
    """Return which kind of code this is, "" for a wrong one.

    The right one ends the count of wrong ones.
    """
    used = ""
    recovery = second_factors.recovery_code_hash(code)
    if recovery is not None:
        if await store.redeem_recovery_code(connection, user_id=user.id, code_hash=recovery):
            used = _RECOVERY
    else:
        for factor in await store.list_by_user(connection, user_id=user.id):
            if factor.secret is not None and not used:
                secret = app.secret_key.open(factor.secret, second_factor_purpose(factor.id))
                step = second_factors.totp_step(secret, code, app.clock.now().timestamp())
                if step is not None and await store.use(connection, id=factor.id, count=step):
                    used = _APPLICATION
    if used:
        await store.forget_attempts(connection, user_id=user.id)
    return used


async def _add(app: AppContext, connection: Connection, actor: Actor, session: str, **columns: object) -> list[str]:
    rows = await store.list_by_user(connection, user_id=actor.user_id)
    if rows and not session:
        # A sign-in sets up the first factor only: with others, it would have had to use one of them.
        raise NotAuthenticated("This account has a second factor already.", "Begin again.", code="SignInFailed")
    if len(rows) >= SECOND_FACTORS:
        raise BadRequest(f"An account has at most {SECOND_FACTORS} second factors.", "Remove one first.")
    if not await store.insert(connection, user_id=actor.user_id, **columns):
        raise BadRequest("This passkey is in use already.", "Use another one.")
    codes = await _new_codes(connection, actor.user_id) if not rows else []
    await _end_other_sessions(connection, actor.user_id, session)
    after = {"kind": str(columns["kind"]), "name": columns["name"]}
    await app.audit.record_own(
        connection, actor, "add_second_factor", _path(actor.user_id, str(columns["id"])), after=after
    )
    return codes


async def _new_codes(connection: Connection, user_id: str) -> list[str]:
    codes = second_factors.new_recovery_codes()
    hashes = [second_factors.recovery_code_hash(code) for code in codes]
    await store.delete_recovery_codes(connection, user_id=user_id)
    await store.insert_recovery_codes(connection, user_id=user_id, hashes=hashes)
    return codes


async def _end_other_sessions(connection: Connection, user_id: str, session: str) -> None:
    await store.end_other_sessions(connection, user_id=user_id, token_hash=hash_token(session))


async def require_password(ctx: Context, password: str) -> None:
    """Raise BadRequest unless this is the caller's password.

    Wrong ones count as attempts to sign in.
    """
    async with ctx.read() as work:
        caller = await work.lookup.caller()
    try:
        await ctx.app.sign_in.verify_password(BasicCredentials(caller.email, password), ctx.actor.address)
    except NotAuthenticated as error:
        raise BadRequest(
            "This is not the password of the account.", code="WrongPassword", field="currentPassword"
        ) from error


def _named(name: str, default: str) -> str:
    name = "".join(character for character in name if character.isprintable()).strip()
    return name[:NAME_CHARS] or default


def _path(user_id: str, factor_id: str) -> str:
    assert is_id(factor_id), "it was found, or made here"
    return f"{permissions.user(user_id)}/secondFactors/{factor_id}"
