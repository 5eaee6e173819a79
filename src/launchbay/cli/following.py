"""Wait for jobs and instances while showing their steps, and print logs."""

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol
from zlib import crc32

import click

from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.lazy import load
from launchbay.cli.output import (
    CommandFailed,
    advice_on_failure,
    printable,
    show_one_of_many,
    shown_status,
    with_local_times,
)
from launchbay.client import Client, ClientError, Event, InstanceFailed, WaitTimedOut
from launchbay.client.core import Call
from launchbay.client.streams import watch_steps
from launchbay.client.types import InstanceDocument, JobDetail
from launchbay.model.job import is_cancellation, owner_of

_LAST_EVENTS_S = 1.0
_ASK_S = 10  # how long one request waits for the end of a job: less than the time limit of a read
_FIRST_ASK_S = 2  # so that what the job waits for is soon shown
_ENDS = {"Running", "Failed", "Destroyed"}
_STEP_ENDS = {"Succeeded", "Failed"}


class Progress(Protocol):
    """Shows how a job advances."""

    def status(self, text: str) -> None:
        """Show the status of the instance."""
        ...

    def note(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def step(self, path: str, name: str, status: str, percent: int) -> None: ...

    def close(self) -> None: ...


class LineProgress:
    """Prints a line for each change."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def status(self, text: str) -> None:
        """Print the status if it changed."""
        self._print_once("", text, text)

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        self._print_once(path, status, f"  {name}: {status}" + (f" {percent} %" if 0 < percent < 100 else ""))

    def close(self) -> None:
        """Do nothing; every line is complete."""

    def _print_once(self, key: str, status: str, line: str) -> None:
        if self._shown.get(key) != status:
            self._shown[key] = status
            click.echo(printable(line), err=True)


def progress_for_terminal() -> Progress:
    """Return bars if standard error is a terminal, lines otherwise."""
    if sys.stderr.isatty():
        bars: Progress = load("launchbay.cli.rich_output:ProgressBars")()
        return bars
    return LineProgress()


def wait_for_job(
    client: Client, instance: str, job: str, timeout_s: float | None, progress: Progress, *, after: int | None
) -> JobDetail:
    """Wait until a job has succeeded, showing its steps and what it waits for, and return it.

    `after` is the number of the last event to skip: 0 shows all, None shows those from now on. Raises CommandFailed if
    the job failed, or waits for an approval and the command doesn't wait for that; WaitTimedOut; and what calls raise:
    NotFound if its instance was deleted.
    """
    leaves_approvals = click.get_current_context().meta.get(_LEAVES_APPROVALS)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    shown: set[str] = set()
    ask_s = _FIRST_ASK_S
    with _watch(client, instance, progress, after) as watcher:
        while True:
            left_s = _ASK_S if deadline_s is None else deadline_s - time.monotonic()
            found = client.read_job(instance, job, wait=int(min(max(left_s, 0), ask_s)))
            if found.status != "Executing":
                break
            ask_s = _ASK_S
            for waited in found.waiting_for:
                watcher.show_wait(waited.text)
            if any(waited.kind == "approval" for waited in found.waiting_for):
                for line in _open_approvals(client, instance, job, shown):
                    watcher.note(line)
                if leaves_approvals:
                    text = f"Job '{found.name}' waits for an approval. It continues when somebody has answered."
                    raise CommandFailed(text, ExitCode.WAITS_FOR_PERSON)
            if left_s <= 0:
                raise WaitTimedOut(f"Job '{found.name}' is still running after {timeout_s:g} s.", found.status)
            if left_s < 1:  # the server waits for whole seconds
                time.sleep(left_s)
        watcher.ended.wait(_LAST_EVENTS_S)
        watcher.silence()
        for step in found.steps:  # a short job may end before the first event arrives
            if step.status in _STEP_ENDS and "/" in step.path:
                status = shown_status(step.status, step.error_message, skipped=step.skipped, ignored=step.ignored)
                _show_step(progress, step.path, step.name, status, step.percent_complete)
    if found.status != "Succeeded":
        raise _failed(found)
    return found


def _failed(job: JobDetail) -> CommandFailed:
    """Return the error for a job that didn't succeed."""
    if is_cancellation(job.error_message):
        return CommandFailed(printable(f"Job '{job.name}' was ended. {job.error_message}"), ExitCode.FAILED)
    reason = f": {job.error_message}" if job.error_message else "."
    told = "".join(f"\n{advice}" for advice in advice_on_failure(job.error_message))
    return CommandFailed(printable(f"Job '{job.name}' failed{reason}") + told, ExitCode.FAILED)


_LEAVES_APPROVALS = "launchbay.leaves_approvals"


def leave_approvals(context: click.Context, _: click.Parameter, chosen: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Note that the command ends when its job waits for an approval."""
    context.meta[_LEAVES_APPROVALS] = chosen


def _open_approvals(client: Client, instance: str, job: str, shown: set[str]) -> Iterator[str]:
    """Yield how to answer each approval that a job waits for, once."""
    with suppress(ClientError):
        for approval in client.list_instance_approvals.each(instance):
            if approval.job_id == job and not approval.decided_at and approval.id not in shown:
                shown.add(approval.id)
                yield f"  Answer at {client.core.base_url}/console/instances/{instance}#approvals"
                yield f"  or run: launchbay approval approve {approval.id}"


def wait_for_instance(
    client: Client, instance: str, timeout_s: float | None, progress: Progress, *, until: Collection[str]
) -> InstanceDocument:
    """Wait until the instance is in one of these statuses, showing its steps. Raises what `Client.wait` raises."""
    with _watch(client, instance, progress, None) as watcher:
        try:
            document = client.wait(instance, until=until, timeout_s=timeout_s)
        except InstanceFailed:
            watcher.ended.wait(_LAST_EVENTS_S)
            raise
        watcher.ended.wait(_LAST_EVENTS_S)
    return document


@contextmanager
def _watch(client: Client, instance: str, progress: Progress, after: int | None) -> Iterator["_Watcher"]:
    """Show events while the body waits. An interrupt prints how to wait again."""
    watcher = _Watcher(client, instance, progress, after)
    watcher.start()
    try:
        yield watcher
    except KeyboardInterrupt:
        progress.close()
        text = f"\nThe job keeps running on the server. Wait again with: launchbay wait {instance}"
        click.echo(text, err=True)
        raise
    finally:
        watcher.silence()
        progress.close()


class _Watcher(threading.Thread):
    """Shows events as they arrive. Nothing depends on it: without an event stream, there is no progress to see."""

    def __init__(self, client: Client, instance: str, progress: Progress, after: int | None) -> None:
        super().__init__(daemon=True)
        self._client, self._instance, self._progress, self._after = client, instance, progress, after
        self._lock = threading.Lock()
        self._is_silent = False
        self.ended = threading.Event()

    def run(self) -> None:
        """Show events until silenced. Set `ended` whenever a job leaves the instance idle."""
        # If the command ends first, it closes the client, and httpx raises a RuntimeError.
        with suppress(ClientError, RuntimeError):
            for event in self._client.watch_instance(self._instance, after=self._after):
                with self._lock:
                    if self._is_silent:
                        return
                    self._show(event)
                if event.name == "status" and event.data.get("status") in _ENDS:
                    self.ended.set()

    def silence(self) -> None:
        with self._lock:
            self._is_silent = True

    def show_wait(self, text: str) -> None:
        """Show what the job waits for."""
        with self._lock:
            self._progress.status(with_local_times(text))

    def note(self, text: str) -> None:
        with self._lock:
            self._progress.note(text)

    def _show(self, event: Event) -> None:
        data: dict[str, Any] = event.data
        if event.name == "status":
            self._progress.status(str(data.get("status")))
        elif event.name == "step" and data.get("path"):
            percent = int(data.get("percentComplete") or 0)
            status = str(data.get("status"))
            skipped = status == "Succeeded" and data.get("attempt") == 0
            status = shown_status(status, data.get("errorMessage"), skipped=skipped, ignored=bool(data.get("ignored")))
            _show_step(self._progress, str(data["path"]), str(data.get("name")), status, percent)


def _show_step(progress: Progress, path: str, name: str, status: str, percent: int) -> None:
    """Show a step after its component: in a command, after the receiver. One that was skipped has no progress."""
    progress.step(path, f"{owner_of(path)} › {name}", status, 0 if status == "Skipped" else percent)


_FILTERS = {"step": "--step", "component": "--component", "level": "--level", "q": "-q"}
_SHOWN = ("at", "level", "job", "step", "component", "attempt", "stream", "text")
_COMPONENT_COLORS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta", "bright_blue")
_LEVEL_COLORS = {"error": "red", "warning": "yellow", "debug": "bright_black"}


def print_log(connection: Connection, call: Call[Any], *, follow: bool, is_bare: bool = False) -> None:
    """Print the lines of a `read_log` call; with `follow`, also new ones.

    With `is_bare`, a line is only its text. If no line fits the filters, a message on standard error says so.
    `limit` is the number of all lines: without it, `each` would fetch page after page. The API knows steps by their
    paths; a last name is compared here.
    """
    query = dict(call.query)
    if (query.get("limit") or 0) < 0:
        raise click.BadParameter("it can't be negative.", param_hint="--limit")
    name, tail = query.get("step"), None
    is_last_name = name is not None and "/" not in name
    if is_last_name:
        if follow and query.get("tail") is not None:
            raise click.UsageError("--tail with --follow needs the whole path of the step.")
        query.update({"step": None, "tail": None})
        tail = call.query.get("tail")
    lines = _lines(connection.client, replace(call, query=query), follow=follow)
    if is_last_name:
        lines = (line for line in lines if (line["step"] or "").rpartition("/")[2] == name)
    if tail is not None:
        lines = iter(deque(lines, maxlen=tail))
    is_empty = True
    for line in itertools.islice(lines, query.get("limit")):
        is_empty = False
        _print(connection.output, line, is_bare=is_bare)
    given = [(flag, call.query.get(field)) for field, flag in _FILTERS.items()]
    filters = [f"{flag} {value}" for flag, value in given if isinstance(value, str) and value]
    if is_empty and filters:
        click.echo(printable(f"No line of the log fits {' and '.join(filters)}."), err=True)


def _lines(client: Client, call: Call[Any], *, follow: bool) -> Iterator[Mapping[str, Any]]:
    if not follow:
        arguments = {name: value for name, value in call.query.items() if value is not None}
        for line in client.read_log.each(call.path[0], **arguments):
            yield {name: getattr(line, name) for name in _SHOWN}
        return
    spec = replace(call.known, answer="text/event-stream")
    for event in client.iterate(watch_steps(client.core, Call(Event, call.path, query=call.query, spec=spec))):
        if event.name == "end":
            return
        yield {name: event.data.get(name) for name in _SHOWN}


def _print(output: str, line: Mapping[str, Any], *, is_bare: bool) -> None:
    if output != "table":
        show_one_of_many(dict(line), output)
        return
    text = click.style(printable(line["text"]), fg=_LEVEL_COLORS.get(line["level"]))
    if is_bare:
        click.echo(text)
        return
    at = datetime.fromtimestamp((line["at"] or 0) / 1000, UTC).astimezone().strftime("%H:%M:%S")
    component, step = line.get("component") or "", (line.get("step") or "").rpartition("/")[2]
    # The last name tells components apart, and leaves most of a narrow terminal to the text.
    shown = (
        click.style(printable(component.rpartition(".")[2]), fg=_color_of(component)),
        click.style(printable(step), bold=True),
    )
    where = " › ".join(each for each, name in zip(shown, (component, step), strict=True) if name)
    click.echo(" ".join(part for part in (click.style(at, dim=True), where, text) if part))


def _color_of(component: str) -> str:
    """Return a component's color, the same in each log, and none of a level."""
    return _COMPONENT_COLORS[crc32(component.encode()) % len(_COMPONENT_COLORS)]
