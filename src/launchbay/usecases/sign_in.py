"""Sign-in: invitations, OpenID Connect, and sessions of the console."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from launchbay.auth import permissions
from launchbay.auth.openid import Identity, Logout, OpenIdProvider
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.tokens import Session, hash_token
from launchbay.errors import Conflict, NotAllowed, NotAuthenticated, NotFound
from launchbay.ids import is_id, new_id
from launchbay.limits import INVITATION_LIFETIME_DAYS, NAME_CHARS, OPENID_LEEWAY_S
from launchbay.model.email_address import canonical_email
from launchbay.store import organizations, users
from launchbay.store.database import Connection, unique_violation_as
from launchbay.store.users import ConsoleSessionRow, RoleKind, User, leaves_no_administrator
from launchbay.usecases.context import AppContext, Context

_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all


@dataclass(frozen=True, slots=True)
class SignInLink:
    """Another way to sign in than the local password, shown as a link; `path` starts it."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Invitation:
    """The path of the link, nowhere else in clear, and when it ends."""

    path: str = field(repr=False)
    expires_at: datetime


async def invite(connection: Connection, user_id: str) -> Invitation:
    """Make an invitation for a new account, in the transaction that makes the account."""
    token = secrets.token_urlsafe(_RANDOM_BYTES)
    expires_at = await users.insert_invitation(
        connection,
        user_id=user_id,
        token_hash=hash_token(token),
        lifetime_s=INVITATION_LIFETIME_DAYS * 24 * 3600,
    )
    assert expires_at is not None, "an insert answers its row"
    return Invitation(f"/invitation/{token}", expires_at)


async def read_invitation(app: AppContext, token: str) -> User:
    """Return whom a link invites.

    Raises NotFound when it was used, has expired, or never was.
    """
    if len(token) > _LONGEST:
        raise _invalid()
    async with app.database.connection() as connection:
        user = await users.get_invitation(connection, token_hash=hash_token(token))
    if user is None:
        raise _invalid()
    return user


async def accept_invitation(app: AppContext, token: str, password: str, address: str) -> User:
    """Set the first password and end the link.

    Raises NotFound as `read_invitation`, BadRequest for the password.
    """
    invited = await read_invitation(app, token)  # nobody makes us hash without a link
    password_hash = await app.passwords.hash_new(password, invited.email)
    async with app.database.transaction() as connection:
        user = await users.redeem_invitation(connection, token_hash=hash_token(token))
        if user is None:
            raise _invalid()
        await users.set_password(connection, id=user.id, password_hash=password_hash)
        await app.audit.record_own(
            connection,
            Actor(user.id, user.email, user.name, address, Method.INVITATION),
            "accept_invitation",
            str(permissions.user(user.id)),
            after={"password": app.audit.fingerprint(password_hash)},
        )
    return user


def _invalid() -> NotFound:
    return NotFound(
        "This invitation was used already, has expired, or never existed.",
        "Ask who invited you for a new one.",
        code="InvalidInvitation",
    )


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """Who may sign in: email domains (empty: all), and how new accounts are created.

    With `new_user_roles`, a user without an account gets one in the organization with the name `organization`; else
    they can't sign in.
    """

    domains: tuple[str, ...]
    organization: str
    new_user_roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenIdSignIn:
    """The provider, and whom of those that it knows we let in."""

    provider: OpenIdProvider
    account_policy: AccountPolicy


async def sign_in_with_identity(
    app: AppContext, account_policy: AccountPolicy, identity: Identity, address: str
) -> Actor:
    """Return the account of a person who has signed in at the provider.

    It is the account that the identity is linked with, or else the one with the identity's verified email address,
    which is linked now. Without either, a new account is made, if the policy allows that.
    Raises NotAllowed if the policy keeps the person out, and NotAuthenticated for a disabled account.
    """
    _check_domain(account_policy.domains, identity.email)
    async with app.database.transaction() as connection:
        user = await users.get_by_identity(connection, issuer=identity.issuer, subject=identity.subject)
        if user is None:
            user = await _linked(app, connection, account_policy, identity, address)
        if not user.enabled:
            raise NotAuthenticated("This account is disabled.", "Ask an administrator.", code="SignInFailed")
        if identity.groups is not None:
            await _synchronize_roles(app, connection, _actor(user, address), identity.groups)
    return _actor(user, address)


