"""The only HTTP mapping of errors (conformance.md, "Wire" 5 and 7)."""

import http
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from launchbay import errors
from launchbay.auth.secret_key import UnsealFailed
from launchbay.web.requests import JSON

_log = structlog.get_logger("launchbay.web")

# Looked up along the base classes, so a subclass needs no entry.
STATUSES: Mapping[type[errors.LaunchbayError], int] = {
    errors.BadRequest: 400,
    errors.NotAuthenticated: 401,
    errors.ManifestSourceLocked: 401,
    errors.NotAllowed: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.PreconditionFailed: 412,
    errors.TooLarge: 413,
    errors.TooManyRequests: 429,
    errors.Unavailable: 503,
    UnsealFailed: 503,
    # Errors of running steps. A service command runs an action inside a request, and its caller can fix them.
    errors.ExpressionError: 400,
    errors.ActionFailed: 400,
    errors.EgressFailed: 400,
    # Another process took over the job; a retry reaches it.
    errors.Fenced: 503,
}

_INTERNAL = "Internal error. Retry; if it persists, send the request ID to your administrator."
_CHALLENGE = ("WWW-Authenticate", 'Basic realm="Launchbay"')


class MethodNotAllowed(errors.LaunchbayError):
    """The path exists, but not for this method; `allowed` goes into `Allow`."""

    code = "MethodNotAllowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} isn't allowed on this path. Allowed: {', '.join(allowed)}.")
        self.allowed = tuple(allowed)


class Problem(msgspec.Struct, frozen=True):
    """The response to an error."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


class ErrorBody(msgspec.Struct, rename="camel", omit_defaults=True):
    """The body of every error, except those of service update and service command."""

    errors: Sequence[str]
    code: str
    request_id: str
    findings: Sequence[Mapping[str, Any]] | None = None
    docs: str = ""  # the path of the code's explanation on this server


def _body_of(messages: Sequence[str], code: str, request_id: str) -> ErrorBody:
    return ErrorBody(messages, code, request_id, docs=f"/docs/codes/{code}")


def problem(error: Exception, request_id: str, *, field_errors: bool = False) -> Problem:
    """Return the response to an exception. An unexpected one is logged, and the response hides its details.

    With `field_errors` the body is always an object of messages by field name, because clients of service update and
    service command read nothing else (reference §7). Messages without a field are in `errors`.
    """
    status = status_of(error)
    if not isinstance(error, errors.LaunchbayError) or status == 500:
        log_failure("http.failed", error, request_id)
        error = errors.LaunchbayError(_INTERNAL)
    elif isinstance(error, UnsealFailed):
        _log.error("secret_key.cannot_decrypt", request_id=request_id, error=str(error))
    return Problem(status, _body(error, status, request_id, field_errors=field_errors), _headers(error, status))


def log_failure(event: str, error: Exception, request_id: str) -> None:
    """Log an unexpected exception. The traceback is a string: renderers of local variables would show credentials."""
    _log.error(event, request_id=request_id, exception="".join(traceback.format_exception(error)))


def status_of(error: Exception) -> int:
    """Return the HTTP status of an exception, 500 if it isn't in the error tree."""
    if isinstance(error, MethodNotAllowed):
        return 405
    for kind in type(error).__mro__:
        status = STATUSES.get(kind)
        if status is not None:
            return status
    return 500


def plain_problem(status: int, code: str, message: str, request_id: str) -> Problem:
    """Return the response to malformed or slow HTTP, which never becomes a request."""
    return Problem(status, msgspec.json.encode(_body_of([message], code, request_id)), (("Content-Type", JSON),))


def _body(error: errors.LaunchbayError, status: int, request_id: str, *, field_errors: bool) -> bytes:
    if isinstance(error, errors.FieldErrors):
        return msgspec.json.encode(error.fields)
    messages = list(error.messages) or [f"{http.HTTPStatus(status).phrase}."]
    if field_errors:
        return msgspec.json.encode({"errors": messages})
    body = _body_of(messages, error.code, request_id)
    if isinstance(error, errors.InvalidManifest):
        body.findings = error.findings
    return msgspec.json.encode(body)


def _headers(error: errors.LaunchbayError, status: int) -> tuple[tuple[str, str], ...]:
    headers = [("Content-Type", JSON)]
    if status == 401:
        headers.append(_CHALLENGE)
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", ", ".join(error.allowed)))
    if isinstance(error, errors.PreconditionFailed):
        headers.append(("ETag", error.tag))
    if isinstance(error, (errors.TooManyRequests, errors.Unavailable)):
        headers.append(("Retry-After", str(max(1, error.retry_after_s))))
    elif status == 503:
        headers.append(("Retry-After", "1"))
    return tuple(headers)
