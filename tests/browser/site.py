"""A real server in a process of its own, and the API beside the browser, for what a test is not about."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx

EMAIL = "admin@launchbay.local"
PASSWORD = "correct horse battery staple"
BUSY = {"Requested", "Executing", "Destroying"}
START_WITHIN_S = 90.0
_ANSWERS_AT = "Launchbay answers at "
_numbers = itertools.count(1)


@dataclass
class Site:
    """The running server, called by the administrator of its first organization."""

    url: str
    api: httpx.Client
    organization: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make an API call that must succeed, and return its document."""
        answer = self.api.request(method, path, json=body)
        assert answer.status_code == 200, (method, path, answer.status_code, answer.text)
        return answer.json()

    def application(self, manifest: str | None = None, name: str = "") -> str:
        """Create an application, with this manifest unless it is None, and return its id."""
        name = name or fresh_name("application")
        created: str = self.ask("POST", f"organizations/{self.organization}/applications", {"name": name})["id"]
        if manifest is not None:
            self.replace_manifest(created, manifest)
        return created

    def replace_manifest(self, application: str, manifest: str) -> None:
        """Store a manifest."""
        answer = self.api.put(
            f"applications/{application}/manifest",
            content=dedent(manifest).encode(),
            headers={"Content-Type": "application/x-yaml"},
        )
        assert answer.status_code == 200, answer.text

    def launch(self, application: str, **body: Any) -> str:
        """Launch an application and return the instance's id."""
        launched: str = self.ask("POST", f"applications/{application}/launch", body)["id"]
        return launched

    def settled(self, instance: str, within_s: float = 40.0) -> Any:
        """Wait until no job is under way and return the instance in detail."""
        deadline = time.monotonic() + within_s
        while (document := self.ask("GET", f"instances/{instance}"))["status"] in BUSY:
            assert time.monotonic() < deadline, document
            time.sleep(0.05)
        return document


def fresh_name(noun: str) -> str:
    """Return a name that nothing in this session has."""
    return f"{noun} {next(_numbers)}"


@contextmanager
def running_site(directory: Path, **settings: str) -> Iterator[Site]:
    """Start a server on an embedded database of its own, and stop it."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    chosen = {
        "ADMIN_EMAIL": EMAIL,
        "ADMIN_PASSWORD": PASSWORD,
        "MACHINES": "dry-run",
        "OUTGOING_ALLOW": "127.0.0.1",
        "LOG_LEVEL": "warning",
        **settings,
    }
    command = [sys.executable, "-m", "launchbay.cli.main", "serve", "--port", "0", "--data-dir", str(directory)]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**inherited, "PYTHONUNBUFFERED": "1", **{f"LAUNCHBAY_{name}": text for name, text in chosen.items()}},
        )
    try:
        url = _address(process, log)
        with httpx.Client(base_url=f"{url}/api/1/", auth=(EMAIL, PASSWORD), timeout=30, trust_env=False) as client:
            site = Site(url, client)
            site.organization = site.ask("GET", "organizations")[0]["id"]
            yield site
    finally:
        process.terminate()
        process.wait(30)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text("utf-8", "replace").splitlines():
            if line.startswith(_ANSWERS_AT):
                return line.removeprefix(_ANSWERS_AT)
        time.sleep(0.05)
    raise AssertionError(f"The server did not start:\n{log.read_text('utf-8', 'replace')}")
