"""What the provider needs of a cloud's driver. Its methods block, and are called in threads (`calls.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from launchbay.errors import ActionFailed
from launchbay.machines.clouds.order import Order
from launchbay.machines.marks import Marks


class CloudFailed(ActionFailed):
    """The cloud refused, or did not answer. `reason` is its own word for it, empty where it has none."""

    def __init__(self, *sentences: str, reason: str = "", retryable: bool = True) -> None:
        super().__init__(*sentences, retryable=retryable)
        self.reason = reason


class NodeState(Enum):
    """How a machine of a cloud stands; the other states of clouds are `OTHER`."""

    STARTING = "starting"
    RUNNING = "running"
    OVER = "over"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine as its cloud tells of it. `marks` is None for one that nobody of us made."""

    id: str
    state: NodeState
    public_ip: str = ""
    private_ip: str = ""
    host_name: str = ""
    marks: Marks | None = None
    made_at: datetime | None = None


class Endpoint(NamedTuple):
    """Where a cloud answers. Only the `addresses` are dialled: they were checked."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]


class Cloud(Protocol):
    """One region of one account. The methods raise CloudFailed."""

    def make(self, order: Order, name: str, marks: Marks, token: str, key_name: str) -> Node:
        """Make a machine that carries the marks from its first moment. The same token makes none twice."""
        ...

    def marked(self, marks: Mapping[str, str]) -> Sequence[Node]:
        """Return the machines with all of these marks; not those that are over."""
        ...

    def look(self, ids: Sequence[str]) -> Sequence[Node]:
        """Return those of the machines that the cloud knows."""
        ...

    def end(self, node_id: str) -> None:
        """Take a machine down. One that is gone is a success."""
        ...

    def put_key(self, name: str, public_key: str) -> None:
        """Let the cloud know a public key; one that is there under this name is the same."""
        ...
