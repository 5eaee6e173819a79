"""The seam to `access`: how the frame learns who calls."""

from collections.abc import Mapping
from typing import Protocol

from launchbay.auth.permissions import Actor


class Authenticator(Protocol):
    """Turns the credentials of a request into its caller."""

    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        """Return the caller.

        `headers` has lower-case names; lines of the same name are joined with ", ", so that two `Authorization` lines
        read "Basic …, Bearer …". `client_address` is the peer's IP address, "" where there is none. Raises
        NotAuthenticated, TooManyRequests, Unavailable.
        """
        ...
