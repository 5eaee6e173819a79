"""What the core asks of the outside world. The core decides, in generators that yield these; a driver does them.

A generator gets the outcome of each effect back from its `yield`. It is the same for the synchronous and for the
asynchronous client: only the two drivers differ.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, ready to be sent. `timeout_s` is for each read and write, not for the whole."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer; names of headers are in lower case. The content of one that was opened is still to be read."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Failure:
    """There was no answer, or it was cut off. `arrived` tells whether the server may have got the request."""

    message: str
    arrived: bool


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request and read the whole answer. Outcome: Response or Failure."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Send a request and leave a successful answer open for `Read`. Outcome: Response or Failure."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """Read the next piece of what is open. Outcome: bytes, empty at the end, or Failure."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close what is open."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Do these steps while no other call of the same client does such. Outcome: what they return."""

    steps: "Generator[Effect, Any, Any]"


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Hand an item to whoever iterates."""

    item: T = field()


Effect: TypeAlias = Send | Open | Read | Close | Pause | Exclusive
Steps: TypeAlias = Generator[
    Effect, Any, T
]  # Any: what comes back depends on the effect; see `send` and its like below
Stream: TypeAlias = Generator[Effect | Emit[T], Any, None]


def send(request: Request) -> Steps[Response | Failure]:
    """Send a request and read the whole answer."""
    outcome: Response | Failure = yield Send(request)
    return outcome


def open_(request: Request) -> Steps[Response | Failure]:
    """Send a request and leave a successful answer open."""
    outcome: Response | Failure = yield Open(request)
    return outcome


def read() -> Steps[bytes | Failure]:
    """Read the next piece of what is open; empty at the end."""
    outcome: bytes | Failure = yield Read()
    return outcome
