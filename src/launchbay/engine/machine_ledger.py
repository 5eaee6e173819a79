"""Cloud accounts, pool hosts and host keys for machine providers, on PostgreSQL.

Steps use them while a job runs, and the sweeper uses the accounts. Each method is one short transaction.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.egress.http import EgressClient
from launchbay.engine.journal import retry_while_unavailable
from launchbay.errors import ActionFailed, BadRequest, Conflict
from launchbay.ids import NamedRow, new_id
from launchbay.machines.clouds.account import GIVEN, CloudAccount, CloudRegion
from launchbay.machines.clouds.driver import CloudCalls
from launchbay.machines.clouds.order import DEFAULT_REGION
from launchbay.machines.contract import INSTALLATION, PooledHost, ProviderContext
from launchbay.model.redaction import Redactor
from launchbay.service_types.builtin import CloudAccount as AccountType
from launchbay.service_types.contract import ServiceCall
from launchbay.service_types.resource_pool import ResourcePool
from launchbay.service_types.secrets import ServiceSeal, open_secrets, provided_references, sign_in_purpose
from launchbay.store import machines as store
from launchbay.store import services
from launchbay.store.database import Connection, Database
from launchbay.store.machines import AccountRow

P = ParamSpec("P")
T = TypeVar("T")
_PREFIX = "configuration."
_CREDENTIAL = "configuration.credential"
_NO_MACHINES = {INSTALLATION: "nobody"}  # tags of no machine: the query succeeds only with valid credentials
POLICY = "machines.pool"
_TAG_CHARS = 16
_WAIT_S = 30


def retrying_while_unavailable(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat a method until the database is available."""

    @wraps(work)
    async def repeated(*arguments: P.args, **more: P.kwargs) -> T:
        return await retry_while_unavailable(lambda: work(*arguments, **more))

    return repeated


class PostgresMachineLedger:
    """Implements `machines.clouds.account.MachineLedger` for all providers and the sweeper."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._installation = ""

    @retrying_while_unavailable
    async def installation(self) -> str:
        if not self._installation:
            async with self._database.connection() as connection:
                self._installation = await store.get_installation(connection) or ""
            assert self._installation, "the migration writes it"
        return self._installation

    @retrying_while_unavailable
    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
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
            stored_id = await store.get_sign_in_id(connection, organization_id=organization, fingerprint=fingerprint)
        assert stored_id is not None, "stored now or earlier"
        return replace(account, id=stored_id)

    @retrying_while_unavailable
    async def get(self, account_id: str) -> CloudAccount | None:
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
        """Record that the context's instance may have machines there. Raises ActionFailed."""
        async with self._database.transaction() as connection:
            if not await self._is_held(connection, account_id):
                raise ActionFailed("The cloud account was deleted while this step ran.", retryable=False)
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
    async def places(self, instance_id: str | None = None) -> Sequence[CloudRegion]:
        async with self._database.connection() as connection:
            if instance_id is None:
                rows = await store.list_places(connection)
            else:
                rows = await store.list_places_by_instance(connection, instance_id=instance_id)
        return [CloudRegion(*row) for row in rows]

    async def _is_held(self, connection: Connection, account_id: str) -> bool:
        """Lock an account against deletion; return whether it exists."""
        if await store.lock_account(connection, account_id=account_id):
            return True
        return await store.get_sign_in(connection, account_id=account_id) is not None

    async def _opened(self, connection: Connection, row: AccountRow) -> CloudAccount:
        try:
            secrets = await open_secrets(self._secret_key, connection, row.id)
        except (Conflict, UnsealFailed) as error:
            raise ActionFailed(f"Can't decrypt the cloud account {row.name!r}: {error}", retryable=False) from None
        return account_of(row.id, row.name, {**msgspec.json.decode(row.parameters), **secrets})


def account_of(account_id: str, name: str, parameters: Mapping[str, Any]) -> CloudAccount:
    """Build an account from its service's parameters, with the secret ones decrypted."""

    def text(parameter: str) -> str:
        return str(parameters.get(f"{_PREFIX}{parameter}") or "")

    provided = provided_references(parameters).get(_CREDENTIAL)
    return CloudAccount(
        id=account_id,
        name=name,
        provider=text("provider"),
        identity=text("identity"),
        credential="" if provided else text("credential"),
        provided=provided,
        endpoint_url=text("endpoint-url"),
        regions=tuple(part.strip() for part in text("legacy-regions").split(",") if part.strip()),
        security_group=text("legacy-security-group"),
        role=text("role"),
        audience=text("audience"),
        sts_url=text("sts-endpoint-url"),
    )


def _parameters(account: CloudAccount) -> dict[str, str]:
    return {
        f"{_PREFIX}provider": account.provider,
        f"{_PREFIX}identity": account.identity,
        f"{_PREFIX}credential": account.credential,
        f"{_PREFIX}endpoint-url": account.endpoint_url,
    }


