"""What single commands do beyond their operation: waiting, following, columns; and verbs without one."""

import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from launchbay.cli import values
from launchbay.cli.commands import Extension, answer
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.failures import Failed
from launchbay.cli.following import progress_here, settled
from launchbay.cli.log import print_log
from launchbay.cli.output import show, show_one_of_many
from launchbay.cli.printable import printable
from launchbay.client import Operations
from launchbay.client.core import Call

_TOKEN = re.compile(r"lbr_[\w-]+")
_REASON = re.compile(r'role="alert"[^>]*>(.*?)</', re.DOTALL)


def _duration_s(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    return None if text is None else values.duration_ms(text) / 1000


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
    settled(connection.client, instance, timeout_s, progress_here(), after=after)
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
    raise Failed(told, ExitCode.NOT_AUTHENTICATED)


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
