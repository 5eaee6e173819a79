"""What handlers may reach. Bootstrap fills it; a family that needs more adds one field."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from launchbay.usecases.context import Desk
from launchbay.usecases.idempotency import Idempotency
from launchbay.usecases.sign_in import OpenIdSignIn


@dataclass(frozen=True, slots=True)
class SignInWay:
    """Another way to prove who one is, as a link on the page for refresh tokens; `path` starts it."""

    name: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Services:
    """The outside of a handler, given to it with every call."""

    desk: Desk  # for the use cases
    idempotency: Idempotency
    # Raises Unavailable, saying why, while this process cannot answer requests (database away).
    ready: Callable[[], Awaitable[None]]
    metrics: Callable[[], Awaitable[bytes]]  # this process's, in Prometheus' text format
    metrics_token: str  # "" shows them to everybody
    base_url: str  # where clients find this server, "" where that is the Host that they ask for
    sign_in_ways: tuple[SignInWay, ...] = ()  # beside the local password
    openid: OpenIdSignIn | None = None
