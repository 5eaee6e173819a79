"""What bootstrap gives to providers, in memory: keys, pinned host keys, and rules that let tests reach loopback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launchbay.app.machines import CheckedReach
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import OutgoingHttp
from launchbay.errors import ActionFailed
from launchbay.machines.contract import Errand, Parts, Pooled
from tests.machines.hosts import Hosts


@dataclass
class Keys:
    """Implements `KeySource`."""

    private: dict[str, str]
    asked: list[str] = field(default_factory=list)

    async def private_key(self, errand: Errand, name: str) -> str:
        self.asked.append(name)
        if name not in self.private:
            raise ActionFailed(f"There is no key pair {name!r}.", retryable=False)
        return self.private[name]

    async def public_key(self, errand: Errand, name: str) -> str:
        raise ActionFailed("not here")


@dataclass
class Pins:
    """Implements `HostKeys`."""

    pins: dict[tuple[str, str], str] = field(default_factory=dict)

    async def pinned(self, errand: Errand, host: str) -> str | None:
        return self.pins.get((errand.organization_id, host))

    async def pin(self, errand: Errand, host: str, key: str) -> str:
        return self.pins.setdefault((errand.organization_id, host), key)

    async def forget(self, errand: Errand, host: str) -> None:
        self.pins.pop((errand.organization_id, host), None)


@dataclass
class Pools:
    """Implements `HostPools`: hosts that are free, and who holds which."""

    free: dict[str, object] = field(default_factory=dict)
    held: dict[str, Pooled] = field(default_factory=dict)

    async def take(self, errand: Errand, count: int) -> Mapping[str, Pooled]:
        found = {f"pool/{errand.instance_id}:{errand.tag}:{number}": None for number in range(count)}
        if sum(machine_id not in self.held for machine_id in found) > len(self.free):
            raise ActionFailed(f"The pool has no {count} hosts.")
        for machine_id in found:
            if machine_id not in self.held:
                self.held[machine_id] = Pooled(*self.free.popitem())
        return {machine_id: self.held[machine_id] for machine_id in found}

    async def give_back(self, errand: Errand, machine_id: str) -> None:
        pooled = self.held.pop(machine_id, None)
        if pooled is not None:
            self.free[pooled.id] = pooled.place

    async def taken(self, errand: Errand) -> Mapping[str, Pooled]:
        return dict(self.held)


def parts(hosts: Hosts, directory: Path, allowed: str = "127.0.0.0/8", outgoing: OutgoingHttp | None = None) -> Parts:
    allowlist = Allowlist.parse(allowed)
    return Parts(
        keys=Keys({"": hosts.private_key, "deploy": hosts.private_key}),
        host_keys=Pins(),
        pools=Pools(),
        reach=CheckedReach(allowlist),
        outgoing=outgoing or OutgoingHttp(allowlist),
        directory=directory,
    )
