"""The error tree. It knows nothing of HTTP: only `web/problems.py` maps these errors to statuses.

LaunchbayError
├── BadRequest               the request is invalid in form or meaning
│   ├── MalformedBody        unreadable: content type, encoding, syntax, limits
│   ├── InvalidManifest      contains the findings, each with line and column
│   ├── FieldErrors          field name → messages (service update and service command)
│   └── WrongRules           (features/directories/values.py) rules of a directory or archive can't be; has `keys`
├── NotAuthenticated         credentials are missing or wrong
├── NotAllowed               the caller is known but has no permission
│   ├── MissingPermission    (auth/lookup.py) which permission; has `permission` and `touched`
│   └── Refused              (planning/decisions.py) a rule doesn't allow a change now; has `until`
├── NotFound                 the object doesn't exist
├── Conflict                 the object is busy, or another request changed it
│   └── InstanceBusy         (usecases/workflows.py) a job keeps the instance; has `instance_id`
├── PreconditionFailed       the object isn't the one that the caller has read; has its present `tag`
│   └── SavedMeanwhile       a form of the console would overwrite it unseen
├── TooManyRequests          a rate limit; has `retry_after_s`
├── TooLarge                 beyond a size limit
├── Unavailable              database unavailable, overload, stopping; has `retry_after_s`
│   ├── DatabaseFull         (store/database.py) the disk of the database is full
│   ├── OutcomeUnknown       (store/database.py) the connection was lost during a commit
│   ├── NotTogether          (store/database.py) a group of commits failed, each repeats its own
│   └── SecretKeyOutdated    this process lacks the newest secret key, so it encrypts nothing
├── ManifestSourceLocked     the manifest comes from a URL, so an upload can't replace it
├── MethodNotAllowed         (web/problems.py) the path doesn't support the method
├── ClientDisconnect         (web/requests.py) the client is gone, so nobody gets a response
├── ScimRefused              (features/scim/door.py) a request of a provider isn't what SCIM allows; has `status`
├── TypeSyntaxError          (model/types.py) a string isn't a type; has `offset`
├── CoercionError            (model/values.py) a value can't become the type without loss
├── ExpressionError          an expression can't be evaluated; its step fails
│   └── MalformedExpression  (manifest/paths.py) its syntax is wrong; has `offset`
├── EgressFailed             an outgoing HTTP request failed
│   ├── AddressRefused       the address rules forbid its target
│   ├── AwsRefused           (egress/aws.py) AWS refused a request; has `reason`
│   └── ProxyFailed          (egress/proxy.py) the outgoing proxy can't be reached, or refuses
├── ActionFailed             an action failed; its step fails, and may be retried
│   ├── NotApproved          what a step would do isn't what was approved
│   ├── NotThereYet          a step needs what an earlier one may make
│   ├── NothingThere         (features/secret_providers/rules.py) a secret provider has no such key, or nothing at it
│   ├── SecretFailed         (service_types/contract.py) a provider can't give a secret; has `problem`
│   ├── CloudFailed          (machines/clouds/driver.py) the cloud rejected a request
│   └── EngineRefused        (machines/containers/engine_api.py) the container engine rejected a request
├── ShellLost                (machines/contract.py) the connection to a machine was lost
├── StepFailed               (runtime/step.py) the last attempt of a step failed
├── WorkflowFailed           a workflow failed, and with it its caller
├── Fenced                   another process took over the job; this one must write nothing more
├── CannotStart              the configuration prevents the start; for the operator
├── UnsealFailed             (auth/secret_key.py) an encrypted value can't be decrypted
├── UnusableManifest         (manifest_tests/runner.py) a manifest that a test uses has errors
├── EndlessTriggers          (manifest_tests/world.py) workflows trigger each other endlessly
├── Deadlock                 (manifest_tests/virtual_time.py) all tasks wait, and no timer is set
└── DemoFailed               (demo/processes.py) the demo can't continue

A function that reads a string raises ValueError, such as `due_times`. ClientError is the root of the client package,
which people use without the server.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class LaunchbayError(Exception):
    """An error with messages for people and a code for programs (conformance.md, "Wire" 5).

    `field` is the field of the request that it is about, by its name in the API, if the message doesn't begin with it.
    """

    code = "InternalError"

    def __init__(self, *messages: str, code: str | None = None, field: str = "") -> None:
        super().__init__(" ".join(messages))
        self.messages: tuple[str, ...] = messages
        self.field = field
        if code is not None:
            self.code = code

    def add(self, message: str) -> None:
        """Add a message in place, so that `raise` keeps where the error comes from."""
        self.messages = (*self.messages, message)
        self.args = (" ".join(self.messages),)

    def reword(self, change: Callable[[str], str]) -> None:
        """Change the messages in place, so that `raise` keeps where the error comes from."""
        self.messages = tuple(map(change, self.messages))
        self.args = (" ".join(self.messages),)


class BadRequest(LaunchbayError):
    """The request is invalid; the messages name the problem and the fix."""

    code = "BadRequest"


class MalformedBody(BadRequest):
    """The body is unreadable; rejected before any data is read (order of checks, "Wire" 6)."""

    code = "MalformedBody"


class InvalidManifest(BadRequest):
    """The manifest has errors. `findings` has `{message, line, column, code}` of each."""

    code = "InvalidManifest"

    def __init__(self, findings: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(*(f"Line {f['line']}, column {f['column']}: {f['message']}" for f in findings))
        self.findings = tuple(findings)


class FieldErrors(BadRequest):
    """Errors by field name, the response of service update and service command (reference §7)."""

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
    """The addressed object doesn't exist."""

    code = "NotFound"


