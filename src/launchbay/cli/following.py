"""Waiting for an instance with its steps before one's eyes: bars on a terminal, lines elsewhere."""

import sys
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

import click

from launchbay.cli.connection import Connection
from launchbay.cli.lazy import load
from launchbay.cli.output import printable, show_one_of_many
from launchbay.client import Client, ClientError, Event, InstanceFailed
from launchbay.client.core import Call
from launchbay.client.types import InstanceDocument

_FINAL_POLL_S = 1.0
_ENDS = {"Running", "Failed", "Destroyed"}


class Progress(Protocol):
    """Where progress is shown."""

    def status(self, text: str) -> None:
        """Show the status of the instance."""
        ...

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        """Show where a step stands."""
        ...

    def close(self) -> None:
        """Leave the last picture."""
        ...


class LineProgress:
    """A line for each change."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def status(self, text: str) -> None:
        """Print the status where it is a new one."""
        self._print_once("", text, text)

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        """Print a step where its status is a new one."""
        self._print_once(path, status, f"  {name}: {status}" + (f" {percent} %" if 0 < percent < 100 else ""))

    def close(self) -> None:
        """Nothing is left open."""

    def _print_once(self, key: str, status: str, line: str) -> None:
        if self._shown.get(key) != status:
            self._shown[key] = status
            click.echo(printable(line), err=True)


def progress_for_terminal() -> Progress:
    """Return bars where the standard error is a terminal, lines otherwise."""
    if sys.stderr.isatty():
        bars: Progress = load("launchbay.cli.rich_output:ProgressBars")()
        return bars
    return LineProgress()


def wait_until_final(
    client: Client,
    instance: str,
    timeout_s: float | None,
    progress: Progress,
    *,
    after: int | None,
    until: Collection[str] = ("Running", "Destroyed"),
) -> InstanceDocument:
    """Wait until the instance is in one of these statuses, showing its steps, and return it.

    `after` is the number of the event after which to look, 0 for all, None for those from now on. Raises what
    `Client.wait` raises; an interruption says that the instance goes on.
    """
    watcher = _Watcher(client, instance, progress, after)
    watcher.start()
    try:
        document = client.wait(instance, until=until, timeout_s=timeout_s)
        watcher.join_soon()
        return document
    except InstanceFailed:
        watcher.join_soon()
        raise
    except KeyboardInterrupt:
        progress.close()
        click.echo(f"\nThe instance goes on without you. Wait again with: launchbay instance wait {instance}", err=True)
        raise
    finally:
        watcher.silence()
        progress.close()


class _Watcher(threading.Thread):
    """Shows what the event stream tells. Nothing depends on it: where there is no stream, there is no progress."""

    def __init__(self, client: Client, instance: str, progress: Progress, after: int | None) -> None:
        super().__init__(daemon=True)
        self._client, self._instance, self._progress, self._after = client, instance, progress, after
        self._lock = threading.Lock()
        self._is_silent = False
        self._has_ended = threading.Event()

    def run(self) -> None:
        """Show events until the instance comes to rest."""
        # A client that is closed meanwhile, since the command is done, is told by httpx with a RuntimeError.
        with suppress(ClientError, RuntimeError):
            for event in self._client.watch_instance(self._instance, after=self._after):
                with self._lock:
                    if self._is_silent:
                        return
                    self._show(event)
                if event.name == "status" and event.data.get("status") in _ENDS:
                    self._has_ended.set()

    def join_soon(self) -> None:
        """Wait a moment for the last events: the answer that it is over may have overtaken them."""
        self._has_ended.wait(_FINAL_POLL_S)

    def silence(self) -> None:
        """Show nothing any more."""
        with self._lock:
            self._is_silent = True

    def _show(self, event: Event) -> None:
        data: dict[str, Any] = event.data
        if event.name == "status":
            self._progress.status(str(data.get("status")))
        elif event.name == "step" and data.get("path"):
            percent = int(data.get("percentComplete") or 0)
            self._progress.step(str(data["path"]), str(data.get("name")), str(data.get("status")), percent)


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
