"""The provider on a cloud of a test, with a book in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import CloudAccount, Place
from launchbay.machines.clouds.driver import Node
from launchbay.machines.clouds.provider import CloudCalls, CloudMachines
from launchbay.machines.contract import INSTALLATION, PooledHost, ProviderContext, ProviderDeps
from launchbay.model.machine import MachineSpec
from tests.machines.clouds.moto import IMAGE, SIZE
from tests.machines.errands import Log, context

REGION = "us-west-2"
UNWATCHED: Mapping[str, Any] = {"machines.wait-for-ssh": False}
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0wCYl2uDdqvLyLyTDWKFWhoxd0CEbcZbaTGnw4DBoR test"


@dataclass
class MemoryBook:
    """Implements `CloudBook`."""

    accounts: list[CloudAccount] = field(default_factory=list)
    noted: list[tuple[str, Place]] = field(default_factory=list)
    brought: dict[str, CloudAccount] = field(default_factory=dict)
    id: str = "installation-1"

    async def installation(self) -> str:
        return self.id

    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
        return self.accounts

    async def save_given(self, context: ProviderContext, account: CloudAccount) -> CloudAccount:
        return self.brought.setdefault(account.identity, replace(account, id=f"given-{account.identity}"))

    async def get(self, account_id: str) -> CloudAccount | None:
        known = {account.id: account for account in (*self.accounts, *self.brought.values())}
        return known.get(account_id)

    async def record_place(self, context: ProviderContext, account_id: str, region: str) -> None:
        place = Place(account_id, region, context.organization_id, context.environment_id)
        self.noted.append((context.instance_id, place))

    async def places(self, instance_id: str | None = None) -> Sequence[Place]:
        found = [place for instance, place in self.noted if instance_id in (None, instance)]
        return list(dict.fromkeys(found))


@dataclass
class Keys:
    """One key pair under every name: that of SSH servers of a test, or one whose private half is lost."""

    private: str = ""
    public: str = PUBLIC_KEY

    async def private_key(self, context: ProviderContext, name: str) -> str:
        if not self.private:
            raise ActionFailed("the test has no private key.", retryable=False)
        return self.private

    async def public_key(self, context: ProviderContext, name: str) -> str:
        return self.public


@dataclass
class Bay:
    """A provider, its account, and a way to look into the cloud past it."""

    provider: CloudMachines
    book: MemoryBook
    account: CloudAccount
    calls: CloudCalls
    log: Log = field(default_factory=Log)

    def context(self, **more: Any) -> ProviderContext:
        return context(self.log, **{"policies": UNWATCHED, "action": "provisionVms", **more})

    async def standing(self, installation: str = "installation-1") -> list[Node]:
        return await self.marked({INSTALLATION: installation})

    async def marked(self, marks: Mapping[str, str]) -> list[Node]:
        found = await self.calls.call(self.context(), self.account, REGION, lambda cloud: cloud.find_tagged(marks))
        return sorted(found, key=lambda node: node.id)


def account(url: str, **more: Any) -> CloudAccount:
    found = CloudAccount(
        id="account-1",
        name="lab",
        provider="aws-ec2",
        identity="AKIAIOSFODNN7EXAMPLE",
        credential="wJalrXUtnFEMI/K7MDENG",
        endpoint_url=url,
        regions=(REGION,),
    )
    return replace(found, **more)


def bay(url: str, directory: Path, *, allow: str = "127.0.0.1", keys: Keys | None = None, **more: Any) -> Bay:
    allowlist = Allowlist.parse(allow)
    reach = CheckedResolver(allowlist)
    own = account(url, **more)
    book = MemoryBook([own])
    calls = CloudCalls(reach)
    parts = ProviderDeps(
        keys=keys or Keys(), host_keys=Pins(), pools=NoPools(), resolver=reach, egress=_outgoing(), directory=directory
    )
    return Bay(CloudMachines(parts, book, calls), book, own, calls)


@cache
def _outgoing() -> EgressClient:
    """One for all tests: reading the trusted authorities takes long."""
    return EgressClient(Allowlist())


class NoPools:
    """An environment without a pool."""

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        raise ActionFailed("there is no pool.")

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        pass

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        return {}


class Pins:
    """Keeps no host keys: nothing here signs in."""

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        return None

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        return key

    async def forget(self, context: ProviderContext, host: str) -> None:
        pass


def spec(**more: Any) -> MachineSpec:
    settings = more.pop("settings", {})
    return MachineSpec(**{"hardware": SIZE, "image": IMAGE, "login": "ubuntu", **more}, settings=settings)
