"""Real servers for pages and commands that need one, and the few calls that they make."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.running import EMAIL, PASSWORD
from tests.demo.places import place

WITHIN_S = 60.0
BUSY = {"Requested", "Executing", "Destroying"}
_ANSWERS_AT = "Launchbay answers at "


class Bay:
    """A server's API, as its first administrator sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/api/1", auth=(EMAIL, PASSWORD), timeout=WITHIN_S, trust_env=False)
        self.organization = str(self.call("GET", "organizations")[0]["id"])

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send JSON, or YAML where the body is a text, and return the JSON of the answer, which must be a success."""
        answer = self.request(method, path, body)
        assert answer.status_code == 200, (method, path, answer.text)
        return answer.json()

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send JSON, or YAML where the body is a text, and return the answer."""
        if isinstance(body, str):
            return self._http.request(method, path, content=body, headers={"Content-Type": "application/x-yaml"})
        return self._http.request(method, path, json=body)

    def application(self, name: str, manifest: str) -> str:
        """Create an application with a manifest and return its id."""
        created = self.call("POST", f"organizations/{self.organization}/applications", {"name": name})
        self.call("PUT", f"applications/{created['id']}/manifest", manifest)
        return str(created["id"])

    def environment(self, name: str, offers: Mapping[str, Any]) -> str:
        """Create an environment with markers, properties, policies and instances of applications; return its id."""
        created = self.call("POST", f"organizations/{self.organization}/environments", {"name": name})
        path = f"environments/{created['id']}"
        markers = [{"name": marker} for marker in offers.get("markers", ())]
        properties = [
            {"name": key, "value": value, "type": "string"} for key, value in offers.get("properties", {}).items()
        ]
        self.call("PUT", f"{path}/markers", {"markers": markers})
        self.call("PUT", f"{path}/properties", {"properties": properties})
        self.request("PUT", path, json.dumps({"policies": offers.get("policies", {})})).raise_for_status()
        applications = self.call("GET", f"organizations/{self.organization}/applications")
        ids = {application["name"]: application["id"] for application in applications}
        for application in offers.get("instances", ()):
            instance = self.call("POST", f"applications/{ids[application]}/launch", {})["id"]
            assert self.settled(instance)["status"] == "Running"
            self.call("PUT", f"instances/{instance}/environments", {"environments": [created["id"]]})
        return str(created["id"])

    def settled(self, instance: str) -> Any:
        """Return the instance once nothing is under way on it."""
        deadline = time.monotonic() + WITHIN_S
        while (seen := self.call("GET", f"instances/{instance}"))["status"] in BUSY:
            assert time.monotonic() < deadline, f"the instance is still {seen['status']}"
            time.sleep(0.05)
        return seen

    def returning(self, instance: str, values: object) -> None:
        """Wait until the instance returns these values and nothing is under way on it."""
        deadline = time.monotonic() + WITHIN_S
        while (seen := self.call("GET", f"instances/{instance}"))["returnValues"] != values or seen["status"] in BUSY:
            assert time.monotonic() < deadline, f"the instance is {seen['status']} with {seen['returnValues']}"
            time.sleep(0.05)


@contextmanager
def served() -> Iterator[Bay]:
    """Start `launchbay serve` on an empty directory, and end it after use."""
    with place() as directory:
        log = directory / "serve.log"
        command = [sys.executable, "-m", "launchbay.cli.main", "serve", "--port", "0", "--data-dir"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(directory / "data")],
                stdout=output,
                stderr=output,
                env=_environment(LAUNCHBAY_ADMIN_PASSWORD=PASSWORD),
            )
        try:
            yield Bay(_address(log, process))
        finally:
            process.terminate()
            process.wait(timeout=WITHIN_S)


def _environment(**settings: str) -> dict[str, str]:
    return {**{name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}, **settings}


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        text = log.read_text("utf-8")
        for line in text.splitlines():
            if line.startswith(_ANSWERS_AT):
                return line.removeprefix(_ANSWERS_AT)
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text('utf-8')}")
