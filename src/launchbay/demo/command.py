"""The command `launchbay demo`: start the server, launch the sample, print what to try next."""

import os
import shlex
import shutil
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


def sample_manifest(platform_url: str) -> str:
    """Return the manifest of the sample, which calls this platform by default."""
    text = (resources.files("launchbay.demo") / "sample.yaml").read_text("utf-8")
    before, first, after = text.partition("    input.replicas: 2\n")
    assert first, "the sample sets its defaults"
    return f"{before}{first}    input.platform-url: {platform_url}\n{after}"


class DemoRun:
    """Launches the sample application and runs a command on it, over the HTTP API."""

    def __init__(self, running: RunningDemo, console: Console) -> None:
        self._running = running
        self._console = console
        self._http = httpx.Client(
            base_url=f"{running.url}/api/1", auth=(EMAIL, running.password), timeout=30, trust_env=False
        )

    def run(self) -> tuple[str, str]:
        """Upload, launch, run a command; return the instance's id and name. Raises DemoFailed if any of it fails."""
        manifest = sample_manifest(self._running.platform_url)
        organization = self._get("/organizations")[0]
        application = self._application(organization["id"])
        version = self._send("PUT", f"/applications/{application}/manifest", manifest)["version"]
        lines = manifest.count("\n")
        self._print(f"Application [bold]{APPLICATION}[/]: version {version}, three components, {lines} lines of YAML")
        name = f"Shop {len(self._get(f'/applications/{application}/instances')) + 1}"
        launched = self._send(
            "POST",
            f"/applications/{application}/launch",
            {
                "instanceName": name,
                "parameters": {"input.replicas": 3},
            },
        )
        instance = str(launched["id"])
        self._print(f"Launched instance [bold]{instance}[/]")
        self._watch(instance)
        self._return_values(instance)
        self._print("Running the command [bold]manage.scale[/] on the live instance")
        self._send("POST", f"/instances/{instance}/manage.scale", {"replicas": "5"})
        self._watch(instance)
        self._return_values(instance)
        return instance, name

    def next_commands(self, instance: str, name: str, program: str, stop_command: str) -> None:
        """Print addresses, credentials and commands to try next, without wrapping lines."""
        url = self._running.url
        self._console.print(f"[bold]Launchbay is running in the background at {url}[/]")
        self._console.print(
            f"  Email     {EMAIL}\n"
            f"  Password  {self._running.password}\n"
            f"  Console   {url}/console/instances/{instance}\n"
            f"  API       {url}/api/1/openapi.json\n"
            f"  Log       {self._running.log}",
            markup=False,
            soft_wrap=True,
        )
        password = shlex.quote(self._running.password)
        shop = shlex.quote(name)
        self._print_commands(
            "Try next",
            "# sign in; the profile is called demo",
            f"echo {password} | {program} login {url} --email {EMAIL} --password-stdin --profile demo",
            "# the instance, with everything that ran on it",
            f"{program} status {shop}",
            "# its log",
            f"{program} logs {shop}",
            "# scale again: now, or in a minute",
            f"{program} run {shop} manage.scale replicas=1 --wait",
            f"{program} instance schedule {shop} manage.scale 1m -p replicas=4",
            "# destroy it, and follow its log to the end",
            f"{program} destroy {shop}",
            f"{program} logs {shop} -f",
            "# stop the demo; run it again to launch another shop",
            stop_command,
        )
        json_type = "-H 'Content-Type: application/json'"
        self._print_commands(
            "The same with curl",
            f"AUTH={shlex.quote(f'{EMAIL}:{self._running.password}')}",
            f"SHOP={url}/api/1/instances/{instance}",
            "curl -s -u $AUTH $SHOP",
            f"""curl -s -u $AUTH {json_type} -d '{{"replicas": "1"}}' $SHOP/manage.scale""",
            f"""curl -s -u $AUTH {json_type} -d '{{"interval": "60000", "parameters": {{"replicas": "4"}}}}' \\""",
            "     $SHOP/manage.scale/schedule",
            f"curl -s -u $AUTH {json_type} -d '{{}}' $SHOP/destroy",
        )

    def _print_commands(self, title: str, *commands: str) -> None:
        self._console.print(f"[bold]{title}[/]:")
        lines = Syntax("\n".join(commands), "bash", background_color="default", word_wrap=False)
        self._console.print(lines, soft_wrap=True)

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

    def _print(self, text: str) -> None:
        self._console.print(f"[green]●[/] {text}")

    def _get(self, path: str) -> Any:
        return self._request("GET", path)

    def _send(self, method: str, path: str, body: Any) -> Any:
        if isinstance(body, str):
            return self._request(method, path, content=body, headers={"Content-Type": "application/x-yaml"})
        return self._request(method, path, json=body)

    def _request(self, method: str, path: str, **body: Any) -> Any:
        try:
            response = self._http.request(method, path, **body)
        except httpx.TransportError as error:
            raise DemoFailed(f"Lost the connection to Launchbay: {error}. See its log, {self._running.log}.") from error
        if response.status_code != 200:
            raise DemoFailed(f"{method} {response.request.url} returned {response.status_code}: {response.text}")
        return response.json()


