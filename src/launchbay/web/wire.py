"""Protocols of others, such as SCIM, behind the checks of the API.

They have paths, media types and errors of their own.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from launchbay.usecases.context import Context
from launchbay.web.responses import Headers


class WireCall(NamedTuple):
    """One request, whose caller is known.

    `path` is what follows the root, decoded. `query` is the raw query. Headers have lower-case names.
    """

    ctx: Context
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    address: str  # of the root, for links


class WireReply(NamedTuple):
    """What is sent: its headers include the media type."""

    status: int
    body: bytes
    headers: Headers


class WireProtocol(Protocol):
    """What a feature speaks below `root`.

    The dispatcher authenticates, counts and logs each request, as those of endpoints, and bounds its body.
    """

    @property
    def name(self) -> str:
        """The operation, in logs and metrics."""
        ...

    @property
    def root(self) -> str:
        """The path that all others begin with, such as `/scim/v2`."""
        ...

    async def answer(self, call: WireCall) -> WireReply:
        """Answer a request. What it raises goes to `refuse`."""
        ...

    def refuse(self, error: Exception, request_id: str) -> WireReply:
        """Return the answer to an exception, also if the caller isn't known."""
        ...


def is_below(root: str, path: str) -> bool:
    """Return whether a path belongs to a protocol."""
    return path == root or path.startswith(f"{root}/")
