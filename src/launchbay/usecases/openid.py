"""Which account somebody has who signed in at the OpenID Connect provider (api-decisions, "Authentication")."""

from collections.abc import Sequence
from dataclasses import dataclass

from launchbay.auth import permissions
from launchbay.auth.openid import Identity, OpenIdProvider
from launchbay.auth.permissions import Actor, Method
from launchbay.errors import Conflict, NotAllowed, NotAuthenticated
from launchbay.ids import new_id
from launchbay.limits import NAME_CHARS
from launchbay.store import users
from launchbay.store import users as store
from launchbay.store.database import Connection, refuse_duplicate
from launchbay.store.users import User
from launchbay.usecases.desk import Desk


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may come in: e-mail domains (any, if there are none), and what people get who have no account yet.

    Without `new_user_roles` nobody is let in who has none; with them an account is made in `organization`, by its name.
    """

    domains: tuple[str, ...]
    organization: str
    new_user_roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenIdSignIn:
    """The provider, and whom of those that it knows we let in."""

    provider: OpenIdProvider
    admission: Admission


async def sign_in(desk: Desk, admission: Admission, identity: Identity, address: str) -> Actor:
    """Return the caller who has signed in at the provider, with the account of theirs.

    That is the account that the identity was linked with, else the one with its verified e-mail address, which is
    linked now, else a new one, if those are made. Raises NotAllowed for who may not come in, NotAuthenticated for a
    disabled account.
    """
    _check_domain(admission.domains, identity.email)
    async with desk.database.transaction() as connection:
        user = await store.find(connection, issuer=identity.issuer, subject=identity.subject)
        if user is None:
            user = await _linked(desk, connection, admission, identity, address)
        if not user.enabled:
            raise NotAuthenticated("This account is disabled.", "Ask an administrator.", code="SignInFailed")
    return _actor(user, address)


async def _linked(desk: Desk, connection: Connection, admission: Admission, identity: Identity, address: str) -> User:
    if not identity.email:
        raise NotAllowed(
            "The identity provider has not verified an e-mail address of yours.", "Verify it there, and sign in again."
        )
    user = await users.by_email(connection, email=identity.email)
    if user is None:
        user = await _new_user(desk, connection, admission, identity, address)
    linked = await store.link(connection, issuer=identity.issuer, subject=identity.subject, user_id=user.id)
    if linked is None:
        raise NotAllowed(
            f"The account {user.email} belongs to somebody else at the identity provider.", "Ask an administrator."
        )
    await desk.audit.record_own(
        connection,
        _actor(user, address),
        "link_identity",
        str(permissions.user(user.id)),
        after={"issuer": identity.issuer, "subject": desk.audit.fingerprint(identity.subject)},
    )
    return user


async def _new_user(desk: Desk, connection: Connection, admission: Admission, identity: Identity, address: str) -> User:
    if not admission.new_user_roles:
        raise NotAllowed(f"There is no account for {identity.email} here.", "Ask an administrator to add you.")
    organization_id = await store.organization_named(connection, name=admission.organization)
    role_ids = await _role_ids(connection, organization_id, admission.new_user_roles)
    if organization_id is None or role_ids is None:
        raise Conflict(
            "New accounts are to be made in an organization, or with a role, that does not exist.",
            "Ask the operator to look at the settings oidc_organization and oidc_new_user_roles.",
        )
    user_id, name = new_id(), (identity.name or identity.email)[:NAME_CHARS]
    with refuse_duplicate("The account was made at the same moment. Sign in again.", "Taken"):
        await users.insert(connection, id=user_id, email=identity.email, name=name, password_hash=None)
    await users.join_organization(connection, organization_id=organization_id, user_id=user_id)
    await users.assign(connection, user_id=user_id, role_ids=role_ids)
    user = await users.by_id(connection, id=user_id)
    assert user is not None, "it was inserted in this transaction"
    await desk.audit.record(
        connection,
        _actor(user, address),
        "create_user",
        str(permissions.user(user_id)),
        organization_id=organization_id,
        after={"email": user.email, "name": name, "isNewAccount": True, "roles": list(admission.new_user_roles)},
    )
    return user


async def _role_ids(connection: Connection, organization_id: str | None, names: Sequence[str]) -> list[str] | None:
    """Return the ids of the roles, None when one is missing."""
    if organization_id is None:
        return None
    rows = await store.roles_named(connection, organization_id=organization_id, names=list(names))
    return [row.id for row in rows] if len(rows) == len(set(names)) else None


def _check_domain(domains: Sequence[str], email: str) -> None:
    """Refuse addresses of other domains; with domains set, who has no verified address is of none of them."""
    if domains and email.rpartition("@")[2].lower() not in domains:
        raise NotAllowed(
            "Accounts of your e-mail domain may not sign in here.",
            f"Use one of {', '.join(domains)}.",
            code="NotAllowed",
        )


def _actor(user: User, address: str) -> Actor:
    return Actor(user.id, user.email, user.name, address, Method.OPENID)
