"""From answers to bytes, and what lists need: rows of a stream, pages, links (api-decisions, "Wire" 2 and 9)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from launchbay.limits import LIST_LIMIT_MAX
from launchbay.web.answers import HTML, JSON, YAML, Headers, Html, Json, RawJson, Text, WholeAnswer, Yaml
from launchbay.web.call import Call

_encoder = msgspec.json.Encoder()


class Paging(msgspec.Struct, frozen=True):
    """The query of every list: paging is off unless `limit` is given."""

    limit: (
        Annotated[
            int,
            msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="At most so many items; without it, all of them."),
        ]
        | None
    ) = None
    after: (
        Annotated[
            str,
            msgspec.Meta(pattern="^[0-9a-f]{24}$", max_length=24, description="Only items after the one with this id."),
        ]
        | None
    ) = None


def whole(answer: WholeAnswer) -> tuple[str, bytes]:
    """Return content type and bytes of an answer that is sent at once."""
    if isinstance(answer, Json):
        return JSON, _encoder.encode(answer.value)
    if isinstance(answer, RawJson):
        return JSON, answer.data
    if isinstance(answer, Yaml):
        return YAML, answer.text.encode()
    if isinstance(answer, Html):
        return HTML, answer.text.encode()
    if isinstance(answer, Text):
        return answer.media_type, answer.data
    return JSON, b"{}"


def rows(values: Sequence[Any]) -> bytes:
    """Return one chunk of a JsonList: the encoded values, separated, without the brackets."""
    return _encoder.encode(values)[1:-1]


def page(call: Call[Any, Any], values: Sequence[Mapping[str, Any]], limit: int) -> Json:
    """Return one page, and the link to the next one when there is more.

    `values` are up to `limit` + 1 items in the order of their ids: the one too many only tells that more follow.
    """
    shown = values[:limit]
    more = len(values) > limit > 0
    return Json(shown, next_link(call, shown[-1]["id"]) if more else ())


def next_link(call: Call[Any, Any], after: str) -> Headers:
    """Return the `Link` header that leads to the items after the given id, with everything else of the query kept."""
    path, _, query = call.target.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "after"]
    return (("Link", f'<{path}?{urlencode([*kept, ("after", after)])}>; rel="next"'),)
