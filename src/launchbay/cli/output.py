"""Results as tables, JSON or YAML; errors of the client as messages and exit codes."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import click

from launchbay.cli.exit_codes import ExitCode
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
    PreconditionFailed,
    ServerFailed,
    TooManyRequests,
    WaitTimedOut,
)
from launchbay.clock import from_ms, iso_time_ms
from launchbay.errors import LaunchbayError
from launchbay.model.job import INTERRUPTED_STEP, JobStatus, failure_code, is_cancellation
from launchbay.model.waits import ISO_TIME
from launchbay.model.yaml_text import yaml_text


def print_warning(message: str, line: int, column: int, code: str, *, application: str = "") -> None:
    """Print a warning about a manifest to standard error."""
    where = f"{application}, line" if application else "line"
    click.echo(printable(f"Warning: {where} {line}, column {column}: {message} [{code}]"), err=True)


def show_one_of_many(value: Any, output: str) -> None:
    """Print one document of a stream: JSON as one line, YAML as a separate document."""
    value = with_iso_times(value)
    if output == "json":
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        click.echo(yaml_text(value, is_one_of_many=True), nl=False)


IDS = "ids"  # the output with --quiet


def show(value: Any, output: str, columns: Sequence[str] = (), *, times: bool = True) -> None:
    """Print a document as `output` says; a string is verbatim, except in JSON.

    With `IDS`, that is the ID of each object. `columns` are those of its table. JSON and YAML have times as ISO 8601,
    unless `times` is False.
    """
    if isinstance(value, str) and output != "json":
        click.echo(value, nl=not value.endswith("\n"))
    elif output == IDS:
        for each in value if isinstance(value, list) else [value]:
            if each["id"] is not None:  # a preview has none
                click.echo(each["id"])
    elif output in {"json", "yaml"}:
        document = {} if value is None else with_iso_times(value) if times else value
        if output == "json":
            click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            click.echo(yaml_text(document), nl=False)
    elif value is None or value == {}:
        click.echo("Done.", err=True)
    elif isinstance(value, dict) and set(value) == {"id"}:
        click.echo(value["id"])
    else:
        # Only tables need Rich, which takes as long to import as everything else.
        load("launchbay.cli.rich_output:show_table")(value, columns)


_TIME_NAME = re.compile(r"(At|Seen|^at|^time|^timestamp|Since|^since|Until|^until|^ended|^expires)$")
_LEAST_MS = 10**11  # 1973: smaller numbers aren't times
_FREE = {  # what users name or write
    *(
        "after",
        "arguments",
        "before",
        "configuration",
        "data",
        "default",
        "inputs",
        "labels",
        "names",
        "outputs",
        "parameters",
    ),
    *("results", "returnValues", "userData", "value", "values"),
}
_SIDES = {"from", "to"}  # of a difference; those of a whole document are the states that it compares


def with_local_times(text: str) -> str:
    """Return a sentence of what waits with its times as local time."""
    return ISO_TIME.sub(lambda found: f"{datetime.fromisoformat(found[1]).astimezone():%Y-%m-%d %H:%M:%S}", text)


def is_time(name: str, value: Any) -> bool:
    """Return whether a field holds a time in milliseconds since the Unix epoch."""
    return isinstance(value, int) and value > _LEAST_MS and _TIME_NAME.search(name) is not None


def are_times(name: str, value: Any) -> bool:
    """Return whether a field holds a list of times, such as the next ones of a schedule."""
    return isinstance(value, list) and bool(value) and all(is_time(name, each) for each in value)


def with_iso_times(value: Any, free: Set[str] = _FREE) -> Any:
    """Return a document with its times as ISO 8601.

    The fields `free` are maps whose names users choose: they stay as they are.
    """
    if isinstance(value, list):
        return [with_iso_times(each, free) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _with_iso_times(name, each, free) for name, each in value.items()}


def _with_iso_times(name: str, value: Any, free: Set[str]) -> Any:
    if is_time(name, value):
        return iso_time_ms(from_ms(value))
    if are_times(name, value):
        return [iso_time_ms(from_ms(each)) for each in value]
    return value if name in free else with_iso_times(value, _FREE | _SIDES)


def shown_status(status: str, error: str | None, *, skipped: bool = False, ignored: bool = False) -> str:
    """Return the status of a job or a step for people.

    A cancellation isn't a failure, and one that is ignored says so.
    """
    if skipped:
        return "Skipped"
    if status != JobStatus.FAILED:
        return status
    if ignored:
        return "Failed, ignored"
    return "Cancelled" if is_cancellation(error) else "Interrupted" if error == INTERRUPTED_STEP else status


# Control characters except line feed and tab, and characters that change the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


DETAILED = click.Option(
    ["--detailed-exitcode", "is_detailed"], is_flag=True, help="Exit with 10 if there are differences."
)


def exit_by_differences(differs: bool, *, is_detailed: bool) -> None:  # noqa: FBT001 - what it is about
    """End the command with its own exit code if something differs and the caller asked for that."""
    if differs and is_detailed:
        click.get_current_context().exit(ExitCode.DIFFERS)


def style_difference(line: str) -> str:
    """Return a line of a difference in the color of its sign."""
    colour = {"+": "green", "-": "red"}.get(line.lstrip()[:1])
    return line if colour is None else click.style(line, fg=colour)


def printable(text: str) -> str:
    """Return the text with escapes such as `\\x1b` instead of characters that a terminal would obey."""
    return _CONTROL.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class ObjectNotFound(ClientError):
    """No object has this name; the message may suggest names."""


class Ambiguous(ClientError):
    """Several objects have this name, or IDs that begin so; the message lists them."""


_CODES: tuple[tuple[type[ClientError], ExitCode], ...] = (
    (ObjectNotFound, ExitCode.NOT_FOUND),
    (Ambiguous, ExitCode.USAGE),
    (NotFound, ExitCode.NOT_FOUND),
    (NotAuthenticated, ExitCode.NOT_AUTHENTICATED),
    (NotAllowed, ExitCode.NOT_ALLOWED),
    (Conflict, ExitCode.CONFLICT),
    (PreconditionFailed, ExitCode.CONFLICT),
    (TooManyRequests, ExitCode.UNAVAILABLE),
    (ConnectionFailed, ExitCode.UNAVAILABLE),
    (WaitTimedOut, ExitCode.TIMED_OUT),
    (InstanceFailed, ExitCode.FAILED),
    (ServerFailed, ExitCode.FAILED),
    (ApiError, ExitCode.REFUSED),
)
_SIGN_IN = ("launchbay login", "token create")  # commands that ask for a password
_REMEDIES_OF_CODES = {
    "InstanceActive": "To delete it anyway, add --force.",
    "InstanceInUse": "To destroy it anyway, add --force.",
    "PreconditionFailed": "Read it again. The command that shows it prints its new tag with --etag.",
    "PasswordChangeRequired": "Choose your own password: launchbay account change-password",
    "UnknownPath": "Check the address of the server, which has no path: launchbay profile list. It may also be older"
    " than this command.",
    "CannotLaunch": "To see the services that an environment offers, run: launchbay environment show-services NAME",
    **dict.fromkeys(
        ("EnvironmentFrozen", "ApplicationFrozen"),
        "With the permission OverrideFreeze, make the change all the same: add --override-freeze REASON",
    ),
    "InvalidManifest": "Check manifests before you upload them: launchbay validate FILE",
}
_PREVIEWS = {
    "launch": "To preview a launch, add --dry-run, or run: launchbay application preview",
    "reconfigure": "To preview a reconfiguration, run: launchbay instance preview",
}
_REMEDIES = {
    ExitCode.NOT_AUTHENTICATED: "Sign in: launchbay login",
    ExitCode.NOT_ALLOWED: "To see what your roles grant, run: launchbay permission explain --help",
}
_ABOUT_ROLES = {None, "NotAllowed", "BeyondOwnRights"}
_LACKED = re.compile(r"You need the permission (\w+) for (/\S+)(?: with (/\S+))?\.")  # a refusal of web/api


class CommandFailed(click.ClickException):
    """A failure with its own exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc] # click reads it from the instance


