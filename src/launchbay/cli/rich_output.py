"""Documents as tables and bars, for people."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich import box
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from launchbay.cli.output import are_times, is_time, printable

_CELL_CHARS = 60
_WHOLE = {"id", "status", "name", "email", "label", "percentComplete", "attempt"}
_DULL = {"ownerId", "outputs", "outputsOmitted", "canEvict", "canManageRoles"}  # in lists; documents show them
_UNBOUNDED = 2_000
_WIDTH = 100  # of lists inside an object, if the output isn't a terminal
_WHOLE_CHARS = 30
COLOURS = {
    "Running": "green", "Succeeded": "green", "delivered": "green", "Executing": "yellow", "Requested": "yellow",
    "Destroying": "yellow", "pending": "yellow", "Failed": "red", "failed": "red", "Destroyed": "dim",
    "Skipped": "dim",
}  # fmt: skip


def show_markdown(text: str) -> None:
    """Print Markdown with its headings, tables and code drawn."""
    Console(highlight=False).print(Markdown(text, hyperlinks=False))


def show_table(value: Any, columns: Sequence[str] = ()) -> None:
    """Print a list as a table, an object as one field per line."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), list):
        (value,) = value.values()
    console = Console(highlight=False)
    if console.is_terminal:
        _show(console, value, columns, console.width)
        return
    # Scripts cut and search these lines, so they are neither wrapped nor padded.
    text = StringIO()
    _show(Console(highlight=False, width=_UNBOUNDED, file=text), value, columns, _WIDTH)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())


def _show(console: Console, value: Any, columns: Sequence[str], width: int) -> None:
    if isinstance(value, list):
        _show_list(console, value, columns)
    elif isinstance(value, dict):
        _show_object(console, value, width)
    else:
        console.print(_cell("", value))


def _show_list(console: Console, items: Sequence[Any], columns: Sequence[str] = ()) -> None:
    if not items:
        Console(stderr=True).print("[dim]No results.[/]")
    elif all(isinstance(item, dict) for item in items):
        console.print(_table(items, columns))
    else:
        for item in items:
            console.print(_cell("", item))


def _table(items: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Table:
    found = dict.fromkeys(name for item in items for name in item if _is_shown(item[name]))
    names = list(columns) or [name for name in found if name not in _DULL and any(_has(item, name) for item in items)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    rows = [[_cell(name, _at(item, name), in_list=True) for name in names] for item in items]
    for number, name in enumerate(names):
        is_whole = name in _WHOLE or any(is_time(name, _at(item, name)) for item in items)
        widest = max(row[number].cell_len for row in rows) if is_whole else 0
        table.add_column(
            name.rpartition(".")[2], overflow="fold", no_wrap=is_whole, min_width=min(widest, _WHOLE_CHARS)
        )
    for row in rows:
        table.add_row(*row)
    return table


def _show_object(console: Console, document: Mapping[str, Any], width: int) -> None:
    lists = {}
    grid = _grid()
    for name, value in document.items():
        if _is_list_of_objects(value):
            lists[name] = value
        elif isinstance(value, dict) and value:
            grid.add_row(printable(name), "")
            for inner, each in value.items():
                if _is_list_of_objects(each):
                    lists[f"{name}.{inner}"] = each
                else:
                    grid.add_row(Text(f"  {printable(inner)}"), _cell(inner, each, whole=True))
        else:
            zone = _zone(document) if are_times(name, value) else None
            grid.add_row(name, _cell(name, value, whole=True, zone=zone))
    console.print(grid)
    for name, items in lists.items():
        console.print(f"\n[bold]{printable(name)}[/]")
        table = _table(items)
        if Console(width=_UNBOUNDED).measure(table).maximum <= width:
            console.print(table)
        else:
            _show_blocks(console, items)


def _zone(schedule: Mapping[str, Any]) -> ZoneInfo | None:
    """Return the time zone of a schedule, or None if this computer doesn't know it."""
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(str(schedule.get("zone", "")))
    return None


def _show_blocks(console: Console, items: Sequence[Mapping[str, Any]]) -> None:
    """Print objects below each other, one field per line: a table of them would be too wide."""
    for number, item in enumerate(items):
        grid = _grid()
        for name, value in item.items():
            if _is_shown(value) and _has(item, name) and name not in _DULL:
                grid.add_row(Text(f"  {printable(name)}"), _cell(name, value, in_list=True))
        if number:
            console.print()
        console.print(grid)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _is_shown(value: Any) -> bool:
    return not isinstance(value, dict) and not _is_list_of_objects(value)


def _has(item: Mapping[str, Any], name: str) -> bool:
    return item.get(name) not in (None, [], {}, "")


def _at(item: Mapping[str, Any], name: str) -> Any:
    value: Any = item
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _cell(name: str, value: Any, *, whole: bool = False, in_list: bool = False, zone: ZoneInfo | None = None) -> Text:
    if value is None or value in ([], {}):
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if is_time(name, value) or are_times(name, value):
        times = value if isinstance(value, list) else [value]
        shown = times[:1] if in_list else times
        return Text(", ".join(format_time(each, in_list=in_list, zone=zone) for each in shown))
    if isinstance(value, str):
        return Text(printable(value), style=COLOURS.get(value, ""))
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return Text(printable(", ".join(value)))
    text = json.dumps(value, ensure_ascii=False)
    return Text(text if whole or len(text) <= _CELL_CHARS else f"{text[:_CELL_CHARS]}…")


def format_time(ms: int, *, in_list: bool = False, zone: ZoneInfo | None = None) -> str:
    """Return milliseconds since the Unix epoch as time in the zone, with its name, or as local time.

    In a list, the time of today has no date.
    """
    at = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)
    if zone is not None:
        return at.strftime("%Y-%m-%d %H:%M:%S %Z")
    if not in_list:
        return at.strftime("%Y-%m-%d %H:%M:%S")
    is_today = at.date() == datetime.now(UTC).astimezone().date()
    return at.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


class ProgressBars:
    """Draws a bar for each step, and the status of the instance above them."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
        )
        self._tasks: dict[str, TaskID] = {}
        self._status = ""
        self._bars.start()

    def status(self, text: str) -> None:
        """Print the status of the instance above the bars if it changed."""
        if text != self._status:
            self._status = text
            self._bars.console.print(_coloured(text))

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        task = self._tasks.get(path)
        if task is None:
            task = self._tasks[path] = self._bars.add_task(escape(printable(name)), total=100, status="")
        self._bars.update(task, completed=percent, status=_coloured(status))
        if status in {"Succeeded", "Failed", "Skipped"}:
            self._bars.stop_task(task)

    def close(self) -> None:
        self._bars.stop()


def _coloured(status: str) -> str:
    colour = COLOURS.get(status)
    return f"[{colour}]{status}[/]" if colour else escape(printable(status))