async def _synchronize_roles(app: AppContext, connection: Connection, actor: Actor, groups: frozenset[str]) -> None:
    """Give a member the roles of their groups, and revoke former ones.

    Nobody becomes a member by this, and nobody loses a role given by hand. The last administrator stays one.
    """
    columns = {"user_id": actor.user_id, "groups": sorted(groups)}
    organization_ids = {row.organization_id for row in await users.list_roles_of_groups(connection, **columns)}
    organization_ids -= set(
        await app.ports.provisioned_in(connection, actor.user_id)
    )  # two sources would undo each other
    for organization_id in sorted(organization_ids):
        await organizations.lock(connection, organization_id=organization_id)
        administrators = await users.list_administrators(connection, organization_id=organization_id)
        rows = [
            row
            for row in await users.list_roles_of_groups(connection, **columns)  # as it is now, after waiting
            if row.organization_id == organization_id and row.is_wanted != row.is_held
        ]
        is_last = leaves_no_administrator(administrators, actor.user_id)
        gained = [row for row in rows if row.is_wanted]
        lost = [row for row in rows if row.is_held and not (is_last and row.kind == RoleKind.ADMINISTRATOR)]
        if not gained and not lost:
            continue
        await users.assign_role_from_groups(connection, user_id=actor.user_id, role_ids=[row.id for row in gained])
        await users.revoke_role(connection, user_id=actor.user_id, role_ids=[row.id for row in lost])
        await app.audit.record(
            connection,
            actor,
            "synchronize_roles",
            str(permissions.user(actor.user_id)),
            organization_id=organization_id,
            before={"lost": [row.name for row in lost]},
            after={"gained": [row.name for row in gained]},
        )


async def _linked(
    app: AppContext, connection: Connection, account_policy: AccountPolicy, identity: Identity, address: str
) -> User:
    if not identity.email:
        raise NotAllowed(
            "The identity provider hasn't verified your email address.", "Verify it there, and sign in again."
        )
    email = canonical_email(identity.email)
    user = await users.get_by_email(connection, email=email)
    if user is None:
        user = await _new_user(app, connection, account_policy, replace(identity, email=email), address)
    linked = await users.insert_identity(connection, issuer=identity.issuer, subject=identity.subject, user_id=user.id)
    if linked is None:
        raise NotAllowed(
            f"The account {user.email} belongs to somebody else at the identity provider.", "Ask an administrator."
        )
    if await users.end_inherited_password(connection, id=user.id):
        # Whoever made the account may know the password, and may have signed in with it.
        await users.end_credentials(connection, user_id=user.id)
    await app.audit.record_own(
        connection,
        _actor(user, address),
        "link_identity",
        str(permissions.user(user.id)),
        after={"issuer": identity.issuer, "subject": app.audit.fingerprint(identity.subject)},
    )
    return user


async def _new_user(
    app: AppContext, connection: Connection, account_policy: AccountPolicy, identity: Identity, address: str
) -> User:
    if not account_policy.new_user_roles:
        raise NotAllowed(f"There is no account for {identity.email} here.", "Ask an administrator to add you.")
    organization_id = await organizations.get_id_by_name(connection, name=account_policy.organization)
    role_ids = await _role_ids(connection, organization_id, account_policy.new_user_roles)
    if organization_id is None or role_ids is None:
        raise Conflict(
            "New accounts are to be made in an organization, or with a role, that does not exist.",
            "Ask the operator to check the settings oidc_organization and oidc_new_user_roles.",
        )
    user_id, name = new_id(), (identity.name or identity.email)[:NAME_CHARS]
    with unique_violation_as("The account was created by another request. Sign in again.", "Taken"):
        await users.insert(connection, id=user_id, email=identity.email, name=name, password_hash=None)
    await users.join_organization(connection, organization_id=organization_id, user_id=user_id)
    await users.assign_role(connection, user_id=user_id, role_ids=role_ids)
    user = await users.get(connection, id=user_id)
    assert user is not None, "it was inserted in this transaction"
    await app.audit.record(
        connection,
        _actor(user, address),
        "create_user",
        str(permissions.user(user_id)),
        organization_id=organization_id,
        after={"email": user.email, "name": name, "isNewAccount": True, "roles": list(account_policy.new_user_roles)},
    )
    return user


