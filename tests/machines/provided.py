"""What bootstrap gives to providers, in memory: keys, pinned host keys, and rules that let tests reach loopback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.contract import PooledHost, ProviderContext, ProviderDeps
from tests.machines.hosts import Hosts


@dataclass
class Keys:
    """Implements `KeySource`."""

    private: dict[str, str]
    asked: list[str] = field(default_factory=list)

    async def private_key(self, context: ProviderContext, name: str) -> str:
        self.asked.append(name)
        if name not in self.private:
            raise ActionFailed(f"There is no key pair {name!r}.", retryable=False)
        return self.private[name]

    async def public_key(self, context: ProviderContext, name: str) -> str:
        raise ActionFailed("not here")


@dataclass
class Pins:
    """Implements `HostKeys`."""

    pins: dict[tuple[str, str], str] = field(default_factory=dict)

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        return self.pins.get((context.organization_id, host))

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        return self.pins.setdefault((context.organization_id, host), key)

    async def forget(self, context: ProviderContext, host: str) -> None:
        self.pins.pop((context.organization_id, host), None)


@dataclass
class Pools:
    """Implements `HostPools`: hosts that are free, and who holds which."""

    free: dict[str, object] = field(default_factory=dict)
    held: dict[str, PooledHost] = field(default_factory=dict)

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        found = {f"pool/{context.instance_id}:{context.tag}:{number}": None for number in range(count)}
        if sum(machine_id not in self.held for machine_id in found) > len(self.free):
            raise ActionFailed(f"The pool has no {count} hosts.")
        for machine_id in found:
            if machine_id not in self.held:
                self.held[machine_id] = PooledHost(*self.free.popitem())
        return {machine_id: self.held[machine_id] for machine_id in found}

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        pooled = self.held.pop(machine_id, None)
        if pooled is not None:
            self.free[pooled.id] = pooled.place

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        return dict(self.held)


def parts(
    hosts: Hosts, directory: Path, allowed: str = "127.0.0.0/8", outgoing: EgressClient | None = None
) -> ProviderDeps:
    allowlist = Allowlist.parse(allowed)
    return ProviderDeps(
        keys=Keys({"": hosts.private_key, "deploy": hosts.private_key}),
        host_keys=Pins(),
        pools=Pools(),
        resolver=CheckedResolver(allowlist),
        egress=outgoing or EgressClient(allowlist),
        directory=directory,
    )
