"""What can go wrong in a call, as a tree.

ClientError
├── ConnectionFailed      there is no answer: refused, cut off, or too late
├── UnreadableAnswer      there is an answer, but not one that this client understands
├── WaitTimedOut          the instance did not get there in time
├── InstanceFailed        the instance cannot get there any more: it failed, or is destroyed
└── ApiError              the server refused; with status, code, messages, fields, findings and request id
    ├── BadRequest        400
    ├── NotAuthenticated  401
    ├── NotAllowed        403
    ├── NotFound          404
    ├── Conflict          409
    ├── PreconditionFailed  412, with the present `tag` of the object
    ├── TooLarge          413
    ├── TooManyRequests   429, with `retry_after_s`
    └── ServerFailed      500 and above, with `retry_after_s` where the server says so
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import msgspec

_COMMAND = "commandname"  # the field of an unknown command, which its message names
_ALERT = re.compile(r'<div role="alert">(.*?)</div>', re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_TITLE_WITHIN_BYTES = 4_096
_TITLE_CHARS = 100
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)


class ClientError(Exception):
    """Any failure of a call."""


class ConnectionFailed(ClientError):
    """There is no answer. `may_have_arrived` tells whether the server may have got the request, and acted on it."""

    def __init__(self, message: str, *, may_have_arrived: bool) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class UnreadableAnswer(ClientError):
    """The answer is not what the API describes: a proxy's page, or a server of another version."""


class WaitTimedOut(ClientError):
    """The instance is still on its way; `status` is its last one."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class JobFailed(ClientError):
    """The awaited job failed; `error_message` is the job's error."""

    def __init__(self, message: str, instance_id: str, job_id: str, error_message: str | None) -> None:
        super().__init__(message)
        self.instance_id, self.job_id, self.error_message = instance_id, job_id, error_message


class InstanceFailed(ClientError):
    """The instance cannot get where it was waited for; `status` and `error_message` are the instance's."""

    def __init__(self, message: str, status: str, error_message: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.error_message = error_message


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an answer that is an error says (docs/reference/errors.md has every code)."""

    status: int
    code: str = ""
    messages: Sequence[str] = ()
    request_id: str = ""
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of service update and service command
    findings: Sequence[Mapping[str, Any]] = ()  # of a manifest: message, line, column, code
    retry_after_s: float | None = None
    tag: str = ""  # the present entity tag of the object, in a 412
    docs: str = ""  # the address of the page that explains the code


class ApiError(ClientError):
    """The server answered with an error; `str()` of it are the server's sentences."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(" ".join(refusal.messages) or f"The server answered {refusal.status}.")
        self.status = refusal.status
        self.code = refusal.code
        self.messages = tuple(refusal.messages)
        self.request_id = refusal.request_id
        self.fields = {name: tuple(messages) for name, messages in refusal.fields.items()}
        self.findings = tuple(refusal.findings)
        self.retry_after_s = refusal.retry_after_s
        self.tag = refusal.tag
        self.docs = refusal.docs


class BadRequest(ApiError):
    """What was sent is wrong in itself or in its meaning."""


class NotAuthenticated(ApiError):
    """The credentials are missing, wrong, expired or revoked."""


class NotAllowed(ApiError):
    """The caller lacks the permission."""


class NotFound(ApiError):
    """There is no such object."""


class Conflict(ApiError):
    """The object is busy, or was changed meanwhile."""


class PreconditionFailed(ApiError):
    """The object has changed since it was read; `tag` is its present tag."""


class TooLarge(ApiError):
    """The body is beyond a limit."""


class TooManyRequests(ApiError):
    """A rate limit was reached, and waiting as the server asked did not help or would take too long."""


class ServerFailed(ApiError):
    """Something went wrong inside the server, or it cannot answer now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    429: TooManyRequests,
}


_UNREACHED = "Check that the server runs, and the address in the proxy's configuration."
# Statuses that proxies answer by themselves, without a request ID, and what to set there.
_OF_PROXIES = {
    413: "Raise its limit of bodies, in nginx: client_max_body_size 20m",
    502: _UNREACHED,
    504: "Raise its time to wait for an answer, in nginx: proxy_read_timeout 60s",
}


def api_error(response: httpx.Response) -> ApiError:
    """Return the error for an answer that is not a success (conformance.md, "Wire" 5), read as far as it can be."""
    headers = response.headers
    retry_after = headers.get("retry-after", "")
    refusal = Refusal(
        response.status_code,
        request_id=headers.get("x-request-id", ""),
        retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
        tag=headers.get("etag", ""),
    )
    try:
        document = msgspec.json.decode(response.content)
    except msgspec.MsgspecError:
        document = None
    if isinstance(document, dict):
        refusal = _told(refusal, document)
    elif headers.get("content-type", "").startswith("text/html"):
        refusal = replace(refusal, messages=_alerts(response.text))
    if not refusal.request_id and not refusal.messages and refusal.status in _OF_PROXIES:
        who = headers.get("server", "").partition("/")[0] or "A proxy"
        reason = f"{who} in front of the server answered {refusal.status}, not Launchbay."
        refusal = replace(refusal, messages=(reason, _OF_PROXIES[refusal.status]))
    elif not refusal.request_id and not refusal.messages and (title := page_title(response.content)):
        reason = f"A web page titled {title!r} was the answer, with status {refusal.status}, not Launchbay's."
        refusal = replace(refusal, messages=(reason, _UNREACHED))
    kind = ServerFailed if refusal.status >= 500 else _BY_STATUS.get(refusal.status, ApiError)
    return kind(refusal)


def page_title(page: bytes) -> str:
    """Return the title of a web page in one line, or ""."""
    found = _TITLE.search(page[:_TITLE_WITHIN_BYTES].decode("utf-8", "replace"))
    return "" if found is None else " ".join(html.unescape(found[1]).split())[:_TITLE_CHARS]


def _alerts(page: str) -> list[str]:
    """Return the error messages that a page of the server shows."""
    found = _ALERT.search(page)
    return [html.unescape(text).strip() for text in _PARAGRAPH.findall(found[1])] if found else []


def _told(refusal: Refusal, document: dict[str, Any]) -> Refusal:
    if "code" in document:
        return replace(
            refusal,
            code=str(document["code"]),
            docs=str(document.get("docs", "")),
            messages=_sentences(document.get("errors")),
            request_id=str(document.get("requestId", refusal.request_id)),
            findings=[each for each in document.get("findings") or () if isinstance(each, dict)],
        )
    # Field name → messages; what belongs to no field stands under `errors`.
    fields = {name: _sentences(messages) for name, messages in document.items()}
    general = fields.pop("errors", [])
    messages = [
        *general,
        *(message if name == _COMMAND else f"{name}: {message}" for name, found in fields.items() for message in found),
    ]
    return replace(refusal, messages=messages, fields=fields)


def _sentences(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value is None else [str(value)]
