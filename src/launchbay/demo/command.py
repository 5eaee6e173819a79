"""The command `launchbay demo`."""

import os
import shlex
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from launchbay.demo.processes import EMAIL, DemoFailed, Processes, RunningDemo, is_free

APPLICATION = "sample-shop"
ENDS = {"Running", "Failed", "Destroyed"}
POLL_S = 0.1
WITHIN_S = 120.0


class DemoRun:
    """One walk through the product, as any client of the API would do it."""

    def __init__(self, running: RunningDemo, console: Console) -> None:
        self._running = running
        self._console = console
        self._http = httpx.Client(
            base_url=f"{running.url}/api/1", auth=(EMAIL, running.password), timeout=30, trust_env=False
        )

    def run(self) -> str:
        """Upload, launch, watch, run a command; return the instance's id. Raises DemoFailed when it ends otherwise."""
        manifest = (resources.files("launchbay.demo") / "sample.yaml").read_text("utf-8")
        organization = self._get("/organizations")[0]
        application = self._application(organization["id"])
        version = self._send("PUT", f"/applications/{application}/manifest", manifest)["version"]
        lines = manifest.count("\n")
        self._say(f"Application [bold]{APPLICATION}[/]: version {version}, three components, {lines} lines of YAML")
        number = len(self._get(f"/applications/{application}/instances")) + 1
        launched = self._send(
            "POST",
            f"/applications/{application}/launch",
            {
                "instanceName": f"Shop {number}",
                "parameters": {"input.platform-url": self._running.platform_url, "input.replicas": 3},
            },
        )
        instance = str(launched["id"])
        self._say(f"Launched: instance [bold]{instance}[/]")
        self._watch(instance)
        self._return_values(instance)
        self._say("Running the command [bold]manage.scale[/] on the live instance")
        self._send("POST", f"/instances/{instance}/manage.scale", {"replicas": "5"})
        self._watch(instance)
        self._return_values(instance)
        return instance

    def next_commands(self, instance: str, stop_command: str) -> None:
        """Print where everything is and what to try next, in lines that can be copied whatever the terminal's width."""
        url = self._running.url
        self._console.print(f"[bold]Launchbay runs in the background, at {url}[/]")
        self._console.print(
            f"  E-mail    {EMAIL}\n"
            f"  Password  {self._running.password}\n"
            f"  Console   {url}/console/instances/{instance}\n"
            f"  API       {url}/api/1/openapi.json\n"
            f"  Log       {self._running.log}",
            markup=False,
            soft_wrap=True,
        )
        json_type = "-H 'Content-Type: application/json'"
        commands = "\n".join(
            (
                f"AUTH={shlex.quote(f'{EMAIL}:{self._running.password}')}",
                f"SHOP={url}/api/1/instances/{instance}",
                "# the instance, with everything that ran on it",
                "curl -s -u $AUTH $SHOP",
                "# scale again: now, or in a minute",
                f"""curl -s -u $AUTH {json_type} -d '{{"replicas": "1"}}' $SHOP/manage.scale""",
                f"""curl -s -u $AUTH {json_type} -d '{{"interval": "60000", "parameters": {{"replicas": "4"}}}}' \\""",
                "     $SHOP/manage.scale/schedule",
                "# take it down",
                f"curl -s -u $AUTH {json_type} -d '{{}}' $SHOP/destroy",
                "# stop the demo; run it again to launch another shop",
                stop_command,
            )
        )
        self._console.print("[bold]Try next[/], in a shell:")
        self._console.print(Syntax(commands, "bash", background_color="default", word_wrap=False), soft_wrap=True)

    def _application(self, organization: str) -> str:
        for found in self._get(f"/organizations/{organization}/applications"):
            if found["name"] == APPLICATION:
                return str(found["id"])
        created = self._send("POST", f"/organizations/{organization}/applications", {"name": APPLICATION})
        return str(created["id"])

    def _watch(self, instance: str) -> None:
        """Show the steps of the running job until it ends."""
        deadline = time.monotonic() + WITHIN_S
        with Progress(*_columns(self._console.width), console=self._console) as progress:
            shown: dict[int, TaskID] = {}
            while time.monotonic() < deadline:
                seen = self._get(f"/instances/{instance}")
                for number, step in enumerate(seen["workflowHistory"][0]["steps"]):
                    _show_step(progress, shown, number, step)
                if seen["status"] in ENDS:
                    break
                time.sleep(POLL_S)
        if seen["status"] != "Running":
            raise DemoFailed(f"The instance ended as {seen['status']}: {seen['errorMessage']}")

    def _return_values(self, instance: str) -> None:
        seen = self._get(f"/instances/{instance}")
        table = Table(title=f"{seen['name']}: {seen['status']}", title_justify="left")
        table.add_column("Return value", overflow="fold")
        table.add_column("", overflow="fold")
        for name, value in seen["returnValues"].items():
            table.add_row(name, str(value))
        self._console.print(table)

    def _say(self, text: str) -> None:
        self._console.print(f"[green]●[/] {text}")

    def _get(self, path: str) -> Any:
        return self._request("GET", path)

    def _send(self, method: str, path: str, body: Any) -> Any:
        if isinstance(body, str):
            return self._request(method, path, content=body, headers={"Content-Type": "application/x-yaml"})
        return self._request(method, path, json=body)

    def _request(self, method: str, path: str, **body: Any) -> Any:
        try:
            answer = self._http.request(method, path, **body)
        except httpx.TransportError as error:
            raise DemoFailed(f"Launchbay stopped answering: {error}. {self._running.log} may tell why.") from error
        if answer.status_code != 200:
            raise DemoFailed(f"{method} {answer.request.url} answered {answer.status_code}: {answer.text}")
        return answer.json()


def _columns(width: int) -> list[ProgressColumn]:
    """Return what a line about a step shows in a terminal of this width."""
    columns: list[ProgressColumn] = [TextColumn("  {task.description:<16}"), TextColumn("{task.fields[status]:<10}")]
    if width >= 60:
        columns.insert(1, BarColumn(bar_width=30))
    if width >= 40:
        columns.append(TimeElapsedColumn())
    return columns


def _show_step(progress: Progress, shown: dict[int, TaskID], number: int, step: dict[str, Any]) -> None:
    if number not in shown:
        shown[number] = progress.add_task(step["name"], total=100, status="", start=False)
    task = shown[number]
    if step["status"] != "Requested":
        progress.start_task(task)
    progress.update(task, completed=step["percentComplete"], status=step["status"])
    if step["status"] in {"Succeeded", "Failed"}:
        progress.stop_task(task)


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
            show = DemoRun(running, console)
            show.next_commands(show.run(), stop_command)
        except BaseException:
            text = f"\nLaunchbay goes on in the background, at {running.url}. Stop it with:\n{stop_command}"
            console.print(text, markup=False, soft_wrap=True)
            raise
    except DemoFailed as failure:
        raise click.ClickException(str(failure)) from failure
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _running(processes: Processes, console: Console, port: int | None) -> RunningDemo:
    """Return the demo that runs already, or start one."""
    with processes.lock():
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
    with processes.lock():
        return processes.stop()


def _stop_command(data_dir: Path) -> str:
    """Return what to type to stop this demo."""
    if data_dir == DATA_DIR and "MAKELEVEL" in os.environ:
        return "make demo ARGS=--stop"
    program = [sys.argv[0]] if os.access(sys.argv[0], os.X_OK) else [sys.executable, "-m", "launchbay.cli.main"]
    words = [*program, "demo", "--stop"]
    return shlex.join(words if data_dir == DATA_DIR else [*words, "--data-dir", str(data_dir)])
