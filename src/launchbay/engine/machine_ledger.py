"""Hosts out of the static resource pools of environments: implements `machines.contract.HostPools`.

A host is held under a name that begins with the instance's id and goes on with the step's tag, so that an interrupted
step finds what it took, and the end of an instance what nobody recorded.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.engine.journal import retry_while_unavailable
from launchbay.errors import ActionFailed, BadRequest, Conflict
from launchbay.ids import new_id
from launchbay.machines.clouds.account import GIVEN, CloudAccount, Place
from launchbay.machines.clouds.order import DEFAULT_REGION
from launchbay.machines.clouds.provider import CloudCalls
from launchbay.machines.contract import INSTALLATION, AddressResolver, PooledHost, ProviderContext
from launchbay.model.redaction import Redactor
from launchbay.service_types.builtin import CloudAccount as AccountType
from launchbay.service_types.contract import ServiceCall
from launchbay.service_types.resource_pool import ResourcePool
from launchbay.service_types.secrets import ServiceSeal, open_secrets, sign_in_purpose
from launchbay.store import machines as store
from launchbay.store import services
from launchbay.store.database import Connection, Database
from launchbay.store.machines import AccountRow
from launchbay.store.services import OfferedOfType

P = ParamSpec("P")
T = TypeVar("T")
_PREFIX = "configuration."


def retrying_while_unavailable(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat what a step asks of the database until it answers: a step does not fail for a database that is away."""

    @wraps(work)
    async def repeated(*arguments: P.args, **more: P.kwargs) -> T:
        return await retry_while_unavailable(lambda: work(*arguments, **more))

    return repeated


class PostgresMachineLedger:
    """One object serves all providers and the sweep."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._installation = ""

    @retrying_while_unavailable
    async def installation(self) -> str:
        """Return the id of this installation."""
        if not self._installation:
            async with self._database.connection() as connection:
                self._installation = await store.get_installation(connection) or ""
            assert self._installation, "the migration writes it"
        return self._installation

    @retrying_while_unavailable
    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
        """Return the cloud accounts that the context's environment offers, by name."""
        async with self._database.connection() as connection:
            rows = await store.list_accounts_by_environment(
                connection,
                environment_id=context.environment_id,
                organization_id=context.organization_id,
                type_id=AccountType.id,
            )
            return [await self._opened(connection, row) for row in rows]

    @retrying_while_unavailable
    async def save_given(self, context: ProviderContext, account: CloudAccount) -> CloudAccount:
        """Keep credentials that a manifest gave, sealed, and return the account with its id."""
        data = msgspec.json.encode(_parameters(account))
        organization, fingerprint = context.organization_id, self._secret_key.fingerprint(data, "cloud sign-in")
        new = new_id()
        async with self._database.transaction() as connection:
            await store.insert_sign_in(
                connection,
                id=new,
                organization_id=organization,
                fingerprint=fingerprint,
                sealed=self._secret_key.seal(data, sign_in_purpose(new)),
            )
            kept = await store.get_sign_in_id(connection, organization_id=organization, fingerprint=fingerprint)
        assert kept is not None, "it was kept, now or before"
        return replace(account, id=kept)

    @retrying_while_unavailable
    async def get(self, account_id: str) -> CloudAccount | None:
        """Return an account, None for one that was deleted."""
        async with self._database.connection() as connection:
            row = await store.get_account(connection, account_id=account_id, type_id=AccountType.id)
            if row is not None:
                return await self._opened(connection, row)
            sealed = await store.get_sign_in(connection, account_id=account_id)
        if sealed is None:
            return None
        parameters = msgspec.json.decode(self._secret_key.open(sealed, sign_in_purpose(account_id)))
        return account_of(account_id, GIVEN, parameters)

    @retrying_while_unavailable
    async def record_place(self, context: ProviderContext, account_id: str, region: str) -> None:
        """Write down that machines of the context's instance may be there from now on. Raises ActionFailed."""
        async with self._database.transaction() as connection:
            if not await self._is_held(connection, account_id):
                raise ActionFailed("The cloud account was deleted at the same moment.", retryable=False)
            await store.record_place(
                connection,
                account_id=account_id,
                region=region,
                organization_id=context.organization_id,
                environment_id=context.environment_id,
            )
            await store.record_place_of_instance(
                connection, instance_id=context.instance_id, account_id=account_id, region=region
            )

    @retrying_while_unavailable
    async def places(self, instance_id: str | None = None) -> Sequence[Place]:
        """Return all places where machines may be, or those where machines of an instance may be."""
        async with self._database.connection() as connection:
            if instance_id is None:
                rows = await store.list_places(connection)
            else:
                rows = await store.list_places_by_instance(connection, instance_id=instance_id)
        return [Place(*row) for row in rows]

    async def _is_held(self, connection: Connection, account_id: str) -> bool:
        """Tell whether an account is there, and keep it from being deleted meanwhile."""
        if await store.lock_account(connection, account_id=account_id):
            return True
        return await store.get_sign_in(connection, account_id=account_id) is not None

    async def _opened(self, connection: Connection, row: AccountRow) -> CloudAccount:
        try:
            secrets = await open_secrets(self._secret_key, connection, row.id)
        except (Conflict, UnsealFailed) as error:
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