class PostgresAccountProbe:
    """Implements `service_types.builtin.AccountProbe`."""

    def __init__(self, egress: EgressClient) -> None:
        self._calls = CloudCalls(egress)

    def regions(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the account's regions. Default: `DEFAULT_REGION`."""
        return account_of("", "", parameters).regions or (DEFAULT_REGION,)

    async def problem(self, organization_id: str, parameters: Mapping[str, Any], region: str) -> str | None:
        """Sign in to a region; return the problem, or None."""
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
            log=lambda _level, _text: None,  # a probe has no log
            register_secret=redactor.register_secret,
        )
        try:
            await self._calls.call(context, account, region, lambda cloud: cloud.find_tagged(_NO_MACHINES))
        except ActionFailed as error:
            return redactor.text(str(error))
        return None


class EnvironmentPools:
    """Implements `machines.contract.HostPools` on the static resource pools that environments offer.

    A host's holder is named by the instance's id and the step's tag. So an interrupted step finds the hosts that it
    took, and the destroy of an instance finds unrecorded ones.
    """

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._type = ResourcePool()

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        """Take `count` hosts or none; return them by the id to release each with.

        Raises ActionFailed.
        """
        pool = await self._chosen(context)
        taken: dict[str, PooledHost] = {}
        try:
            for number in range(1, count + 1):
                holder = f"{context.instance_id}:{context.tag[:_TAG_CHARS]}:{number}"
                given = await self._run(pool.id, context, "acquire", {"holder": holder, "timeout": _WAIT_S}, pool.name)
                taken[f"{pool.id}/{holder}"] = PooledHost(given["id"], given["resource"])
        except (BadRequest, Conflict) as error:
            for machine_id in taken:
                await self.release(context, machine_id)
            text = f"The pool {pool.name!r} provided only {len(taken)} of {count} hosts: {error}"
            raise ActionFailed(text, retryable=isinstance(error, Conflict)) from error
        return taken

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        """Return a host to its pool; do nothing if the pool was deleted."""
        pool_id, _, holder = machine_id.partition("/")
        async with self._database.connection() as connection:
            pool_exists = await services.exists(connection, service_id=pool_id)
        if pool_exists:
            await self._run(pool_id, context, "release", {"holder": holder})

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        """Return all hosts that the context's instance holds in its environment's pools."""
        found: dict[str, PooledHost] = {}
        for pool in await self._offered(context):
            listed = await self._run(pool.id, context, "list", {})
            for entry in listed["resources"]:
                holder = entry["holder"] or ""
                if holder.startswith(f"{context.instance_id}:"):
                    found[f"{pool.id}/{holder}"] = PooledHost(entry["id"], entry["resource"])
        return found

    async def _offered(self, context: ProviderContext) -> list[NamedRow]:
        async with self._database.connection() as connection:
            return await services.list_offered_by_type(
                connection,
                environment_id=context.environment_id,
                organization_id=context.organization_id,
                type_id=self._type.id,
            )

    async def _chosen(self, context: ProviderContext) -> NamedRow:
        """Return the pool that the policy names, or the only one."""
        offered = await self._offered(context)
        wanted = context.policies.get(POLICY)
        fitting = [pool for pool in offered if wanted in (None, pool.name, pool.id)]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(repr(pool.name) for pool in offered) or "none"
        if fitting:
            raise ActionFailed(
                f"The environment offers several host pools: {known}.",
                f"Name one in its policy {POLICY}.",
                retryable=False,
            )
        raise ActionFailed(
            f"The environment offers no host pool{'' if wanted is None else f' named {wanted!r}'}. Its pools: {known}.",
            "Name hosts in staticIps, or add a service of type builtin:static_resource_pool to the environment.",
            retryable=False,
        )

    async def _run(
        self, pool_id: str, context: ProviderContext, command: str, arguments: Mapping[str, Any], pool_name: str = ""
    ) -> Mapping[str, Any]:
        call = ServiceCall(
            service_id=pool_id,
            organization_id=context.organization_id,
            parameters={},  # the pool reads its parameters under its lock
            arguments=arguments,
            transaction=self._database.transaction,
            report=_ignore,
            seal=ServiceSeal(self._secret_key, pool_id),
            name=pool_name,
            waiting=context.waiting,
        )
        return await self._type.run(command, call)


def _ignore(report: Mapping[str, Any]) -> None:
    """Drop an intermediate result."""


class PostgresHostKeys:
    """Pins SSH host keys by organization and host, for all providers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        async with self._database.connection() as connection:
            return await store.get_host_key(connection, organization_id=context.organization_id, host=host)

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        async with self._database.transaction() as connection:
            await store.insert_host_key(connection, organization_id=context.organization_id, host=host, public_key=key)
            return await store.get_host_key(connection, organization_id=context.organization_id, host=host) or key

    async def forget(self, context: ProviderContext, host: str) -> None:
        async with self._database.transaction() as connection:
            await store.delete_host_key(connection, organization_id=context.organization_id, host=host)
