"""Conditional requests: tags of answers, `If-None-Match`, and `If-Match` (RFC 9110 §13; decision 0110).

The tag of an answer is a hash of everything that it shows: if it reads the same, it has the same tag. A change compares
the tag of what the caller would read now, in the transaction that writes, with the object locked.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, get_origin

import msgspec

from launchbay import __version__
from launchbay.errors import BadRequest, NotFound, PreconditionFailed
from launchbay.store.database import Connection
from launchbay.web import responses
from launchbay.web.requests import JSON, Request
from launchbay.web.responses import (
    EventStreamResponse,
    HTMLResponse,
    JSONStream,
    TextStream,
    Versioned,
    response_of,
)
from launchbay.web.routing import Endpoint

IF_MATCH = "if-match"
ITEM_TAGS = "etags"
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_STRONG_TAGS = re.compile(r'\s*"[\x21\x23-\x7e\x80-\xff]*"(?:\s*,\s*"[\x21\x23-\x7e\x80-\xff]*")*\s*')
_TAG_BYTES = 16
_VERSION = f"launchbay {__version__}".encode()  # another version may show the same rows otherwise


def has_tag(endpoint: Endpoint) -> bool:
    """Return whether successful answers of the endpoint carry an ETag."""
    kind = endpoint.returns.media_type
    return endpoint.method == "GET" and not endpoint.public and kind not in {responses.HTML, responses.EVENTS}


def tag_of(*parts: bytes) -> str:
    """Return the entity tag of what consists of these parts."""
    digest = blake2b(digest_size=_TAG_BYTES)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return f'"{digest.hexdigest()}"'


def answer_tag(media_type: str, data: bytes, headers: responses.Headers) -> str:
    """Return the tag of a complete answer.

    Its headers count, because `Link` says whether more follows.
    """
    return tag_of(media_type.encode(), data, *(f"{name}: {value}".encode() for name, value in headers))


def version_tag(version: bytes) -> str:
    """Return the tag of an answer that depends on this alone."""
    return tag_of(_VERSION, version)


def matches(condition: str, tag: str, *, weak: bool = False) -> bool:
    """Return whether a list of tags, or `*`, names this one.

    `weak` ignores the `W/` of tags (RFC 9110 §8.8.3.2).
    """
    if condition.strip() == "*":
        return True
    given = _TAG.findall(condition)
    return tag in ((each.removeprefix("W/") for each in given) if weak else given)


def prefers_item_tags(headers: Mapping[str, str]) -> bool:
    """Return whether the request has `Prefer: etags` (RFC 7240)."""
    return ITEM_TAGS in (part.partition("=")[0].strip().lower() for part in headers.get("prefer", "").split(","))


def with_item_tags(items: bytes, *, strong: bool) -> bytes:
    """Return the encoded items of an array, each object with its tag in `etag`."""
    kind = b'"' if strong else b'W/"'
    encoded = []
    for item in msgspec.json.decode(b"[" + items + b"]", type=list[msgspec.Raw]):
        data = bytes(item)
        if data[:1] == b"{":
            comma = b"," if len(data) > 2 else b""
            tag = tag_of(data).encode()[1:-1]
            data = data[:-1] + comma + b'"etag":' + msgspec.json.encode((kind + tag + b'"').decode()) + b"}"
        encoded.append(data)
    return b",".join(encoded)


class Conditions:
    """The GET of each change whose tag `If-Match` names."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        table = tuple(endpoints)
        self._by_id = {endpoint.operation_id: endpoint for endpoint in table}
        self._reads = {endpoint.path: endpoint for endpoint in table if has_tag(endpoint)}
        self._shown_by = {endpoint.operation_id: self._find(endpoint) for endpoint in table if _is_change(endpoint)}
        found_for = ((endpoint.path, self._shown_by.get(endpoint.operation_id)) for endpoint in table)
        self._lists_of_items = {
            found.operation_id for path, found in found_for if found is not None and _is_item(found, path)
        }

    def shown_by(self, endpoint: Endpoint) -> Endpoint | None:
        """Return the GET that shows what the change is about, or None."""
        return self._shown_by.get(endpoint.operation_id)

    def has_strong_items(self, endpoint: Endpoint) -> bool:
        """Return whether changes name the items of this list in `If-Match`.

        Those are items that no other GET shows.
        """
        return endpoint.operation_id in self._lists_of_items

    def _find(self, endpoint: Endpoint) -> Endpoint | None:
        if endpoint.shown_by is None:
            return None
        if endpoint.shown_by:
            return self._by_id[endpoint.shown_by]
        same = self._reads.get(endpoint.path)
        if same is not None:
            return None if endpoint.method == "POST" else same  # a POST to what can be read adds to it
        above = endpoint.path
        while above.count("/") > 3:
            above, _, last = above.rpartition("/")
            found = self._reads.get(above)
            if found is not None and (above.endswith("}") or last.startswith("{")):
                return found if endpoint.method != "POST" or above.endswith("}") else None
        return None

    async def check(self, call: Request[Any, Any], endpoint: Endpoint, connection: Connection) -> None:
        """Lock the object of a change and compare its tag with `If-Match`.

        The connection is in the transaction of the change, and loans join it. Raises PreconditionFailed with the
        present tag, BadRequest if the change takes no condition, and what reading the object raises.
        """
        shown_by = self.shown_by(endpoint)
        if shown_by is None:
            raise BadRequest(
                "If-Match isn't supported here. Send the request without it.",
                code="ConditionNotSupported",
            )
        condition = call.headers[IF_MATCH]
        if condition.strip() != "*" and not _STRONG_TAGS.fullmatch(condition):
            raise BadRequest(
                f"If-Match has {condition[:80]!r}, which isn't a strong tag.",
                'Send the ETag of the answer that you read as it is, with its quotes: If-Match: "…". '
                "Tags with W/ don't match.",
                code="InvalidCondition",
            )
        # Before the lock too: who may not read an object must not lock it.
        for is_locked in (False, True):
            if is_locked:
                await _lock(connection, call)
            tag = await _present_tag(call, endpoint, shown_by)
            if not matches(condition, tag):
                raise PreconditionFailed(
                    "The object has changed since you read it.",
                    "Read it again, and send the change with the ETag of that answer in If-Match.",
                    tag=tag,
                )


