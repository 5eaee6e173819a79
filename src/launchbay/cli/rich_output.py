"""Documents as tables and bars, for people."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from launchbay.cli.output import are_times, is_time, printable, shown_status, with_local_times
from launchbay.model.code_change import CodeChange
from launchbay.model.durations import duration_words
from launchbay.model.expiry import NEVER

_CELL_CHARS = 60
_BRIEF_CHARS = 40  # of a value in the short form of a change
_LEAST_CELLS = 8  # a column that would be narrower is left out
_LEAST_ID_CELLS = 12  # enough to name most objects by the beginning of their ID
_WHOLE_CELLS = 30
_GAP_CELLS = 3  # between two columns
_WHOLE = {"id", "status", "name", "email", "label", "percentComplete", "attempt"}
_DULL = {  # in lists; documents show them
    *("ownerId", "outputs", "outputsOmitted", "inputsCut", "inputsOmitted", "canEvict", "canManageRoles"),
}
_CAUSE = {"kind", "id"}  # what a job or generation came from
_MAPS = {"inputs"}  # that lists show nevertheless
_NOTHING = "–"
_KEPT = {"id", "name", "status"}  # in the narrowest terminal
_LATE = {"last job", "nextAt", "errorMessage"}  # columns that others give way to
_SENTENCES = {"waitingFor", "sleep", "endsWhen", "warnings"}  # may have times
_UNBOUNDED = 2_000
_WIDTH = 100  # of lists inside an object, if the output isn't a terminal
COLOURS = {
    "Running": "green", "Succeeded": "green", "delivered": "green", "Executing": "yellow", "Requested": "yellow",
    "Destroying": "yellow", "pending": "yellow", "Failed": "red", "failed": "red", "Destroyed": "dim",
    "Skipped": "dim", "Failed, ignored": "yellow", "Cancelled": "dim", "Interrupted": "dim",
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
    elif len(items) == 1 and _is_too_wide(console, items, columns):
        _show_blocks(console, items)  # people copy from it, such as a public key
    elif all(isinstance(item, dict) for item in items):
        table, left_out = _fitting(_columns(items, columns), console.width if console.is_terminal else None)
        console.print(table, width=None if console.is_terminal else _natural_cells(table))
        if left_out:
            wider = "Use a wider terminal, or --output json."
            Console(stderr=True).print(f"[dim]Columns without room: {', '.join(reversed(left_out))}. {wider}[/]")
        _show_failed_steps(console, items)
    else:
        for item in items:
            console.print(_cell("", item))


def _is_too_wide(console: Console, items: Sequence[Any], columns: Sequence[str]) -> bool:
    if not console.is_terminal or not isinstance(items[0], dict):
        return False
    table, _ = _fitting(_columns(items, columns), None)
    return _natural_cells(table) > console.width + _GAP_CELLS


@dataclass
class _Column:
    """A column of a list; `width` is that of its widest cell.

    `is_whole` says that a part of a cell would be of little use.
    """

    name: str
    cells: list[Text]
    is_whole: bool
    width: int

    @property
    def title(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_empty(self) -> bool:
        return all(cell.plain == _NOTHING for cell in self.cells)

    @property
    def least(self) -> int:
        """The fewest cells that are of use."""
        return min(self.width, _WHOLE_CELLS if self.is_whole and self.name != "name" else _LEAST_CELLS)


def _columns(items: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> list[_Column]:
    found = dict.fromkeys(name for item in items for name in item if name in _MAPS or _is_shown(item[name]))
    names = list(names) or [name for name in found if name not in _DULL and any(_has(item, name) for item in items)]
    columns = []
    for name in names:
        values = [_at(item, name) for item in items]
        zones = [_zone(item) if are_times(name, value) else None for item, value in zip(items, values, strict=True)]
        cells = [_cell(name, value, in_list=True, zone=zone) for value, zone in zip(values, zones, strict=True)]
        is_whole = name in _WHOLE or any(is_time(name, value) or are_times(name, value) for value in values)
        title = name.rpartition(".")[2]
        columns.append(_Column(name, cells, is_whole, max(cell_len(title), *(cell.cell_len for cell in cells))))
    return columns


def _fitting(columns: Sequence[_Column], width: int | None) -> tuple[Table, Sequence[str]]:
    """Return a table that fits the width, and the titles of columns without room.

    Each object is one line. Without a width, each cell is whole.
    """
    left_out = []
    if width is not None:
        columns = list(columns)
        while _least_cells(columns) > width:
            droppable = [each for each in columns if each.name not in _KEPT]
            if not droppable:
                break
            dropped = max(droppable, key=lambda each: (each.is_empty, each.name not in _LATE, columns.index(each)))
            columns.remove(dropped)
            left_out += [] if dropped.is_empty else [dropped.title]
        _share(columns, width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, overflow="ellipsis", no_wrap=True, width=column.width)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table, left_out


def _least_cells(columns: Sequence[_Column]) -> int:
    return sum(each.least for each in columns) + _GAP_CELLS * (len(columns) - 1)


def _share(columns: Sequence[_Column], width: int) -> None:
    """Narrow the columns to the width: the widest texts first, then the IDs."""
    excess = sum(each.width for each in columns) + _GAP_CELLS * (len(columns) - 1) - width
    while excess > 0:
        able = [each for each in columns if each.width > each.least]
        if not able:
            break
        widest = max(able, key=lambda each: (each.name not in _LATE, each.width))
        widest.width -= 1
        excess -= 1
    for each in columns:
        if excess > 0 and each.name == "id":
            given = min(excess, max(each.width - _LEAST_ID_CELLS, 0))
            each.width -= given
            excess -= given


def _natural_cells(table: Table) -> int:
    return sum(column.width or 0 for column in table.columns) + _GAP_CELLS * len(table.columns)


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
            grid.add_row(name, _cell(name, _shown(document, name), whole=True, zone=zone))
    console.print(grid)
    for name, listed in lists.items():
        console.print(f"\n[bold]{printable(name)}[/]")
        items = [_with_rest(each) for each in listed]
        table, _ = _fitting(_columns(items), None)
        if _natural_cells(table) <= width + _GAP_CELLS:
            console.print(table)
        else:
            _show_blocks(console, items)
        _show_failed_steps(console, items)


def _show_failed_steps(console: Console, items: Sequence[Mapping[str, Any]]) -> None:
    """Print what failed steps were sent, below their errors and whole."""
    for item in items:
        if item.get("errorMessage") and isinstance(item.get("inputs"), dict):
            grid = _grid()
            for name, value in item["inputs"].items():
                grid.add_row(Text(f"  {printable(name)}"), _cell(name, value, whole=True))
            console.print(Text(f"\n{printable(item['path'])}: {printable(item['errorMessage'])}"))
            console.print(grid)


def _with_rest(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a group of instances that says how many it doesn't list."""
    listed = item.get("instances")
    if not _are_named(listed) or item.get("count", 0) <= len(listed or ()):
        return item
    names = [each["name"] for each in listed or ()]
    return {**item, "instances": [*names, f"and {item['count'] - len(names)} more"]}