async def _role_ids(connection: Connection, organization_id: str | None, names: Sequence[str]) -> list[str] | None:
    """Return the ids of the roles, None when one is missing."""
    if organization_id is None:
        return None
    ids = await users.list_role_ids_by_name(connection, organization_id=organization_id, names=list(names))
    return ids if len(ids) == len(set(names)) else None


def _check_domain(domains: Sequence[str], email: str) -> None:
    """Refuse unverified addresses and those of other domains, if domains are set."""
    if domains and (not email or canonical_email(email).rpartition("@")[2] not in domains):
        raise NotAllowed(
            "Accounts of your email domain can't sign in here.",
            f"Use one of {', '.join(domains)}.",
            code="NotAllowed",
        )


def _actor(user: User, address: str) -> Actor:
    return Actor(user.id, user.email, user.name, address, Method.OPENID)


_PREFIX = "lbc_"  # identifies the token for people and secret scanners


async def require_own_password(connection: Connection, user_id: str) -> None:
    """Raise NotAllowed if somebody else chose the user's password."""
    if await users.is_password_given(connection, id=user_id):
        raise NotAllowed(
            "Somebody else chose this password. It is good only for choosing your own.",
            "Do that at /console/newPassword, or with PUT /api/1/users/me/password.",
            code="PasswordChangeRequired",
        )


async def open_session(ctx: Context, identity: Identity | None = None) -> Session:
    """Return a new session for the caller, who has just signed in.

    `identity` is who the provider says that this is. Raises NotAuthenticated for a disabled account.
    """
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        await users.delete_expired_sessions(work.connection, user_id=caller.id)
        await users.insert_session(
            work.connection,
            id=new_id(),
            user_id=caller.id,
            token_hash=hash_token(token),
            address=ctx.actor.address,
            lifetime_s=ctx.app.session_lifetime_s,
            issuer=None if identity is None else identity.issuer,
            provider_session=None if identity is None else identity.session,
        )
        await work.audit_own("open_session", permissions.user(caller.id))
    return Session(token, ctx.app.session_lifetime_s)


async def authenticate_session(app: AppContext, token: str, address: str) -> Actor:
    """Return who is behind a session.

    Raises NotAuthenticated for one that has ended, or never was.

    Whether the account is enabled is for the lookup to see.
    """
    user = None
    if token.startswith(_PREFIX) and len(token) <= _LONGEST and token.isascii():
        async with app.database.connection() as connection:
            user = await users.get_by_session(connection, token_hash=hash_token(token), idle_s=app.session_idle_s)
    if user is None:
        raise NotAuthenticated("The session has ended.", "Sign in again.")
    return Actor(user.id, user.email, user.name, address, Method.CONSOLE)


async def end_provider_sessions(app: AppContext, logout: Logout, address: str) -> None:
    """End the console sessions that a logout at the provider concerns.

    Tokens for programs stay.
    """
    async with app.database.transaction() as connection:
        ended = await users.end_provider_sessions(
            connection,
            issuer=logout.issuer,
            subject=logout.subject,
            provider_session=logout.session,
            until=logout.at + timedelta(seconds=OPENID_LEEWAY_S),
        )
        for user in ended:
            await app.audit.record_own(
                connection,
                _actor(user, address),
                "close_session",
                str(permissions.user(user.id)),
                after={"by": "identity provider"},
            )


async def close_session(ctx: Context, token: str) -> None:
    """End the session, wherever its token has got to."""
    async with ctx.begin() as work:
        if await users.delete_session_by_token(work.connection, token_hash=hash_token(token)):
            await work.audit_own("close_session", permissions.user(ctx.actor.user_id))


async def list_sessions(ctx: Context, token: str) -> list[ConsoleSessionRow]:
    """Return the caller's sessions, the newest first; the one with this token is marked."""
    async with ctx.read() as work:
        caller = await work.lookup.caller()
        return await users.list_sessions_by_user(
            work.connection, user_id=caller.id, token_hash=hash_token(token), idle_s=ctx.app.session_idle_s
        )


async def close_other_session(ctx: Context, session_id: str) -> None:
    """End a session of the caller's, in another browser for example. Raises NotFound."""
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        if not is_id(session_id) or not await users.delete_session(work.connection, id=session_id, user_id=caller.id):
            raise NotFound("You have no such session; it may have ended.", "Look at the list of your sessions.")
        await work.audit_own("close_session", permissions.user(caller.id))
