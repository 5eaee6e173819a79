"""Commands made of operations: every operation of the API is one, without a line of its own."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from launchbay.cli.connection import Connection, connect
from launchbay.cli.failures import RemoteCommand
from launchbay.cli.inputs import inputs
from launchbay.cli.output import show
from launchbay.cli.profiles import OUTPUTS
from launchbay.cli.verbs import AnyOperation
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