def _columns(width: int) -> list[ProgressColumn]:
    """Return the columns of a step that fit into a terminal of this width."""
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
_INTERRUPTED = 130  # the usual exit code after Ctrl-C


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="Directory for the data of the demo.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port of the API; 0 uses a free port.  [default: {PORT}, or a free port if that is in use]",
)
@click.option("--stop", is_flag=True, help="Stop the demo that is running in the background.")
def demo(data_dir: Path, port: int | None, stop: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Start a server with a sample application, launch it, and leave the server running."""
    console = Console(highlight=False)
    processes = Processes(data_dir.resolve())
    try:
        if stop:
            console.print(
                "Stopped the demo. Its data remains." if _stop(processes, data_dir) else "No demo is running."
            )
            return
        running = _running(processes, console, port)
        stop_command = _stop_command(data_dir)
        try:
            show = DemoRun(running, console)
            show.next_commands(*show.run(), shlex.join(_program()), stop_command)
        except BaseException:
            text = f"\nLaunchbay keeps running in the background at {running.url}. To stop it, run:\n{stop_command}"
            console.print(text, markup=False, soft_wrap=True)
            raise
    except DemoFailed as failure:
        raise click.ClickException(str(failure)) from failure
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _running(processes: Processes, console: Console, port: int | None) -> RunningDemo:
    """Return the running demo, or start one."""
    with processes.lock():
        running = processes.find()
        if running is not None:
            console.print(f"[green]●[/] Launchbay is already running at [bold]{running.url}[/]")
            return running
        if port is None:
            port = PORT if is_free(PORT) else 0
            if port == 0:
                console.print(f"[yellow]●[/] Port {PORT} is in use by another program. Using a free port instead.")
        elif port and not is_free(port):
            raise DemoFailed(f"Port {port} is in use by another program. Use another port, or --port 0 for a free one.")
        starting = "Starting Launchbay with embedded PostgreSQL …"
        if not console.is_terminal:
            console.print(starting)
        with console.status(starting):
            running = processes.start(port)
    console.print(f"[green]●[/] Launchbay is ready at [bold]{running.url}[/]")
    return running


def _stop(processes: Processes, data_dir: Path) -> bool:
    if not data_dir.is_dir():
        return False
    with processes.lock():
        return processes.stop()


def _stop_command(data_dir: Path) -> str:
    if data_dir == DATA_DIR and "MAKELEVEL" in os.environ:
        return "make demo ARGS=--stop"
    words = [*_program(), "demo", "--stop"]
    return shlex.join(words if data_dir == DATA_DIR else [*words, "--data-dir", str(data_dir)])


def _program() -> list[str]:
    program = sys.argv[0]
    if not os.access(program, os.X_OK):
        return [sys.executable, "-m", "launchbay.cli.main"]
    # `uvx` extends the PATH for this command only: its user has no `launchbay` there afterwards.
    on_path = None if "UV" in os.environ else shutil.which("launchbay")
    return ["launchbay" if on_path is not None and Path(on_path).samefile(program) else program]
