"""What the product gives to its own machine providers. `bootstrap` makes it once; each provider takes what it needs."""

from dataclasses import dataclass
from pathlib import Path

from launchbay.egress.http import OutgoingHttp
from launchbay.machines.contract import HostKeys, HostPools, KeySource, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`directory` is a place on this server for what belongs to machines."""

    keys: KeySource
    host_keys: HostKeys
    pools: HostPools
    reach: Reach
    outgoing: OutgoingHttp
    directory: Path
