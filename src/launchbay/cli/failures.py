"""How failures are told: the server's sentences, what to do, the request id, and an exit code."""

from collections.abc import Iterator
from typing import Any

import click

from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.printable import printable
from launchbay.client import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    InstanceFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerFailed,
    TooManyRequests,
    WaitTimedOut,
)
from launchbay.errors import LaunchbayError

_CODES: tuple[tuple[type[ClientError], ExitCode], ...] = (
    (NotFound, ExitCode.NOT_FOUND),
    (NotAuthenticated, ExitCode.NOT_AUTHENTICATED),
    (NotAllowed, ExitCode.NOT_ALLOWED),
    (Conflict, ExitCode.CONFLICT),
    (TooManyRequests, ExitCode.UNAVAILABLE),
    (ConnectionFailed, ExitCode.UNAVAILABLE),
    (WaitTimedOut, ExitCode.TIMED_OUT),
    (InstanceFailed, ExitCode.FAILED),
    (ServerFailed, ExitCode.FAILED),
    (ApiError, ExitCode.REFUSED),
)
_REMEDIES_OF_CODES = {
    "InvalidParameters": "Give a value with: -p NAME=VALUE; launchbay application preview shows what would happen.",
    "InvalidManifest": "Check manifests before they are sent with: launchbay validate FILE",
}
_REMEDIES = {
    ExitCode.NOT_AUTHENTICATED: "Sign in with: launchbay login",
    ExitCode.NOT_ALLOWED: "See what your roles allow with: launchbay permission explain --help",
    ExitCode.CONFLICT: "Wait for the running job with: launchbay instance wait INSTANCE",
}


class Missing(ClientError):
    """A name that nothing has; the sentence says what may have been meant."""


class Failed(click.ClickException):
    """A failure with an exit code of its own."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc] # click reads it from the instance


class RemoteCommand(click.Command):
    """A command that talks to a server: what the client raises becomes a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except ClientError as error:
            raise Failed(printable("\n".join(lines(error, ctx.info_name))), code_of(error)) from error
        except LaunchbayError as error:
            raise Failed("\n".join(error.sentences), ExitCode.FAILED) from error
        except KeyboardInterrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def code_of(error: ClientError) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, Missing):
        return ExitCode.NOT_FOUND
    if isinstance(error, ServerFailed) and error.status == 503:
        return ExitCode.UNAVAILABLE
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def lines(error: ClientError, command: str | None = None) -> Iterator[str]:
    """Yield what to tell of an error in a command."""
    if not isinstance(error, ApiError):
        yield str(error)
        return
    yield from error.messages or (str(error),)
    remedy = _REMEDIES_OF_CODES.get(error.code) or _REMEDIES.get(code_of(error))
    if remedy and command != "login":
        yield remedy
    reference = ", ".join(part for part in (error.code, error.request_id and f"request {error.request_id}") if part)
    if reference:
        yield f"({reference})"
