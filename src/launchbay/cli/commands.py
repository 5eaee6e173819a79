"""Commands made of operations: every operation of the API is one, without a line of its own."""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from launchbay.cli import inputs as cli_inputs
from launchbay.cli.connection import OUTPUTS, Connection, connect
from launchbay.cli.following import print_log, progress_for_terminal, wait_until_final
from launchbay.cli.inputs import inputs
from launchbay.cli.lazy import HelpfulGroup, load
from launchbay.cli.output import CommandFailed, ExitCode, RemoteCommand, printable, show, show_one_of_many
from launchbay.cli.verbs import AnyOperation, all_operations, nouns
from launchbay.client import Operations
from launchbay.client.core import Call

Run = Callable[[Connection, Call[Any], Mapping[str, Any]], None]


@dataclass(frozen=True)
class Extension:
    """What a command does beyond its call: more options, and how it is run with them."""

    run: Run | None = None
    options: Sequence[click.Parameter] = ()
    columns: Sequence[str] = ()


def sharing_options() -> list[click.Parameter]:
    """Return the options that every command has which talks to a server."""
    return [
        click.Option(["--profile"], help="Which profile to use.", metavar="NAME"),
        click.Option(["--organization"], help="In which organization, by name or id.", metavar="ORGANIZATION"),
        click.Option(["-o", "--output"], type=click.Choice(OUTPUTS), help="How to print the result. [default: table]"),
    ]


def connected(given: dict[str, Any], *, anonymous: bool = False) -> Connection:
    """Take the shared options out of what was given, and connect."""
    return connect(given.pop("profile"), given.pop("organization"), given.pop("output"), anonymous=anonymous)


