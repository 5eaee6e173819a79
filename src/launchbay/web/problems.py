"""The only HTTP mapping of errors (architecture, "Rules of shape" 4; api-decisions, "Wire" 5 and 7)."""

import http
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from launchbay import errors
from launchbay.web.requests import JSON

_log = structlog.get_logger("launchbay.web")

# Walked along the class's bases, so that a new kind of an error needs no new line here.
STATUSES: Mapping[type[errors.LaunchbayError], int] = {
    errors.BadRequest: 400,
    errors.NotAuthenticated: 401,
    errors.ManifestSourceLocked: 401,
    errors.NotAllowed: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.TooManyRequests: 429,
    errors.Unavailable: 503,
    # These belong to running steps. A service command runs an action inside a request, and then they tell its caller
    # what to change.
    errors.ExpressionError: 400,
    errors.ActionFailed: 400,
    errors.EgressFailed: 400,
    # Another process took over what this one was doing: the same request finds a healthy one soon.
    errors.Fenced: 503,
}

_INTERNAL = "Something went wrong inside the service. Try again; if it stays, give the request id to the administrator."
_CHALLENGE = ("WWW-Authenticate", 'Basic realm="Launchbay"')


class MethodNotAllowed(errors.LaunchbayError):
    """The path exists, but not for this method; `allowed` goes into `Allow`."""

    code = "MethodNotAllowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not possible here; use one of {', '.join(allowed)}.")
        self.allowed = tuple(allowed)


class Problem(msgspec.Struct, frozen=True):
    """An error as it goes over the wire."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


class ErrorBody(msgspec.Struct, rename="camel", omit_defaults=True):
    """The body of every error, except those of service update and service command."""

    errors: Sequence[str]
    code: str
    request_id: str
    findings: Sequence[Mapping[str, Any]] | None = None


def problem(error: Exception, request_id: str, *, field_errors: bool = False) -> Problem:
    """Return the answer for an exception. One that is not ours is logged, and says nothing of the inside.

    With `field_errors` the body is an object of name → messages, whatever the error: clients of service update and
    service command read nothing else (reference §7); what belongs to no field stands under `errors`.
    """
    status = status_of(error)
    if not isinstance(error, errors.LaunchbayError) or status == 500:
        log_failure("http.failed", error, request_id)
        error = errors.LaunchbayError(_INTERNAL)
    return Problem(status, _body(error, status, request_id, field_errors=field_errors), _headers(error, status))


def log_failure(event: str, error: Exception, request_id: str) -> None:
    """Log an unexpected exception. The traceback is text: renderers showing local variables would show credentials."""
    _log.error(event, request_id=request_id, exception="".join(traceback.format_exception(error)))


def status_of(error: Exception) -> int:
    """Return the HTTP status of an exception; 500 for every one that is not in the error tree."""
    if isinstance(error, MethodNotAllowed):
        return 405
    for kind in type(error).__mro__:
        status = STATUSES.get(kind)
        if status is not None:
            return status
    return 500


def plain_problem(status: int, code: str, message: str, request_id: str) -> Problem:
    """Return the answer for what is refused before there is a request: broken or slow HTTP."""
    return Problem(status, msgspec.json.encode(ErrorBody([message], code, request_id)), (("Content-Type", JSON),))


def _body(error: errors.LaunchbayError, status: int, request_id: str, *, field_errors: bool) -> bytes:
    if isinstance(error, errors.FieldErrors):
        return msgspec.json.encode(error.fields)
    sentences = list(error.messages) or [f"{http.HTTPStatus(status).phrase}."]
    if field_errors:
        return msgspec.json.encode({"errors": sentences})
    body = ErrorBody(sentences, error.code, request_id)
    if isinstance(error, errors.InvalidManifest):
        body.findings = error.findings
    return msgspec.json.encode(body)


def _headers(error: errors.LaunchbayError, status: int) -> tuple[tuple[str, str], ...]:
    headers = [("Content-Type", JSON)]
    if status == 401:
        headers.append(_CHALLENGE)
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", ", ".join(error.allowed)))
    if isinstance(error, (errors.TooManyRequests, errors.Unavailable)):
        headers.append(("Retry-After", str(max(1, error.retry_after_s))))
    elif status == 503:
        headers.append(("Retry-After", "1"))
    return tuple(headers)
