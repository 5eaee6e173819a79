"""The row type of the console's table of pages."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from launchbay.console.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One page, or what one of its forms is sent to. A public one is for those who have not signed in."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    public: bool = False
