"""The command `launchbay demo`."""

from pathlib import Path

import click
from rich.console import Console

from launchbay.demo import processes
from launchbay.demo.show import Show


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), default=Path("data/demo"), show_default=True)
@click.option("--port", type=int, default=8080, show_default=True, help="The port of the API; 0 takes a free one.")
@click.option("--stop", is_flag=True, help="Stop the demo that runs in the background.")
def demo(data_dir: Path, port: int, stop: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Start Launchbay with a sample application, show it at work, and leave it running to be tried."""
    console = Console()
    directory = data_dir.resolve()
    if stop:
        console.print("The demo is stopped." if processes.stop(directory) else "No demo runs here.")
        return
    try:
        running = processes.find(directory)
        if running is None:
            with console.status("Starting Launchbay on its embedded PostgreSQL …"):
                running = processes.start(directory, port)
        console.print(f"[green]●[/] Launchbay answers at [bold]{running.url}[/]", highlight=False)
        show = Show(running, console)
        show.next_commands(show.run())
    except processes.DemoFailed as failure:
        raise click.ClickException(str(failure)) from failure