def _zone(schedule: Mapping[str, Any]) -> ZoneInfo | None:
    """Return the time zone of a schedule, or None if it is unknown."""
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(str(schedule.get("zone", "")))
    return None


def _show_blocks(console: Console, items: Sequence[Mapping[str, Any]]) -> None:
    """Print objects below each other: a table would be too wide."""
    for number, item in enumerate(items):
        grid = _grid()
        for name, value in item.items():
            if (name in _MAPS or _is_shown(value)) and _has(item, name) and name not in _DULL:
                grid.add_row(Text(f"  {printable(name)}"), _cell(name, _shown(item, name), in_list=True))
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
    return not isinstance(value, dict) and (not _is_list_of_objects(value) or _is_brief(value))


_PARTS = (  # of previews, impacts and change sets: what is shown of them in one line
    {"path", "change", "parameters"},
    {"path", "parts", "workflows"},
    {"kind", "name", "component"},
    {"name", "from", "to"},
    {"name", "usualMs"},
)


def _is_brief(value: Any) -> bool:
    """Return whether each object of a list has a short form."""
    return _are_named(value) or (_is_list_of_objects(value) and any(part <= {*value[0]} for part in _PARTS))


def _are_named(value: Any) -> bool:
    return _is_list_of_objects(value) and {*value[0]} == {"id", "name"}


