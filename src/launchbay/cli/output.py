"""Results on the standard output: JSON and YAML as the API has them, or tables for people."""

import json
import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

import click
import yaml

from launchbay.cli.lazy import load
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


def show_one_of_many(value: Any, output: str) -> None:
    """Print one of the documents of a stream: JSON in one line, YAML as a document of its own."""
    if output == "json":
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=True), nl=False)


def show(value: Any, output: str, columns: Sequence[str] = ()) -> None:
    """Print a result: a text as it is, a document in the chosen form. `columns` are those of a table of its items."""
    if isinstance(value, str):
        click.echo(value, nl=not value.endswith("\n"))
    elif output == "json":
        click.echo(json.dumps({} if value is None else value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        click.echo(yaml.safe_dump({} if value is None else value, sort_keys=False, allow_unicode=True), nl=False)
    elif value is None or value == {}:
        click.echo("Done.", err=True)
    elif isinstance(value, dict) and set(value) == {"id"}:
        click.echo(value["id"])
    else:
        # Tables need a library that takes as long to load as all the rest; documents do not.
        load("launchbay.cli.rich_output:show_table")(value, columns)


class ExitCode(IntEnum):
    """The exit codes of `launchbay`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_AUTHENTICATED = 4
    NOT_ALLOWED = 5
    CONFLICT = 6
    UNAVAILABLE = 7
    TIMED_OUT = 8
    REFUSED = 9
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: ("It is done.", "Nothing."),
    ExitCode.FAILED: (
        "What was asked for failed: a launch, a job, a test, a bad manifest, or something inside of the server.",
        "Read the message; `launchbay instance log` and `launchbay job show` tell about jobs.",
    ),
    ExitCode.USAGE: ("The command line is wrong, or no profile says which server is meant.", "See `--help`."),
    ExitCode.NOT_FOUND: ("There is no object with this name or id.", "List the objects of that kind."),
    ExitCode.NOT_AUTHENTICATED: ("The credentials are missing, wrong, expired or revoked.", "`launchbay login`."),
    ExitCode.NOT_ALLOWED: (
        "The caller lacks the permission.",
        "`launchbay permission explain` tells which role would allow it; ask an administrator for that role.",
    ),
    ExitCode.CONFLICT: (
        "The object is busy with a job, or was changed meanwhile.",
        "Wait for its end: `launchbay instance wait`.",
    ),
    ExitCode.UNAVAILABLE: ("The server does not answer, or says that it cannot now.", "Try again later."),
    ExitCode.TIMED_OUT: (
        "What was waited for did not happen in the time of `--timeout`; it may still happen.",
        "Wait again.",
    ),
    ExitCode.REFUSED: ("The server refused what was sent as wrong.", "Change what the message names."),
    ExitCode.INTERRUPTED: ("The command was interrupted with Ctrl-C; what runs on the server goes on.", "Nothing."),
}

# Control characters but for line feed and tab, and what changes the direction of writing.
_MOVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with what a terminal would obey written out, such as `\\x1b`."""
    return _MOVING.sub(_written, text)


def _written(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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


class ObjectNotFound(ClientError):
    """A name that nothing has; the sentence says what may have been meant."""


class CommandFailed(click.ClickException):
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
            raise CommandFailed(printable("\n".join(lines(error, ctx.info_name))), exit_code_of(error)) from error
        except LaunchbayError as error:
            raise CommandFailed("\n".join(error.messages), ExitCode.FAILED) from error
        except KeyboardInterrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def exit_code_of(error: ClientError) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, ObjectNotFound):
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
    remedy = _REMEDIES_OF_CODES.get(error.code) or _REMEDIES.get(exit_code_of(error))
    if remedy and command != "login":
        yield remedy
    reference = ", ".join(part for part in (error.code, error.request_id and f"request {error.request_id}") if part)
    if reference:
        yield f"({reference})"
