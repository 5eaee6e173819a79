"""What a handler receives."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from launchbay.auth.permissions import Actor
from launchbay.web.services import Services

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")


class Call(msgspec.Struct, Generic[BodyT, QueryT], frozen=True, kw_only=True, gc=False):
    """One request, checked and decoded: `Call[LaunchRequest, None]`, `Call[None, Paging]`.

    `body` is what the row's `body` says (None without one), `query` what its `query` says. Path parameters are
    decoded; those named `id` or `…Id` have the form of an id. Headers have lower-case names.
    """

    caller: Actor | None
    path: Mapping[str, str]
    query: QueryT
    body: BodyT
    headers: Mapping[str, str]
    address: str
    request_id: str
    services: Services
    target: str  # the raw path with the raw query, for links back to this resource

    @property
    def actor(self) -> Actor:
        """The authenticated caller; only rows that are not public have one."""
        assert self.caller is not None, "a public row must not ask who calls"
        return self.caller
