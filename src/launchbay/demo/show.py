"""Launches the sample application through the API and shows what happens, live."""

import sys
import time
from importlib import resources
from typing import Any

import httpx
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from launchbay.demo.processes import EMAIL, DemoFailed, Running

APPLICATION = "sample-shop"
ENDS = {"Running", "Failed", "Destroyed"}
POLL_S = 0.1
WITHIN_S = 120.0


class Show:
    """One walk through the product, as any client of the API would do it."""

    def __init__(self, running: Running, console: Console) -> None:
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
        launched = self._send(
            "POST",
            f"/applications/{application}/launch",
            {
                "instanceName": "My first shop",
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

    def next_commands(self, instance: str) -> None:
        """Print where everything is and what to try next."""
        url, password = self._running.url, self._running.password
        sign_in = Table.grid(padding=(0, 2))
        sign_in.add_row("Address", url)
        sign_in.add_row("Description of the API", f"{url}/api/1/openapi.json")
        sign_in.add_row("E-mail", EMAIL)
        sign_in.add_row("Password", password)
        sign_in.add_row("Log", self._running.log)
        self._console.print(Panel(sign_in, title="Launchbay is running in the background", expand=False))
        curl = f"curl -s -u {EMAIL}:{password}"
        json_type = "-H 'Content-Type: application/json'"
        commands = "\n".join(
            (
                "# the instance, with everything that ran on it",
                f"{curl} {url}/api/1/instances/{instance}",
                "# scale again, now or in a minute",
                f'{curl} {json_type} -d \'{{"replicas": "1"}}\' {url}/api/1/instances/{instance}/manage.scale',
                f'{curl} {json_type} -d \'{{"interval": "60000", "parameters": {{"replicas": "4"}}}}\' \\',
                f"     {url}/api/1/instances/{instance}/manage.scale/schedule",
                "# take it down",
                f"{curl} {json_type} -d '{{}}' {url}/api/1/instances/{instance}/destroy",
                "# stop the demo",
                f"{sys.argv[0]} demo --stop",
            )
        )
        self._console.print("[bold]Try next[/]")
        self._console.print(Syntax(commands, "bash", background_color="default", word_wrap=False), soft_wrap=True)

    def _application(self, organization: str) -> str:
        for found in self._get(f"/organizations/{organization}/applications"):
            if found["name"] == APPLICATION:
                return str(found["id"])
        created = self._send("POST", f"/organizations/{organization}/applications", {"name": APPLICATION})
        return str(created["id"])

    def _watch(self, instance: str) -> None:
        """Show the steps of the running job until it ends."""
        columns = (
            TextColumn("  {task.description:<18}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[status]:<10}"),
            TimeElapsedColumn(),
        )
        deadline = time.monotonic() + WITHIN_S
        with Progress(*columns, console=self._console) as progress:
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
        table.add_column("Return value")
        table.add_column("")
        for name, value in seen["returnValues"].items():
            table.add_row(name, str(value))
        self._console.print(table)

    def _say(self, text: str) -> None:
        self._console.print(f"[green]●[/] {text}", highlight=False)

    def _get(self, path: str) -> Any:
        return self._checked(self._http.get(path))

    def _send(self, method: str, path: str, body: Any) -> Any:
        if isinstance(body, str):
            media = {"Content-Type": "application/x-yaml"}
            return self._checked(self._http.request(method, path, content=body, headers=media))
        return self._checked(self._http.request(method, path, json=body))

    def _checked(self, answer: httpx.Response) -> Any:
        if answer.status_code != 200:
            raise DemoFailed(
                f"{answer.request.method} {answer.request.url} answered {answer.status_code}: {answer.text}"
            )
        return answer.json()


def _show_step(progress: Progress, shown: dict[int, TaskID], number: int, step: dict[str, Any]) -> None:
    if number not in shown:
        shown[number] = progress.add_task(step["name"], total=100, status="", start=False)
    task = shown[number]
    if step["status"] != "Requested":
        progress.start_task(task)
    progress.update(task, completed=step["percentComplete"], status=step["status"])
    if step["status"] in {"Succeeded", "Failed"}:
        progress.stop_task(task)
