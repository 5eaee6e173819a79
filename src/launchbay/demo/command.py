"""The command `launchbay demo`."""

import os
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console

from launchbay.demo.processes import DemoFailed, Processes, Running, is_free
from launchbay.demo.show import Show

DATA_DIR = Path("data/demo")
PORT = 8080
_INTERRUPTED = 130  # what shells expect of a program that Ctrl-C ended


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), default=DATA_DIR, show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The port of the API; 0 takes a free one. [default: {PORT}, or a free one where that is taken]",
)
@click.option("--stop", is_flag=True, help="Stop the demo that runs in the background.")
def demo(data_dir: Path, port: int | None, stop: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Start Launchbay with a sample application, show it at work, and leave it running to be tried."""
    console = Console(highlight=False)
    processes = Processes(data_dir.resolve())
    try:
        if stop:
            console.print("The demo is stopped. Its data stay." if _stop(processes, data_dir) else "No demo runs here.")
            return
        running = _running(processes, console, port)
        stop_command = _stop_command(data_dir)
        try:
            show = Show(running, console)
            show.next_commands(show.run(), stop_command)
        except BaseException:
            text = f"\nLaunchbay goes on in the background, at {running.url}. Stop it with:\n{stop_command}"
            console.print(text, markup=False, soft_wrap=True)
            raise
    except DemoFailed as failure:
        raise click.ClickException(str(failure)) from failure
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _running(processes: Processes, console: Console, port: int | None) -> Running:
    """Return the demo that runs already, or start one."""
    with processes.alone():
        running = processes.find()
        if running is not None:
            console.print(f"[green]●[/] Launchbay runs already, at [bold]{running.url}[/]")
            return running
        if port is None:
            port = PORT if is_free(PORT) else 0
            if port == 0:
                console.print(f"[yellow]●[/] Port {PORT} is taken by another program: taking a free one instead.")
        elif port and not is_free(port):
            raise DemoFailed(f"Port {port} is taken by another program. Give another one; --port 0 takes a free one.")
        starting = "Starting Launchbay on its embedded PostgreSQL …"
        if not console.is_terminal:
            console.print(starting)
        with console.status(starting):
            running = processes.start(port)
    console.print(f"[green]●[/] Launchbay answers at [bold]{running.url}[/]")
    return running


def _stop(processes: Processes, data_dir: Path) -> bool:
    if not data_dir.is_dir():
        return False
    with processes.alone():
        return processes.stop()


def _stop_command(data_dir: Path) -> str:
    """Return what to type to stop this demo."""
    if data_dir == DATA_DIR and "MAKELEVEL" in os.environ:
        return "make demo ARGS=--stop"
    program = [sys.argv[0]] if os.access(sys.argv[0], os.X_OK) else [sys.executable, "-m", "launchbay.bootstrap.main"]
    words = [*program, "demo", "--stop"]
    return shlex.join(words if data_dir == DATA_DIR else [*words, "--data-dir", str(data_dir)])
