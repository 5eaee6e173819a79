"""What handlers may reach. Bootstrap fills it; a family that needs more adds one field."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from launchbay.usecases.desk import Desk


@dataclass(frozen=True, kw_only=True)
class Services:
    """The outside of a handler, given to it with every call."""

    desk: Desk  # for the use cases
    # Raises Unavailable, saying why, while this process cannot answer requests (database away).
    ready: Callable[[], Awaitable[None]]
