"""What is written down about clouds, in the database: implements `machines.clouds.account.CloudBook`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from launchbay.auth.secret_key import SealBroken, SecretKey
from launchbay.engine.journal import patiently
from launchbay.errors import ActionFailed, Conflict
from launchbay.ids import new_id
from launchbay.machines.clouds.account import GIVEN, CloudAccount, Place
from launchbay.machines.contract import Errand
from launchbay.service_types.builtin import CloudAccount as AccountType
from launchbay.service_types.secrets import open_secrets, sign_in_purpose
from launchbay.store import machines as store
from launchbay.store.database import Connection, Database
from launchbay.store.machines import AccountRow

P = ParamSpec("P")
T = TypeVar("T")

_PREFIX = "configuration."


def through_outages(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat what a step asks of the database until it answers: a step does not fail for a database that is away."""

    @wraps(work)
    async def repeated(*arguments: P.args, **more: P.kwargs) -> T:
        return await patiently(lambda: work(*arguments, **more))

    return repeated


class PostgresCloudBook:
    """One object serves all providers and the sweep."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._installation = ""

    @through_outages
    async def installation(self) -> str:
        """Return the id of this installation."""
        if not self._installation:
            async with self._database.connection() as connection:
                self._installation = await store.installation(connection) or ""
            assert self._installation, "the migration writes it"
        return self._installation

    @through_outages
    async def of_environment(self, errand: Errand) -> Sequence[CloudAccount]:
        """Return the cloud accounts that the errand's environment offers, by name."""
        async with self._database.connection() as connection:
            rows = await store.of_environment(
                connection,
                environment_id=errand.environment_id,
                organization_id=errand.organization_id,
                type_id=AccountType.id,
            )
            return [await self._opened(connection, row) for row in rows]

    @through_outages
    async def given(self, errand: Errand, account: CloudAccount) -> CloudAccount:
        """Keep credentials that a manifest gave, sealed, and return the account with its id."""
        data = msgspec.json.encode(_parameters(account))
        organization, fingerprint = errand.organization_id, self._secret_key.fingerprint(data, "cloud sign-in")
        new = new_id()
        async with self._database.transaction() as connection:
            await store.keep_sign_in(
                connection,
                id=new,
                organization_id=organization,
                fingerprint=fingerprint,
                sealed=self._secret_key.seal(data, sign_in_purpose(new)),
            )
            kept = await store.sign_in_id(connection, organization_id=organization, fingerprint=fingerprint)
        assert kept is not None, "it was kept, now or before"
        return replace(account, id=kept)

    @through_outages
    async def find(self, account_id: str) -> CloudAccount | None:
        """Return an account, None for one that was deleted."""
        async with self._database.connection() as connection:
            row = await store.account(connection, account_id=account_id, type_id=AccountType.id)
            if row is not None:
                return await self._opened(connection, row)
            sealed = await store.sign_in(connection, account_id=account_id)
        if sealed is None:
            return None
        parameters = msgspec.json.decode(self._secret_key.open(sealed, sign_in_purpose(account_id)))
        return account_of(account_id, GIVEN, parameters)

    @through_outages
    async def note(self, errand: Errand, account_id: str, region: str) -> None:
        """Write down that machines of the errand's instance may be there from now on. Raises ActionFailed."""
        async with self._database.transaction() as connection:
            if not await self._is_held(connection, account_id):
                raise ActionFailed("The cloud account was deleted at the same moment.", retryable=False)
            await store.note_place(
                connection,
                account_id=account_id,
                region=region,
                organization_id=errand.organization_id,
                environment_id=errand.environment_id,
            )
            await store.note_place_of_instance(
                connection, instance_id=errand.instance_id, account_id=account_id, region=region
            )

    @through_outages
    async def places(self, instance_id: str | None = None) -> Sequence[Place]:
        """Return all places where machines may be, or those where machines of an instance may be."""
        async with self._database.connection() as connection:
            if instance_id is None:
                rows = await store.places(connection)
            else:
                rows = await store.places_of_instance(connection, instance_id=instance_id)
        return [Place(*row) for row in rows]

    async def _is_held(self, connection: Connection, account_id: str) -> bool:
        """Tell whether an account is there, and keep it from being deleted meanwhile."""
        if await store.hold_account(connection, account_id=account_id):
            return True
        return await store.sign_in(connection, account_id=account_id) is not None

    async def _opened(self, connection: Connection, row: AccountRow) -> CloudAccount:
        try:
            secrets = await open_secrets(self._secret_key, connection, row.id)
        except (Conflict, SealBroken) as error:
            raise ActionFailed(f"The cloud account {row.name!r} cannot be opened: {error}", retryable=False) from None
        return account_of(row.id, row.name, {**msgspec.json.decode(row.parameters), **secrets})


def account_of(account_id: str, name: str, parameters: Mapping[str, Any]) -> CloudAccount:
    """Return an account from the parameters of its service, the secret ones opened."""

    def text(parameter: str) -> str:
        return str(parameters.get(f"{_PREFIX}{parameter}") or "")

    return CloudAccount(
        id=account_id,
        name=name,
        provider=text("provider"),
        identity=text("identity"),
        credential=text("credential"),
        endpoint_url=text("endpoint-url"),
        regions=tuple(part.strip() for part in text("legacy-regions").split(",") if part.strip()),
        security_group=text("legacy-security-group"),
    )


def _parameters(account: CloudAccount) -> dict[str, str]:
    """Return what `account_of` reads, of an account that a manifest gave."""
    return {
        f"{_PREFIX}provider": account.provider,
        f"{_PREFIX}identity": account.identity,
        f"{_PREFIX}credential": account.credential,
        f"{_PREFIX}endpoint-url": account.endpoint_url,
    }
