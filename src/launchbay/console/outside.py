"""What the console may reach. Bootstrap fills it: the console and the HTTP API do not import each other."""

from collections.abc import Callable
from dataclasses import dataclass

from launchbay.auth.throttle import RateLimits
from launchbay.usecases.context import Desk


@dataclass(frozen=True, slots=True)
class OtherSignIn:
    """Another way to prove who one is, a link on the sign-in page; `path` starts it and comes back to the console."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The outside of a page. `status_of` and `log_failure` are the API's own, so that both treat errors alike."""

    desk: Desk
    base_url: str  # as in the settings, "" where it is the Host that browsers ask for
    known_actions: tuple[str, ...]
    known_types: tuple[str, ...]
    status_of: Callable[[Exception], int]
    log_failure: Callable[[str, Exception, str], None]
    limits: RateLimits | None = None
    sign_in_ways: tuple[OtherSignIn, ...] = ()