def _brief(part: Mapping[str, Any]) -> str:
    """Return a part of a preview in one line, such as `shop changes: size 1 → 2`."""
    if "path" in part and "change" not in part:
        return f"{part['path']}: {_brief_code(part)}"
    if "path" in part:
        changed = ", ".join(
            each if isinstance(each, str) else _brief(each) for each in part.get("values", part["parameters"])
        )
        if code := part.get("code"):
            changed = "; ".join(filter(None, [changed, _brief_code(code)]))
        return f"{part['path']} {part['change']}" + (f": {changed}" if changed else "")
    if "from" in part and "kind" not in part:
        before, after = (_short(part[name]) for name in ("from", "to"))
        return f"{part['name']} {before} → {after}" + (" (the default)" if part.get("reset") else "")
    if "kind" in part:
        shown = f"{part['kind']} {part['name']}" + (f" ({part['component']})" if part["component"] else "")
        return shown + (f" {_short(part['from'])} → {_short(part['to'])}" if part["kind"] != "service" else "")
    usual_ms = part.get("usualMs")
    return str(part["name"]) + (f" (usually {duration_words(usual_ms)})" if usual_ms else "")


def _brief_code(code: Mapping[str, Any]) -> str:
    """Return what differs in code, such as `workflow stop (step Rest), triggers`."""
    return f"{msgspec.convert(code, CodeChange).sentence}, from the next run on"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _BRIEF_CHARS else f"{text[:_BRIEF_CHARS]}…"


def _has(item: Mapping[str, Any], name: str) -> bool:
    return item.get(name) not in (None, [], {}, "")


def _at(item: Mapping[str, Any], name: str) -> Any:
    if name in item:
        return _shown(item, name)
    value: Any = item
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _shown(item: Mapping[str, Any], name: str) -> Any:
    """Return a value; the status of a job or step in words."""
    status, error = item[name], item.get("errorMessage")
    if name != "status" or not isinstance(status, str):
        return status
    return shown_status(status, error, skipped=item.get("skipped") is True, ignored=item.get("ignored") is True)


def _cell(name: str, value: Any, *, whole: bool = False, in_list: bool = False, zone: ZoneInfo | None = None) -> Text:
    if value is None or value in ([], {}):
        return Text(_NOTHING, style="dim")
    if is_time(name, value) or are_times(name, value):
        times = value if isinstance(value, list) else [value]
        if in_list:
            times = times[:1]
        return Text(", ".join(format_time(each, in_list=in_list, zone=zone) for each in times))
    if isinstance(value, str):
        text = printable(with_local_times(value) if name in _SENTENCES else value)
        return Text(text.replace("\n", " ") if in_list else text, style=COLOURS.get(value, ""))
    words = _in_words(name, value)
    if words is not None:
        return Text(printable(words))
    text = json.dumps(value, ensure_ascii=False)
    return Text(text if whole or len(text) <= _CELL_CHARS else f"{text[:_CELL_CHARS]}…")


def _in_words(name: str, value: Any) -> str | None:
    """Return a value in words, or None for what people read as JSON."""
    words: str | None = None
    if isinstance(value, bool):
        words = "yes" if value else "no"
    elif name.endswith("Ms") and isinstance(value, int):
        words = (
            "never" if value == NEVER and name == "defaultMs" else ("−" if value < 0 else "") + duration_words(value)
        )
    elif isinstance(value, dict) and {*value} >= _CAUSE and all(isinstance(each, str) for each in value.values()):
        words = " ".join(filter(None, (value["kind"], value.get("name") or value["id"])))
    elif _is_brief(value):
        words = (", " if _are_named(value) else "; ").join(map(_brief_or_text, value))
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        # Whole sentences, such as warnings, follow each other as they are.
        words = (" " if any(each.endswith((".", "!", "?", "…")) for each in value) else ", ").join(value)
    return words


def _brief_or_text(part: Any) -> str:
    return part if isinstance(part, str) else _brief(part)


def format_time(ms: int, *, in_list: bool = False, zone: ZoneInfo | None = None) -> str:
    """Return milliseconds since the Unix epoch as time in the zone, with its name, or as local time.

    In a list, the local time of today has no date.
    """
    at = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)
    if zone is not None:
        return at.strftime("%Y-%m-%d %H:%M %Z" if in_list else "%Y-%m-%d %H:%M:%S %Z")
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

    def note(self, text: str) -> None:
        self._bars.console.print(escape(printable(text)), soft_wrap=True)  # so that a link stays whole

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        task = self._tasks.get(path)
        if task is None:
            task = self._tasks[path] = self._bars.add_task(escape(printable(name)), total=100, status="")
        self._bars.update(task, completed=percent, status=_coloured(status))
        if status in {"Succeeded", "Failed", "Failed, ignored", "Interrupted", "Skipped"}:
            self._bars.stop_task(task)

    def close(self) -> None:
        self._bars.stop()


def _coloured(status: str) -> str:
    colour = COLOURS.get(status)
    return f"[{colour}]{status}[/]" if colour else escape(printable(status))
