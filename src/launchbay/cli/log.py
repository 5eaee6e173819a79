"""The log of an instance as lines, and as they come."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from launchbay.cli.connection import Connection
from launchbay.cli.output import show_one_of_many
from launchbay.cli.printable import printable
from launchbay.client.core import Call

_COLOURS = {"error": "red", "warning": "yellow", "debug": "bright_black"}


def print_log(connection: Connection, call: Call[Any], *, follow: bool) -> None:
    """Print the lines of a call of `read_log`; with `follow` those that come too, until the instance is destroyed."""
    last = int(call.query.get("after") or 0)
    listing = connection.client.read_log
    arguments = {name: value for name, value in call.query.items() if value is not None}
    for line in listing.each(call.path[0], **arguments):
        last = line.id
        _print(connection.output, _document(line))
    if not follow:
        return
    wanted = {name: arguments[name] for name in ("job", "step") if name in arguments}
    for event in connection.client.watch_instance(call.path[0], after=last):
        if event.name == "log" and all(event.data.get(name) == value for name, value in wanted.items()):
            _print(connection.output, event.data)
        if event.name == "status" and event.data.get("status") == "Destroyed":
            return


def _document(line: Any) -> dict[str, Any]:
    return {"at": line.at, "level": line.level, "job": line.job, "step": line.step, "text": line.text}


def _print(output: str, line: Mapping[str, Any]) -> None:
    if output != "table":
        show_one_of_many(dict(line), output)
        return
    at = datetime.fromtimestamp((line["at"] or 0) / 1000, UTC).astimezone().strftime("%H:%M:%S")
    step = printable((line.get("step") or "").rpartition("/")[2])
    text = click.style(printable(line["text"]), fg=_COLOURS.get(line["level"]))
    click.echo(f"{click.style(at, dim=True)} {click.style(step, bold=True)}{' ' if step else ''}{text}")