_NOBODY = {INSTALLATION: "nobody"}  # a question that is answered with no machines, but only to who may sign in


class PostgresAccountProbe:
    """Implements `service_types.cloud_account.AccountProbe`."""

    def __init__(self, resolver: AddressResolver) -> None:
        self._calls = CloudCalls(resolver)

    def regions(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the regions that an account with these parameters is for: those it names, or the usual one."""
        return account_of("", "", parameters).regions or (DEFAULT_REGION,)

    async def problem(self, organization_id: str, parameters: Mapping[str, Any], region: str) -> str | None:
        """Sign in to a region and return what keeps the account from being used there, None where nothing does."""
        account = account_of("", "of this service", parameters)
        redactor = Redactor()
        context = ProviderContext(
            organization_id=organization_id,
            environment_id="",
            instance_id="",
            component="",
            action="check",
            step="check",
            path="check",
            tag="check",
            log=_discard_line,
            register_secret=redactor.register_secret,
        )
        try:
            await self._calls.call(context, account, region, lambda cloud: cloud.find_tagged(_NOBODY))
        except ActionFailed as error:
            return redactor.text(str(error))
        return None


def _discard_line(level: str, text: str) -> None:
    """Take a line for a log that there is not."""


POLICY = "machines.pool"
_TAG_CHARS = 16
_WAIT_S = 30


class EnvironmentPools:
    """One object serves all providers."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._type = ResourcePool()

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        """Take so many hosts, or none, by the id under which each is given back. Raises ActionFailed."""
        pool = await self._chosen(context)
        taken: dict[str, PooledHost] = {}
        try:
            for number in range(1, count + 1):
                holder = f"{context.instance_id}:{context.tag[:_TAG_CHARS]}:{number}"
                given = await self._run(pool.id, context, "acquire", {"holder": holder, "timeout": _WAIT_S})
                taken[f"{pool.id}/{holder}"] = PooledHost(given["id"], given["resource"])
        except (BadRequest, Conflict) as error:
            for machine_id in taken:
                await self.release(context, machine_id)
            text = f"The pool {pool.name!r} gave {len(taken)} of {count} hosts: {error}"
            raise ActionFailed(text, retryable=isinstance(error, Conflict)) from error
        return taken

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        """Give a host back; of a pool that is gone, it is free already."""
        pool_id, _, holder = machine_id.partition("/")
        async with self._database.connection() as connection:
            is_there = await services.exists(connection, service_id=pool_id)
        if is_there:
            await self._run(pool_id, context, "release", {"holder": holder})

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        """Return all hosts that the context's instance holds in the pools of its environment."""
        found: dict[str, PooledHost] = {}
        for pool in await self._offered(context):
            listed = await self._run(pool.id, context, "list", {})
            for entry in listed["resources"]:
                holder = entry["holder"] or ""
                if holder.startswith(f"{context.instance_id}:"):
                    found[f"{pool.id}/{holder}"] = PooledHost(entry["id"], entry["resource"])
        return found

    async def _offered(self, context: ProviderContext) -> list[OfferedOfType]:
        async with self._database.connection() as connection:
            return await services.list_offered_by_type(
                connection,
                environment_id=context.environment_id,
                organization_id=context.organization_id,
                type_id=self._type.id,
            )

    async def _chosen(self, context: ProviderContext) -> OfferedOfType:
        """Return the pool to take from: the one that the policy names, or the only one."""
        offered = await self._offered(context)
        wanted = context.policies.get(POLICY)
        fitting = [pool for pool in offered if wanted in (None, pool.name, pool.id)]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(repr(pool.name) for pool in offered) or "none"
        if fitting:
            raise ActionFailed(
                f"The environment has several pools to take hosts from: {known}.",
                f"Name one in its policy {POLICY}.",
                retryable=False,
            )
        raise ActionFailed(
            f"The environment has no pool to take hosts from{'' if wanted is None else f' called {wanted!r}'}; "
            f"it offers {known}.",
            "Name hosts in staticIps, or let the environment offer a service of the type builtin:static_resource_pool.",
            retryable=False,
        )

    async def _run(
        self, pool_id: str, context: ProviderContext, command: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        call = ServiceCall(
            service_id=pool_id,
            organization_id=context.organization_id,
            parameters={},  # the pool reads its own, under its lock
            arguments=arguments,
            transaction=self._database.transaction,
            report=_ignore,
            seal=ServiceSeal(self._secret_key, pool_id),
        )
        return await self._type.run(command, call)


def _ignore(report: Mapping[str, Any]) -> None:
    """Take what is told while one waits."""


class PostgresHostKeys:
    """One object serves all providers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        """Return the key that the host must show, None for a host that is new."""
        async with self._database.connection() as connection:
            return await store.get_host_key(connection, organization_id=context.organization_id, host=host)

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        """Keep the key of a new host, and return the one that counts."""
        async with self._database.transaction() as connection:
            await store.insert_host_key(connection, organization_id=context.organization_id, host=host, public_key=key)
            return await store.get_host_key(connection, organization_id=context.organization_id, host=host) or key

    async def forget(self, context: ProviderContext, host: str) -> None:
        """Take the host for a new one from now on."""
        async with self._database.transaction() as connection:
            await store.delete_host_key(connection, organization_id=context.organization_id, host=host)
