"""Drivers of clouds: their contract, calls of them, and policies for access to machines.

machines.address: private        # the address for outputs and connections. Default: public
machines.ssh-port: 2222
machines.wait-for-ssh: false     # a machine is ready when it runs, without a test of SSH
machines.start-timeout: 900      # seconds until a machine must run and accept the login
"""

import asyncio
import importlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from launchbay import limits
from launchbay.egress import aws
from launchbay.egress.http import EgressClient
from launchbay.egress.proxy import OutgoingProxy
from launchbay.errors import ActionFailed, AddressRefused, EgressFailed
from launchbay.machines.clouds.account import CloudAccount
from launchbay.machines.clouds.order import Order
from launchbay.machines.contract import (
    PORT_POLICY,
    ProviderContext,
    Tags,
    invalid_policy,
    policy_number,
)
from launchbay.model.machine import PORTS, SSH_PORT

T = TypeVar("T")


class CloudFailed(ActionFailed):
    """The cloud refused a call or did not respond. `reason` is its error code, or empty."""

    def __init__(self, *messages: str, reason: str = "", retryable: bool = True) -> None:
        super().__init__(*messages, retryable=retryable)
        self.reason = reason


KEY_UNKNOWN = "InvalidKeyPair.NotFound"  # for seconds also after its import


class NodeState(Enum):
    """The state of a cloud machine; states without a meaning here are `OTHER`."""

    STARTING = "starting"
    RUNNING = "running"
    TERMINATED = "over"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine as its cloud reports it. `tags` is None for a machine that Launchbay didn't create."""

    id: str
    state: NodeState
    public_ip: str = ""
    private_ip: str = ""
    host_name: str = ""
    tags: Tags | None = None
    created_at: datetime | None = None


class Endpoint(NamedTuple):
    """The endpoint of a cloud's API, at checked addresses or through the proxy."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]
    proxy: OutgoingProxy | None = None


class Cloud(Protocol):
    """One region of one account. The methods raise CloudFailed."""

    def create_node(self, order: Order, name: str, tags: Tags, token: str, key_name: str) -> Node:
        """Create a machine with its tags in one request. The same token creates no second one."""

    def find_tagged(self, tags: Mapping[str, str]) -> Sequence[Node]:
        """Return the machines with all of these tags, without terminated ones."""

    def describe(self, ids: Sequence[str]) -> Sequence[Node]:
        """Return the machines that the cloud knows."""

    def terminate(self, node_id: str) -> bool:
        """Terminate a machine. Return False if the cloud doesn't know it, or not yet."""

    def import_key(self, name: str, public_key: str) -> None:
        """Import a public key. Succeeds if the cloud has a key with this name."""