def _is_change(endpoint: Endpoint) -> bool:
    return endpoint.method != "GET" and not endpoint.public


def _is_item(shown_by: Endpoint, path: str) -> bool:
    """Return whether the path is that of an item of a list."""
    return get_origin(shown_by.returns.type) is list and path.startswith(f"{shown_by.path}/{{")


async def _lock(connection: Connection, call: Request[Any, Any]) -> None:
    """Lock the object that the path begins with.

    What belongs to it is written under the same lock.
    """
    _, _, _, root, object_id, *_ = (*call.target.partition("?")[0].split("/"), "", "")
    if root in {"users", "tokens"}:
        root, object_id = "users", call.actor.user_id  # only paths of the caller's own account begin with these
    await call.ctx.app.locks[root](connection, id=object_id)


async def _present_tag(call: Request[Any, Any], change: Endpoint, shown_by: Endpoint) -> str:
    """Return the tag that the GET would answer now, and raise what it raises."""
    reading = msgspec.structs.replace(call, body=None, query=None if shown_by.query is None else shown_by.query())
    response = response_of(await shown_by.handler(reading))
    if isinstance(response, Versioned):
        return response.tag
    assert not isinstance(response, TextStream | EventStreamResponse | HTMLResponse), f"{shown_by.operation_id}: a tag"
    if isinstance(response, JSONStream):
        data = b"[" + b",".join([responses.encode_items(each) async for each in response.chunks if each]) + b"]"
        media_type, headers = JSON, response.headers
    else:
        (media_type, data), headers = responses.encode_buffered(response), response.headers
    if not _is_item(shown_by, change.path):
        return answer_tag(media_type, data, headers)
    names = [name for name in change.parameters() if name not in shown_by.parameters()]
    wanted = call.path[names[0]]
    for item in msgspec.json.decode(data, type=list[msgspec.Raw]):
        if wanted in (msgspec.json.decode(item).get(field) for field in ("id", names[0])):
            return tag_of(bytes(item))
    raise NotFound(f"{wanted[:60]!r} is not in the list that {shown_by.path} shows.")
