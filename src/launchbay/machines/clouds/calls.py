"""Calls of cloud drivers, which block and are heavy: loaded at first use, in a few threads, with time-outs."""

import asyncio
import importlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import urlsplit

from launchbay import limits
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.clouds.account import CloudAccount
from launchbay.machines.clouds.cloud import Cloud, CloudFailed, Endpoint
from launchbay.machines.contract import Errand, Reach

T = TypeVar("T")

# By the name that a cloud account gives its provider: where the driver is.
DRIVERS = {
    "aws-ec2": "launchbay.machines.clouds.ec2:Ec2",
    "ec2": "launchbay.machines.clouds.ec2:Ec2",
}
_AMAZON = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PORTS = {"https": 443, "http": 80}
_GRACE_S = 5.0  # beyond what the driver gives up after by itself


class CloudCalls:
    """Calls drivers. One object serves all accounts."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._turn = asyncio.Semaphore(limits.CLOUD_CALLS)
        self._threads: ThreadPoolExecutor | None = None

    async def ask(self, errand: Errand, account: CloudAccount, region: str, question: Callable[[Cloud], T]) -> T:
        """Ask a region of an account. Raises CloudFailed, and AddressRefused for an endpoint that may not be reached.

        A question that is cancelled, or takes too long, may still be carried out.
        """
        errand.learn(account.credential)
        errand.learn(account.credential)
        driver = DRIVERS.get(account.provider)
        if driver is None:
            raise CloudFailed(
                f"The cloud account {account.name!r} is for the provider {account.provider!r}, which is not supported.",
                f"Supported are {', '.join(DRIVERS)}; an endpoint of another maker that speaks EC2 works as ec2 with "
                "its endpoint-url.",
                retryable=False,
            )
        endpoint = await self._endpoint(errand, account, region)

        def work() -> T:
            # A driver's object is for one thread, and costs next to nothing to make.
            return question(_loaded(driver)(account, region, endpoint))

        async with self._turn:
            try:
                async with asyncio.timeout(limits.CLOUD_CALL_S + _GRACE_S):
                    return await asyncio.get_running_loop().run_in_executor(self._pool(), work)
            except TimeoutError:
                raise CloudFailed(
                    f"The cloud of the account {account.name!r} did not answer within {limits.CLOUD_CALL_S:g} s."
                ) from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(limits.CLOUD_CALLS, thread_name_prefix="cloud")
        return self._threads

    async def _endpoint(self, errand: Errand, account: CloudAccount, region: str) -> Endpoint:
        url = urlsplit(endpoint_url(account, region))
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        try:
            addresses = await self._reach.addresses(errand, host, port)
        except AddressRefused as error:
            raise CloudFailed(
                f"The endpoint of the cloud account {account.name!r} may not be reached:",
                *error.sentences,
                retryable=False,
            ) from None
        except ActionFailed as error:
            raise CloudFailed(*error.sentences) from None
        return Endpoint(url.scheme, host, port, url.path, tuple(addresses))


def endpoint_url(account: CloudAccount, region: str) -> str:
    """Return where a region of the account answers. Raises CloudFailed for a name that no region can have."""
    known = _REGION if account.endpoint_url else _AMAZON
    if not known.fullmatch(region):
        raise CloudFailed(f"{region[:80]!r} is no name of a region; one is called like us-east-1.", retryable=False)
    if account.endpoint_url:
        return account.endpoint_url
    return f"https://ec2.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _loaded(driver: str) -> Callable[[CloudAccount, str, Endpoint], Cloud]:
    """Return a driver's class; the first time, this loads its library."""
    module, _, name = driver.partition(":")
    try:
        found: Callable[[CloudAccount, str, Endpoint], Cloud] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise CloudFailed(
            f"The library for clouds is not installed on this server: {error.name} is missing.",
            "An administrator installs it with: pip install 'launchbay[clouds]'.",
            retryable=False,
        ) from None
    return found