ADDRESS = "machines.address"
WAIT = "machines.wait-for-ssh"
TIMEOUT = "machines.start-timeout"
_PUBLIC, _PRIVATE = "public", "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """How machines are reached, and the time until they must be."""

    private: bool = False
    port: int = SSH_PORT
    waits_for_ssh: bool = True
    within_s: float = limits.CLOUD_START_S

    def addresses(self, node: Node) -> tuple[str, str]:
        """Return the public and the private address for outputs and connections."""
        return ("" if self.private else node.public_ip), node.private_ip

    def has_address(self, node: Node) -> bool:
        return any(self.addresses(node))


def read_node_access(context: ProviderContext) -> NodeAccess:
    """Return the access that the policies define. Raises ActionFailed for an invalid value."""
    policies = context.policies
    address = policies.get(ADDRESS, _PUBLIC)
    if address not in (_PUBLIC, _PRIVATE):
        raise invalid_policy(ADDRESS, address, f"{_PUBLIC} or {_PRIVATE}")
    waits = policies.get(WAIT, True)
    if not isinstance(waits, bool):
        raise invalid_policy(WAIT, waits, "true or false")
    longest_s = int(limits.CLOUD_START_LONGEST_S)
    within_s = policy_number(context, TIMEOUT, int(limits.CLOUD_START_S), longest_s)
    return NodeAccess(
        private=address == _PRIVATE,
        port=policy_number(context, PORT_POLICY, SSH_PORT, PORTS),
        waits_for_ssh=waits,
        within_s=within_s,
    )


# The class of the driver, by the provider that a cloud account names.
DRIVERS = {"aws-ec2": "launchbay.machines.clouds.ec2:Ec2", "ec2": "launchbay.machines.clouds.ec2:Ec2"}
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PORTS = {"https": 443, "http": 80}
_GRACE_S = 5.0  # after the driver's own timeout


class CloudCalls:
    """Calls drivers. One object serves all accounts."""

    def __init__(self, egress: EgressClient) -> None:
        self._egress = egress
        self._sessions = RoleSessions()
        self._turn = asyncio.Semaphore(limits.CLOUD_CALLS)
        self._threads: ThreadPoolExecutor | None = None

    async def call(
        self, context: ProviderContext, account: CloudAccount, region: str, question: Callable[[Cloud], T]
    ) -> T:
        """Call the API of a region of an account. Raises CloudFailed.

        The cloud may still carry out a call that is cancelled or takes too long.
        """
        driver = DRIVERS.get(account.provider)
        if driver is None:
            raise CloudFailed(
                f"The cloud account {account.name!r} has the unsupported provider {account.provider!r}.",
                f"Supported: {', '.join(DRIVERS)}. For another cloud that supports EC2, use ec2 with its endpoint-url.",
                retryable=False,
            )
        url = endpoint_url(account, region)  # first: a region that isn't a name would choose who gets the job's token
        egress = self._egress.for_environment(context.organization_id, context.environment_id, context.policies)
        if account.role:
            account = await self._sessions.signed_in(context, egress, account, region)
        elif account.provided is not None:
            account = replace(account, credential=str(await context.secret(account.provided)))
        else:
            context.register_secret(account.credential)
        endpoint = await _endpoint(egress, account, url)

        def work() -> T:
            # A driver's object is for one thread, and cheap to create.
            return question(_loaded(driver)(account, region, endpoint))

        async with self._turn:
            try:
                async with asyncio.timeout(limits.CLOUD_CALL_S + _GRACE_S):
                    return await asyncio.get_running_loop().run_in_executor(self._pool(), work)
            except TimeoutError:
                raise CloudFailed(
                    f"The cloud of the account {account.name!r} did not respond within {limits.CLOUD_CALL_S:g} s."
                ) from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(limits.CLOUD_CALLS, thread_name_prefix="cloud")
        return self._threads


class RoleSessions:
    """Sessions of steps that took the role of an account, in memory only."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], tuple[float, aws.AwsKeys]] = {}

    async def signed_in(
        self, context: ProviderContext, egress: EgressClient, account: CloudAccount, region: str
    ) -> CloudAccount:
        """Return the account with the credentials of a session. Raises CloudFailed."""
        if not context.job_id:
            raise CloudFailed(
                f"Only a job can take the role of the cloud account {account.name!r}, with its identity.",
                retryable=False,
            )
        # The claims of a token name the step, and the role may ask for one.
        wanted = (account.id, account.role, account.audience, account.sts_url, region, context.job_id, context.path)
        now = time.monotonic()
        self._found = {key: found for key, found in self._found.items() if found[0] > now}
        if wanted not in self._found:
            token = await context.token(account.audience or aws.AUDIENCE)
            keys = await _role_taken(context, egress, account, region, token)
            self._found[wanted] = now + limits.CLOUD_SESSION_S, keys
        keys = self._found[wanted][1]
        context.register_secret([keys.secret_access_key, keys.token])
        return replace(account, identity=keys.access_key_id, credential=keys.secret_access_key, token=keys.token)


async def _role_taken(
    context: ProviderContext, egress: EgressClient, account: CloudAccount, region: str, token: str
) -> aws.AwsKeys:
    try:
        return await aws.by_web_identity(
            egress,
            account.sts_url or aws.endpoint("sts", region),
            account.role,
            token,
            f"launchbay-{context.job_id}",
        )
    except EgressFailed as error:
        fix = "Compare the trust policy of the role with the claims of the job."
        raise CloudFailed(
            f"The job can't take the role {account.role} of the cloud account {account.name!r}:",
            *error.messages,
            *([fix] if isinstance(error, aws.AwsRefused) and not error.retryable else ()),
            reason=error.reason if isinstance(error, aws.AwsRefused) else "",
            retryable=error.retryable,
        ) from None


async def _endpoint(egress: EgressClient, account: CloudAccount, of_region: str) -> Endpoint:
    url = urlsplit(of_region)
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    try:
        route = await egress.route(host, port)
    except AddressRefused as error:
        raise CloudFailed(
            f"Can't connect to the endpoint of the cloud account {account.name!r}:",
            *error.messages,
            retryable=False,
        ) from None
    except EgressFailed as error:
        raise CloudFailed(*error.messages) from None
    return Endpoint(url.scheme, host, port, url.path, route.addresses, route.proxy)


def endpoint_url(account: CloudAccount, region: str) -> str:
    """Return the URL of the API for a region of the account. Raises CloudFailed for an invalid name."""
    known = _REGION if account.endpoint_url else aws.REGION
    if not known.fullmatch(region):
        raise CloudFailed(f"Invalid name of a region: {region[:80]!r}. Example: us-east-1.", retryable=False)
    if account.endpoint_url:
        return account.endpoint_url
    return aws.endpoint("ec2", region)


def _loaded(driver: str) -> Callable[[CloudAccount, str, Endpoint], Cloud]:
    """Return a driver's class. The first call loads its library."""
    module, _, name = driver.partition(":")
    try:
        found: Callable[[CloudAccount, str, Endpoint], Cloud] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise CloudFailed(
            f"The library for clouds is not installed on this server: {error.name} is missing.",
            "An administrator can install it with: pip install 'launchbay[clouds]'.",
            retryable=False,
        ) from None
    return found
