"""The error tree. It knows nothing of HTTP: `web/problems.py` alone maps these to statuses.

LaunchbayError
├── BadRequest            what was sent is wrong in itself or in its meaning
│   ├── MalformedBody     not readable at all: content type, encoding, syntax, bounds
│   ├── InvalidManifest   carries the findings, each with line and column
│   └── FieldErrors       field name → messages (service update and service command)
├── NotAuthenticated      no or wrong credentials
├── NotAllowed            known caller, not permitted
├── NotFound              no such object
├── Conflict              the object is busy or changed meanwhile
├── TooManyRequests       a rate limit; carries `retry_after_s`
├── TooLarge              beyond a size bound
├── Unavailable           database away, overload, shutting down; carries `retry_after_s`
├── ManifestSourceLocked  the manifest comes from a URL and cannot be replaced by upload
├── ExpressionError       an expression cannot be evaluated; the step that holds it fails
├── OutgoingFailed        an outgoing HTTP exchange did not come about
│   └── AddressRefused    the address rules forbid its target
├── ActionFailed          an action could not do its work; the step fails, and may be retried
├── CannotStart           the process cannot start as it is set up; for the operator, before anything is served
└── Fenced                this process lost the job to another one and must write nothing more
"""

from collections.abc import Mapping, Sequence
from typing import Any


class LaunchbayError(Exception):
    """An error with sentences for its reader and a machine-readable code (api-decisions, "Wire" 5)."""

    code = "InternalError"

    def __init__(self, *messages: str, code: str | None = None) -> None:
        super().__init__(" ".join(messages))
        self.messages: tuple[str, ...] = messages
        if code is not None:
            self.code = code


class BadRequest(LaunchbayError):
    """What was sent is wrong in its meaning; the sentences name the place and the remedy."""

    code = "BadRequest"


class MalformedBody(BadRequest):
    """The body cannot be read at all; refused before any data is looked at (order of checks, "Wire" 6)."""

    code = "MalformedBody"


class InvalidManifest(BadRequest):
    """The manifest has errors. `findings` holds `{message, line, column, code}` of each."""

    code = "InvalidManifest"

    def __init__(self, findings: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(*(f"Line {f['line']}, column {f['column']}: {f['message']}" for f in findings))
        self.findings = tuple(findings)


class FieldErrors(BadRequest):
    """Errors by field name, the answer form of service update and service command (reference §7)."""

    code = "FieldErrors"

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        super().__init__(*(f"{name}: {message}" for name, messages in fields.items() for message in messages))
        self.fields = {name: list(messages) for name, messages in fields.items()}


class NotAuthenticated(LaunchbayError):
    """Credentials are missing, wrong, expired or revoked."""

    code = "NotAuthenticated"


class NotAllowed(LaunchbayError):
    """The caller is known, the object exists, the permission is missing."""

    code = "NotAllowed"


class NotFound(LaunchbayError):
    """The addressed object does not exist."""

    code = "NotFound"


class Conflict(LaunchbayError):
    """The object is busy with a job, or was changed by somebody else meanwhile."""

    code = "Conflict"


class TooManyRequests(LaunchbayError):
    """A rate limit was reached; `retry_after_s` tells when to try again."""

    code = "TooManyRequests"

    def __init__(self, *messages: str, retry_after_s: int) -> None:
        super().__init__(*messages)
        self.retry_after_s = retry_after_s


class TooLarge(LaunchbayError):
    """A body or value is beyond its bound in `limits.py`."""

    code = "TooLarge"


class Unavailable(LaunchbayError):
    """The service cannot answer now: database away, overload, shutting down."""

    code = "Unavailable"

    def __init__(self, *messages: str, code: str | None = None, retry_after_s: int = 2) -> None:
        super().__init__(*messages, code=code)
        self.retry_after_s = retry_after_s


class ManifestSourceLocked(LaunchbayError):
    """The manifest is loaded from an external location; the reference answers 401 to an upload then."""

    code = "ManifestSourceLocked"


class ExpressionError(LaunchbayError):
    """An expression cannot be evaluated against its scope (manifest-language §6)."""

    code = "ExpressionError"


class EgressFailed(LaunchbayError):
    """An outgoing HTTP exchange did not come about. `retryable` is False where another attempt cannot help."""

    code = "OutgoingFailed"

    def __init__(self, *messages: str, retryable: bool = True) -> None:
        super().__init__(*messages)
        self.retryable = retryable


class AddressRefused(EgressFailed):
    """The address rules forbid the target of an outgoing connection (quality.md §3)."""

    code = "AddressRefused"

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages, retryable=False)


class ActionFailed(LaunchbayError):
    """An action could not do its work. `retryable` is False where another attempt cannot help."""

    code = "ActionFailed"

    def __init__(self, *messages: str, retryable: bool = True) -> None:
        super().__init__(*messages)
        self.retryable = retryable


class Fenced(LaunchbayError):
    """Another worker has taken the job over; whatever this one still holds must not be written."""

    code = "Fenced"


class CannotStart(LaunchbayError):
    """The process cannot start as it is set up; the sentences tell the operator what to change."""

    code = "CannotStart"


class WorkflowFailed(Exception):
    """A workflow, and with it whatever called it, has failed; the text is for the instance's error message.

    `propagates` False lets the instance keep its status where the job's plan would change it.
    """

    def __init__(self, text: str, *, propagates: bool = True) -> None:
        super().__init__(text)
        self.propagates = propagates