class RemoteCommand(click.Command):
    """A command that calls a server: errors of the client become messages and exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises UsageError, with advice for what looks like an option but isn't, and for a named organization.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            wanted = {parameter.metavar for parameter in self.params if isinstance(parameter, click.Argument)}
            if error.option_name[1:].isdecimal() and not wanted.isdisjoint(("TIME", "DURATION")):
                text = f"A time or duration can't be negative: {error.option_name}. The help has the forms."
                raise click.UsageError(text, ctx) from error
            if error.option_name.startswith("- "):
                text = "A list in YAML looks like an option here. Write it as [{…}, {…}], or put it into @FILE."
                raise click.UsageError(text, ctx) from error
            raise
        except click.UsageError as error:
            # Most nouns take a name here. The organization is an option of all commands.
            if error.message.startswith("Got unexpected extra") and "launchbay organization " in ctx.command_path:
                text = f"{error.message}. Choose the organization with --organization."
                raise click.UsageError(text, ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises CommandFailed for errors of the client."""
        try:
            return super().invoke(ctx)
        except ClientError as error:
            raise CommandFailed(printable("\n".join(lines(error, ctx))), exit_code_of(error)) from error
        except LaunchbayError as error:
            raise CommandFailed("\n".join(error.messages), ExitCode.FAILED) from error
        except KeyboardInterrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


