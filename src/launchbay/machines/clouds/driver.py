"""How machines of a cloud are reached, by policies of the environment and what a step says. Pure.

machines.address: private        # which address machines are known and reached by; public where it is left out
machines.ssh-port: 2222
machines.wait-for-ssh: false     # a machine counts as made when it runs; nobody looks whether it lets us in
machines.start-timeout: 900      # seconds until a machine must run and let us in
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.order import Order
from launchbay.machines.contract import ProviderContext, Tags


class CloudFailed(ActionFailed):
    """The cloud refused, or did not answer. `reason` is its own word for it, empty where it has none."""

    def __init__(self, *sentences: str, reason: str = "", retryable: bool = True) -> None:
        super().__init__(*sentences, retryable=retryable)
        self.reason = reason


class NodeState(Enum):
    """How a machine of a cloud stands; the other states of clouds are `OTHER`."""

    STARTING = "starting"
    RUNNING = "running"
    TERMINATED = "over"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine as its cloud tells of it. `marks` is None for one that nobody of us made."""

    id: str
    state: NodeState
    public_ip: str = ""
    private_ip: str = ""
    host_name: str = ""
    tags: Tags | None = None
    created_at: datetime | None = None


class Endpoint(NamedTuple):
    """Where a cloud answers. Only the `addresses` are dialled: they were checked."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]


class Cloud(Protocol):
    """One region of one account. The methods raise CloudFailed."""

    def create_node(self, order: Order, name: str, tags: Tags, token: str, key_name: str) -> Node:
        """Make a machine that carries the marks from its first moment. The same token makes none twice."""
        ...

    def find_tagged(self, tags: Mapping[str, str]) -> Sequence[Node]:
        """Return the machines with all of these marks; not those that are over."""
        ...

    def describe(self, ids: Sequence[str]) -> Sequence[Node]:
        """Return those of the machines that the cloud knows."""
        ...

    def terminate(self, node_id: str) -> None:
        """Take a machine down. One that is gone is a success."""
        ...

    def import_key(self, name: str, public_key: str) -> None:
        """Let the cloud know a public key; one that is there under this name is the same."""
        ...


ADDRESS = "machines.address"
PORT = "machines.ssh-port"
WAIT = "machines.wait-for-ssh"
TIMEOUT = "machines.start-timeout"
_PUBLIC, _PRIVATE = "public", "private"
_SSH = 22
_PORTS = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """How machines are reached, and how long they may take until they are."""

    private: bool = False
    port: int = _SSH
    waits_for_ssh: bool = True
    within_s: float = limits.CLOUD_START_S

    def addresses(self, node: Node) -> tuple[str, str]:
        """Return the public and the private address that a machine is known by."""
        return ("" if self.private else node.public_ip), node.private_ip

    def has_address(self, node: Node) -> bool:
        """Tell whether there is an address to reach a machine by."""
        return any(self.addresses(node))


def read_node_access(context: ProviderContext) -> NodeAccess:
    """Return what the policies say. Raises ActionFailed for a value that cannot be."""
    policies = context.policies
    address = policies.get(ADDRESS, _PUBLIC)
    if address not in (_PUBLIC, _PRIVATE):
        raise _wrong(ADDRESS, address, f"{_PUBLIC} or {_PRIVATE}")
    waits = policies.get(WAIT, True)
    if not isinstance(waits, bool):
        raise _wrong(WAIT, waits, "true or false")
    return NodeAccess(
        private=address == _PRIVATE,
        port=_number(policies.get(PORT, _SSH), PORT, _PORTS),
        waits_for_ssh=waits,
        within_s=_number(policies.get(TIMEOUT, int(limits.CLOUD_START_S)), TIMEOUT, int(limits.CLOUD_START_LONGEST_S)),
    )


def _number(value: Any, name: str, maximum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise _wrong(name, value, f"a whole number from 1 to {maximum}")
    return value


def _wrong(name: str, value: Any, expected: str) -> ActionFailed:
    return ActionFailed(
        f"The policy {name} of the environment is {str(value)[:80]!r}: expected {expected}.", retryable=False
    )