def command_of(operation: AnyOperation, verb: str, extension: Extension | None = None) -> click.Command:
    """Return the command of an operation."""
    entries = inputs(operation)
    own = [each for entry in entries for each in (entry.parameter, entry.also) if each is not None]
    own.sort(key=lambda parameter: isinstance(parameter, click.Option))
    # Required arguments of one word come before the one that takes all the rest.
    own.sort(key=lambda parameter: parameter.nargs == -1 and isinstance(parameter, click.Argument))
    more = list(extension.options) if extension else []
    deletes = operation.row.method == "DELETE"
    if deletes:
        more.append(click.Option(["-y", "--yes"], is_flag=True, help="Do not ask."))
    columns = extension.columns if extension else ()

    def callback(**given: Any) -> None:
        connection = connected(given, anonymous=operation.row.public)
        if deletes:
            _confirm(operation, given)
        arguments: dict[str, Any] = {}
        for entry in entries:
            value = given.pop(entry.name, None)
            if entry.also is not None:
                value = (*value, *given.pop(entry.also.name or ""))
            arguments[entry.name] = entry.read(value, connection, arguments)
        call = operation.call(**{name: value for name, value in arguments.items() if value is not None})
        if extension is not None and extension.run is not None:
            extension.run(connection, call, given)
        else:
            show(answer(connection, call), connection.output, columns)

    return RemoteCommand(
        verb,
        params=[*own, *more, *sharing_options()],
        callback=callback,
        help=inspect.cleandoc(operation.__doc__ or "").split("\n\n`")[0],
        short_help=inspect.cleandoc(operation.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def answer(connection: Connection, call: Call[Any]) -> Any:
    """Make a call and return its answer as plain data: exactly what the API says, not what this version knows of it."""
    is_plain = call.returns is str or call.returns is type(None)
    return connection.client.send(call if is_plain else call.with_returns(Any))


def _confirm(operation: AnyOperation, given: dict[str, Any]) -> None:
    """Ask on a terminal; a script has said what it wants."""
    if given.pop("yes") or not sys.stdin.isatty():
        return
    what = operation.name.replace("_", " ")
    named = " ".join(str(each) for each in given.values() if isinstance(each, str))
    click.confirm(f"{what.capitalize()} {named}?", abort=True, err=True)


_TOKEN = re.compile(r"lbr_[\w-]+")
_REASON = re.compile(r'role="alert"[^>]*>(.*?)</', re.DOTALL)


def _duration_s(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    return None if text is None else cli_inputs.parse_duration_ms(text) / 1000


def waiting_options(*, always: bool = False) -> tuple[click.Parameter, ...]:
    """Return the options of commands that can wait."""
    timeout = click.Option(
        ["--timeout"], callback=_duration_s, metavar="DURATION", help="How long to wait, such as 90s or 10m."
    )
    wait = click.Option(["-w", "--wait"], is_flag=True, help="Wait for the end, and show the steps meanwhile.")
    return (timeout,) if always else (wait, timeout)


def _launch(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    document = answer(connection, call)
    for warning in document.get("warnings", ()):
        click.echo(printable(f"Warning: {warning}"), err=True)
    if options["wait"]:
        _wait(connection, document["id"], options["timeout"], after=0)
    else:
        show(document, connection.output)


def _run(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    instance = call.path[0]
    document = answer(connection, call)
    if options["wait"]:
        _wait(connection, instance, options["timeout"], after=None)
    else:
        show(document, connection.output)


def _wait(connection: Connection, instance: str, timeout_s: float | None, *, after: int | None) -> None:
    wait_until_final(connection.client, instance, timeout_s, progress_for_terminal(), after=after)
    document = connection.client.send(Operations.read_instance.call(instance).with_returns(Any))
    if connection.output == "table":
        document = {name: document[name] for name in ("id", "name", "status", "returnValues")}
    show(document, connection.output)


def _log(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    print_log(connection, call, follow=options["follow"])


def _events(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    for event in connection.client.watch_instance(call.path[0], after=call.query.get("after")):
        words = " ".join(f"{name}={value}" for name, value in event.data.items() if value is not None and name != "at")
        if connection.output == "table":
            click.echo(printable(f"{event.name:7} {words}"))
        else:
            show_one_of_many({"id": event.id, "event": event.name, "data": event.data}, connection.output)


def _create_token(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    show(token_of(answer(connection, call)), connection.output)


def token_of(page: str) -> str:
    """Return the refresh token that the page shows. Raises Failed with what the page says instead."""
    found = _TOKEN.search(page)
    if found is not None:
        return found[0]
    reason = _REASON.search(page)
    told = re.sub(r"<[^>]+>|\s+", " ", reason[1]).strip() if reason else "The server gave no token."
    raise CommandFailed(told, ExitCode.NOT_AUTHENTICATED)


def _openapi(connection: Connection, call: Call[Any], _: Mapping[str, Any]) -> None:
    show(answer(connection, call), "json" if connection.output == "table" else connection.output)


def _export_organization(connection: Connection, call: Call[Any], options: Mapping[str, Any]) -> None:
    archive = answer(connection, call)
    try:
        # For its owner alone: it tells everything about an organization but its secrets.
        opener = partial(os.open, mode=0o600)
        with open(options["file"], "x", encoding="utf-8", opener=opener) as file:
            file.write(json.dumps(archive, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise click.UsageError(f"{options['file']} cannot be written: {error.strerror}.") from error
    for hole in archive["holes"]:
        click.echo(printable(f"Not in the archive: {hole}"), err=True)


EXTENSIONS: Mapping[str, Extension] = {
    "openapi": Extension(_openapi),
    "export_organization": Extension(
        _export_organization,
        [click.Argument(["file"], type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")],
    ),
    "launch_application": Extension(_launch, waiting_options()),
    "run_workflow": Extension(_run, waiting_options()),
    "reconfigure_instance": Extension(_run, waiting_options()),
    "resume_job": Extension(_run, waiting_options()),
    "read_log": Extension(
        _log, [click.Option(["-f", "--follow"], is_flag=True, help="Go on with new lines until it is destroyed.")]
    ),
    "watch_instance": Extension(_events),
    "generate_token": Extension(_create_token),
    "list_audit_entries": Extension(columns=("at", "actor.email", "operation", "object", "address")),
    "list_jobs": Extension(columns=("id", "name", "status", "startedAt", "finishedAt", "errorMessage")),
    "list_service_types": Extension(columns=("id", "name", "interfaces")),
}
# Verbs that are no single operation.
ADDED: Mapping[str, Mapping[str, str]] = {
    "instance": {"list": "launchbay.cli.instances:list_all", "wait": "launchbay.cli.instances:wait"},
}


class NounGroup(HelpfulGroup):
    """The verbs of a noun."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs, in the order of the API."""
        noun = self.name or ""
        return [*nouns()[noun], *ADDED.get(noun, {})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Make the command of a verb."""
        noun = self.name or ""
        place = ADDED.get(noun, {}).get(cmd_name)
        if place is not None:
            command: click.Command = load(place)
            return command
        name = nouns()[noun].get(cmd_name)
        return None if name is None else command_of(all_operations()[name], cmd_name, EXTENSIONS.get(name))


@cache
def group_of(noun: str) -> NounGroup:
    """Return the group of a noun."""
    summaries = {name: f"Commands of {name.replace('-', ' ')}s." for name in nouns()}
    return NounGroup(noun, help=summaries[noun], context_settings={"help_option_names": ["-h", "--help"]})


def __getattr__(name: str) -> NounGroup:
    """Give the group of a noun as an attribute of this module, which is how lazy groups name their commands."""
    noun = name.replace("_", "-")
    if noun not in nouns():
        raise AttributeError(name)
    return group_of(noun)


def _shortcut(operation: str, name: str) -> click.Command:
    return command_of(all_operations()[operation], name, EXTENSIONS.get(operation))


launch = _shortcut("launch_application", "launch")
logs = _shortcut("read_log", "logs")
run = _shortcut("run_workflow", "run")
