"""Progress as bars on a terminal."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from launchbay.cli.printable import printable
from launchbay.cli.tables import COLOURS

_WIDTH = 28


class Bars:
    """One bar for each step, and the status of the instance above them."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=_WIDTH),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
        )
        self._tasks: dict[str, TaskID] = {}
        self._status = ""
        self._bars.start()

    def status(self, text: str) -> None:
        """Print the status of the instance above the bars, where it is a new one."""
        if text != self._status:
            self._status = text
            self._bars.console.print(_coloured(text))

    def step(self, path: str, name: str, status: str, percent: int) -> None:
        """Move the bar of a step."""
        task = self._tasks.get(path)
        if task is None:
            task = self._tasks[path] = self._bars.add_task(escape(printable(name)), total=100, status="")
        self._bars.update(task, completed=percent, status=_coloured(status))
        if status in {"Succeeded", "Failed"}:
            self._bars.stop_task(task)

    def close(self) -> None:
        """Leave the last picture."""
        self._bars.stop()


def _coloured(status: str) -> str:
    colour = COLOURS.get(status)
    return f"[{colour}]{status}[/]" if colour else escape(printable(status))
