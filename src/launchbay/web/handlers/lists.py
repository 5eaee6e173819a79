"""Short lists, whole or by pages (api-decisions, "Wire" 9). Lists that grow without end are streamed instead."""

from collections.abc import Sequence
from typing import Any, Protocol

from launchbay.web.answers import Json
from launchbay.web.call import Call
from launchbay.web.encode import Paging, next_link


class _Item(Protocol):
    id: str


def listed(call: Call[Any, Paging], items: Sequence[_Item]) -> Json:
    """Return the items as they come; with `limit` or `after` in the query, by their ids, from there and so many."""
    query = call.query
    if query.limit is None and query.after is None:
        return Json(items)
    after = query.after or ""
    following = sorted((item for item in items if item.id > after), key=lambda item: item.id)
    shown = following[: query.limit]
    return Json(shown, next_link(call, shown[-1].id) if len(shown) < len(following) else ())