# A script that tries these again, as it does after a conflict, would do so forever.
_NEEDS_CHANGE = {
    "ChangeSetDecided",
    "ChangeSetEnded",
    "StaleChangeSet",
    "DeletionsNotAllowed",
    "PlanChanged",
    "PlanFailed",
    "PlanOfChangeSet",
}


def exit_code_of(error: ClientError) -> ExitCode:
    if isinstance(error, ApiError) and error.code == "ChangeSetPending":
        return ExitCode.WAITS_FOR_PERSON
    if isinstance(error, ApiError) and error.code in _NEEDS_CHANGE:
        return ExitCode.REFUSED
    if isinstance(error, ServerFailed) and error.status == 503:
        return ExitCode.UNAVAILABLE
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def _remedy_of_parameters(context: click.Context) -> str:
    """Return how to pass parameters to this command, and which command previews their effects."""
    accepts_pairs = any("-p" in parameter.opts for parameter in context.command.params)
    parts = ("Pass values with -p NAME=VALUE." if accepts_pairs else "", _PREVIEWS.get(context.info_name or "", ""))
    return " ".join(part for part in parts if part)


def _remedy_of_refusal(messages: Sequence[str]) -> str | None:
    """Return the command that explains a refusal, if it names permission and object."""
    found = next((found for message in messages if (found := _LACKED.fullmatch(message))), None)
    if found is None:
        return None
    permission, path, touching = found.groups()
    command = f"launchbay permission explain --permission {permission} --path {path}"
    return f"To see what decides, run: {command}" + (f" --touching {touching}" if touching else "")


def _remedy_of_busy(given: Mapping[str, Any]) -> str:
    """Return how to wait for the job of a command's instance, or end it."""
    instance = shlex.quote(str(given.get("instance") or given.get("instance_id") or "INSTANCE"))
    is_destroy = given.get("cancels") is False
    end = "To cancel it first, add --cancel." if is_destroy else f"To end it: launchbay job cancel {instance} last"
    return f"Wait for the running job: launchbay wait {instance}. {end}"


def advice_on_failure(message: str | None) -> Iterator[str]:
    """Yield the command that explains the error of a job, if one does."""
    code = failure_code(message)
    if code is not None:
        yield f"To read more, run: launchbay explain {code}"


def _with_options(message: str, command: click.Command) -> str:
    """Return a message of the API with options of the command instead of fields.

    Only names such as `instanceId` are certain to be fields; other words and quoted names stay.
    """
    for parameter in command.params:
        first, *more = (parameter.name or "").split("_")
        if not more:
            continue
        shown = next((each for each in parameter.opts if each.startswith("--")), parameter.metavar or parameter.name)
        field = first + "".join(map(str.capitalize, more))
        message = re.sub(rf"(?<![\w'\"/.]){field}(?![\w'\"])", str(shown), message)
    return message


def lines(error: ClientError, context: click.Context | None = None) -> Iterator[str]:
    """Yield the messages of an error, the fix if one is known, and the error's code."""
    if not isinstance(error, ApiError):
        yield str(error)
        if isinstance(error, InstanceFailed):
            yield from advice_on_failure(error.error_message)
        return
    for message in error.messages or (str(error),):
        yield message if context is None else _with_options(message, context.command)
    remedy = _REMEDIES_OF_CODES.get(error.code) or _REMEDIES.get(exit_code_of(error))
    used = next((name for name in ("LAUNCHBAY_TOKEN", "LAUNCHBAY_PASSWORD") if os.environ.get(name)), None)
    if used is not None and isinstance(error, NotAuthenticated):
        remedy = f"The credentials are those of {used}. Correct it, or unset it to use the stored login."
    if isinstance(error, NotAllowed) and remedy == _REMEDIES[ExitCode.NOT_ALLOWED]:
        # The refusals of rules, policies and requests aren't about roles.
        remedy = (_remedy_of_refusal(error.messages) or remedy) if error.code in _ABOUT_ROLES else None
    if error.code == "InstanceBusy":
        remedy = _remedy_of_busy({} if context is None else context.params)
    if context is not None and error.code == "InvalidParameters":
        remedy = _remedy_of_parameters(context)
    if remedy and (context is None or not context.command_path.endswith(_SIGN_IN)):
        yield remedy
    reference = ", ".join(part for part in (error.code, error.request_id and f"request {error.request_id}") if part)
    if reference:
        yield f"({reference})"
    if error.code:
        yield f"To read more, run: launchbay explain {error.code}" + (f", or open {error.docs}" if error.docs else "")
