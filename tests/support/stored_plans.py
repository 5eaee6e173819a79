"""Makes `stored_plans/NAME.json`: jobs as a version of this product left them, queued and in the midst of their steps.

    python -m tests.support.stored_plans NAME COMMIT "submodule component live resume recall"

Run it when the shape of plans, journals or states is about to change, with the last commit before. A server of that
commit gets jobs of every kind (those in quotation marks came with time) and is killed while they are at a step that
takes an hour; their times are put back by a month, so that the hour is over. A commit that migrates with Alembic
(before decision 0090) needs `alembic` and `sqlalchemy` in the environment.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.support.eventually import eventually_blocking
from tests.support.servers import EMAIL, PASSWORD, Process, join_postgres, remove_postgres
from tests.support.versions import old_source

FOLDER = Path(__file__).parents[1] / "engine" / "stored_plans"
TABLES = (
    *("organizations", "users", "memberships", "roles", "role_assignments", "zones", "services", "applications"),
    *("manifests", "environments", "environment_services", "instances", "instance_links", "jobs", "steps", "schedules"),
)
HOUR = "{wait: {action: wait, precedingPhases: [done], parameters: {delay: 3600 sec}}}"
SLOW = f"""
      - done: {{action: wait, parameters: {{delay: 0 sec}}}}
      - {HOUR[1:-1]}
"""
PLAIN = f"""
launch:
  steps: [{{done: {{action: wait, parameters: {{delay: 0 sec}}}}}}]
  return: {{said: {{value: hello}}}}
go:
  parameters: [v: {{}}]
  steps: {SLOW}
  return: {{said: {{value: "{{$.v}}"}}}}
destroy:
  steps: {SLOW}