class Conflict(LaunchbayError):
    """The object is busy with a job, or another request changed it."""

    code = "Conflict"


class PreconditionFailed(LaunchbayError):
    """The caller has read an older state.

    `tag` is the present entity tag, with quotes.
    """

    code = "PreconditionFailed"

    def __init__(self, *messages: str, tag: str) -> None:
        super().__init__(*messages)
        self.tag = tag


class TooManyRequests(LaunchbayError):
    """A rate limit is reached; retry after `retry_after_s`."""

    code = "TooManyRequests"

    def __init__(self, *messages: str, retry_after_s: int) -> None:
        super().__init__(*messages)
        self.retry_after_s = retry_after_s


class TooLarge(LaunchbayError):
    """A body or value exceeds its limit in `limits.py`."""

    code = "TooLarge"


class Unavailable(LaunchbayError):
    """The service can't respond now: database unavailable, overload, stopping."""

    code = "Unavailable"

    def __init__(self, *messages: str, code: str | None = None, retry_after_s: int = 2) -> None:
        super().__init__(*messages, code=code)
        self.retry_after_s = retry_after_s


class SecretKeyOutdated(Unavailable):
    """This process lacks the newest secret key.

    What it encrypted could be lost.
    """

    code = "SecretKeyOutdated"

    def __init__(self) -> None:
        super().__init__(
            "This server doesn't have the newest secret key, so it can't store or read secrets.",
            "Its administrator must copy the key file of another server to it. Its log has the path.",
            retry_after_s=5,
        )


class ManifestSourceLocked(LaunchbayError):
    """The manifest is loaded from a URL; the reference returns 401 for an upload."""

    code = "ManifestSourceLocked"


class ExpressionError(LaunchbayError):
    """An expression can't be evaluated in its scope (manifest-language §6)."""

    code = "ExpressionError"


class EgressFailed(LaunchbayError):
    """An outgoing HTTP request failed. `retryable` is False if another attempt can't succeed."""

    code = "OutgoingFailed"

    def __init__(self, *messages: str, retryable: bool = True) -> None:
        super().__init__(*messages)
        self.retryable = retryable


class AddressRefused(EgressFailed):
    """The address rules forbid the target of an outgoing connection (docs/reference/outgoing.md)."""

    code = "AddressRefused"

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages, retryable=False)


class ActionFailed(LaunchbayError):
    """An action failed. `retryable` is False if another attempt can't succeed."""

    code = "ActionFailed"

    def __init__(self, *messages: str, retryable: bool = True) -> None:
        super().__init__(*messages)
        self.retryable = retryable


class NotApproved(ActionFailed):
    """What a step would do isn't what was approved.

    Nothing ignores this failure, or tries again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, "Plan and approve the change again.", retryable=False)


class NotThereYet(ActionFailed):
    """Something that a step needs doesn't exist. An earlier step may make it."""


class Fenced(LaunchbayError):
    """Another worker took over the job, or it was cancelled.

    This claim of it must not begin or end anything more.
    """

    code = "Fenced"


class CannotStart(LaunchbayError):
    """The configuration prevents the start; the messages say what to change."""

    code = "CannotStart"


class WorkflowFailed(LaunchbayError):
    """A workflow, and with it its caller, failed; the text is for the instance's error message.

    With `propagates` False, the instance's status stays unchanged even if the job's plan would change it. A refusal is
    that of a step that isn't as approved.
    """

    def __init__(self, text: str, *, propagates: bool = True, is_refusal: bool = False) -> None:
        super().__init__(text)
        self.propagates = propagates
        self.is_refusal = is_refusal


def is_refusal(error: Exception) -> bool:
    """Return whether a step wasn't as approved, perhaps inside a call."""
    return isinstance(error, NotApproved) or (isinstance(error, WorkflowFailed) and error.is_refusal)


def internal_error(what: str) -> str:
    """Return what users read of a defect.

    Its text is in the log alone. `what` is, for example, `job 65f…`.
    """
    return f"Internal error in Launchbay. Find {what} in the server's log and report it."


def describe(error: BaseException) -> str:
    """Return type and text of an exception that foreign code raised; of ours, the text alone."""
    if isinstance(error, LaunchbayError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ is foreign code too
        return type(error).__name__
