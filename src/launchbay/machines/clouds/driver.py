"""What the `cloud` provider requires of a driver, and the policies for access to machines. Pure.

machines.address: private        # the address for outputs and connections. Default: public
machines.ssh-port: 2222
machines.wait-for-ssh: false     # a machine is ready when it runs, without a test of SSH
machines.start-timeout: 900      # seconds until a machine must run and accept the login
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.order import Order
from launchbay.machines.contract import PORT_POLICY, ProviderContext, Tags, invalid_policy, policy_number
from launchbay.model.machine import PORTS, SSH_PORT


class CloudFailed(ActionFailed):
    """The cloud refused a call or did not respond. `reason` is its error code, or empty."""

    def __init__(self, *messages: str, reason: str = "", retryable: bool = True) -> None:
        super().__init__(*messages, retryable=retryable)
        self.reason = reason


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
    """The endpoint of a cloud's API. Connect only to the `addresses`, which were checked."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]


class Cloud(Protocol):
    """One region of one account. The methods raise CloudFailed."""

    def create_node(self, order: Order, name: str, tags: Tags, token: str, key_name: str) -> Node:
        """Create a machine with its tags in one request. The same token creates no second one."""

    def find_tagged(self, tags: Mapping[str, str]) -> Sequence[Node]:
        """Return the machines with all of these tags, without terminated ones."""

    def describe(self, ids: Sequence[str]) -> Sequence[Node]:
        """Return the machines that the cloud knows."""

    def terminate(self, node_id: str) -> None:
        """Terminate a machine. Succeeds if it doesn't exist."""

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