"""
SLOWLY = f"launch:\n  steps: {SLOW}\n  return: {{said: {{value: hello}}}}\n"
LIVE = """
application:
  configuration: {input.size: 0}
  interfaces:
    input: {size: bind(worker#input.wanted)}
    result: {heard: bind(ear#out.heard)}
    actions: {grow: bind(worker#actions.grow)}
  bindings: [[ear, worker]]
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {wanted: configuration(int)}
        result: {size: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {size: {value: 0}}}
          grow: {steps: [], return: {size: {value: "{$.by}"}}}
    ear:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {size: consume-signal(int)}
        out: {heard: publish-signal(int)}
      configuration:
        configuration.triggers: {result.size: hear}
        configuration.workflows:
          launch: {steps: [], return: {heard: {value: -1}}}
          hear:
            steps:
              - done: {action: getSignals, output: {seen: result}}
              - wait: {action: wait, precedingPhases: [done], parameters: {delay: 3600 sec}}
            return: {heard: {value: "{$.seen.result.size}"}}
"""
GROWN = (
    LIVE
    + """
    late:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - done: {action: wait, parameters: {delay: 0 sec}}
              - wait: {action: wait, precedingPhases: [done], parameters: {delay: 3600 sec}}
"""
)
OUTER = """
application:
  components:
    inner:
      type: reference.Submodule
      configuration: {__locator.application-id: SLOWLY}
"""
OF_COMPONENTS = """
application:
  interfaces: {actions: {grow: bind(worker#actions.grow)}}
  components:
    worker:
      type: workflow.Instance
      interfaces: {actions: {grow: receive-command(int by => int size)}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          grow:
            steps:
              - done: {action: wait, parameters: {delay: 0 sec}}
              - wait: {action: wait, precedingPhases: [done], parameters: {delay: 3600 sec}}
            return: {size: {value: "{$.by}"}}
"""
FAILING = f"""
launch: {{steps: []}}
go:
  steps:
      - done: {{action: wait, parameters: {{delay: 0 sec}}}}
      - {HOUR[1:-1]}
"""


class Old:
    """A server of the old version, called by its administrator."""

    def __init__(self, port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/1/", auth=(EMAIL, PASSWORD), timeout=20)
        [self._organization] = self.call("GET", "organizations")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        assert answer.status_code == 200, (method, path, answer.text)
        return answer.json()

    def applications(self) -> list[Any]:
        found: list[Any] = self.call("GET", f"organizations/{self._organization['id']}/applications")
        return found

    def put(self, application: str, text: str) -> int:
        headers = {"Content-Type": "application/x-yaml"}
        answer = self._http.put(f"applications/{application}/manifest", content=text.encode(), headers=headers)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["version"])

    def application(self, name: str, text: str) -> str:
        made = self.call("POST", f"organizations/{self._organization['id']}/applications", {"name": name})
        self.put(made["id"], text)
        return str(made["id"])

    def launched(self, application: str) -> str:
        """Launch and wait until it is Running."""
        instance = self.launch(application)
        self.until(instance, "Running")
        return instance

    def launch(self, application: str) -> str:
        return str(self.call("POST", f"applications/{application}/launch", {"destroyInterval": -1})["id"])

    def until(self, instance: str, status: str) -> None:
        eventually_blocking(lambda: self.call("GET", f"instances/{instance}"), lambda found: found["status"] == status)


def in_flight(old: Old, kinds: str) -> dict[str, str]:
    """Bring jobs of these kinds into the midst of their steps; return what each instance is to become."""
    plain = old.application("plain", PLAIN)
    slowly = old.application("slowly", SLOWLY)
    ends = {old.launch(slowly): "Running"}
    commanded = old.launched(plain)
    old.call("POST", f"instances/{commanded}/go", {"v": "given"})
    ends[commanded] = "Running"
    destroyed = old.launched(plain)
    old.call("POST", f"instances/{destroyed}/destroy", {})
    ends[destroyed] = "Destroyed"
    forced = old.launched(plain)
    old.call("DELETE", f"instances/{forced}?force=1")
    ends[forced] = "gone"
    if "submodule" in kinds:
        ends[old.launch(old.application("outer", OUTER.replace("SLOWLY", slowly)))] = "Running"
    if "component" in kinds:
        grown = old.launched(old.application("of components", OF_COMPONENTS))
        old.call("POST", f"instances/{grown}/actions.grow", {"by": "3"})
        ends[grown] = "Running"
    if "live" in kinds:
        live = old.application("live", LIVE)
        triggered, changed = old.launched(live), old.launched(live)
        old.call("POST", f"instances/{triggered}/actions.grow", {"by": "7"})
        old.call("PUT", f"instances/{changed}/configuration", {"manifestVersion": old.put(live, GROWN)})
        ends |= {triggered: "Running", changed: "Running"}
    if "resume" in kinds:
        resumed = old.launched(old.application("failing", FAILING))
        old.call("POST", f"instances/{resumed}/go", {})
        time.sleep(1)
        [job] = [each for each in old.call("GET", f"instances/{resumed}/jobs") if each["name"] == "go"]
        old.call("DELETE", f"instances/{resumed}/jobs/{job['id']}")
        eventually_blocking(lambda: old.call("GET", f"instances/{resumed}/jobs/{job['id']}")["status"] != "Executing")
        old.call("POST", f"instances/{resumed}/jobs/{job['id']}/resume", {})
        ends[resumed] = "Running"
    if "recall" in kinds:
        recalled = old.launched(plain)
        old.call("POST", f"instances/{recalled}/go", {"v": "given"})
        time.sleep(1)
        old.call("DELETE", f"instances/{recalled}?force=1")
        ends[recalled] = "gone"
    time.sleep(2)
    return ends


def queued(old: Old) -> dict[str, str]:
    """Accept a job that nobody begins."""
    applications = {each["name"]: each["id"] for each in old.applications()}
    return {old.launch(applications["plain"]): "Running"}


def dumped(url: str) -> dict[str, list[Any]]:
    """Return the rows of the tables, an hour and more older than they are."""
    with psycopg.connect(url) as connection:
        there = {row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables")}
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_name = ANY (%s)"
            " AND data_type = 'timestamp with time zone'",
            [list(TABLES)],
        ).fetchall()
        for table, column in columns:
            connection.execute(f"UPDATE {table} SET {column} = {column} - interval '30 days'".encode())
        dump = {
            table: [row[0] for row in connection.execute(f"SELECT row_to_json({table}) FROM {table}".encode())]
            for table in TABLES
            if table in there
        }
        connection.rollback()
    for user in dump["users"]:
        user["password_hash"] = None
    return dump


def make(name: str, commit: str, kinds: str) -> None:
    directory = Path(tempfile.mkdtemp(prefix="launchbay-stored-"))
    directory.chmod(0o711)
    arguments = ["serve", "--data-dir", str(directory), "--port", "0"]
    server = Process(arguments, directory, source=old_source(commit, directory))
    try:
        server.start()
        assert server.port is not None
        ends = in_flight(Old(server.port), kinds)
        server.kill()
        server.command.append("--no-engine")
        server.start()
        ends |= queued(Old(server.port))
        server.kill()
        postgres = join_postgres(directory)
        rows = dumped(postgres.url)
        postgres.stop()
        key = (directory / "secret.key").read_text() if (directory / "secret.key").exists() else None
        document = {"commit": commit, "key": key, "ends": ends, "rows": rows}
        (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    finally:
        server.end()
        remove_postgres(directory)
        shutil.rmtree(directory)


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2], sys.argv[3])
