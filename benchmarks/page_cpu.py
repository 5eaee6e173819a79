"""What a page costs the server and its database, as a multiple of the API's read of the same instance.

python -m benchmarks.page_cpu [--rounds N] [--before SRC] [--json FILE]

Each round asks for every page and for the instance by the API in turn, and compares the CPU time of the two, of the
server and of PostgreSQL apart. The instance has six components in a chain and thirty runs of a workflow. Nothing else
runs on the server meanwhile. With `--before`, a server of the product's sources in that directory runs at the same
time, and takes turns with this one.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks import machine
from benchmarks.http_client import Client
from benchmarks.launches import stored, wait_running
from benchmarks.server import EMAIL, PASSWORD, Server, running

ROUNDS = 5
REQUESTS = 30
READS = 120
RUNS = 30
COMPONENTS = 6
PAGES = {
    "instance": "/console/instances/{instance}",
    "instance: settings": "/console/instances/{instance}/settings",
    "instance: configuration": "/console/instances/{instance}/configuration",
    "instance: runs": "/console/instances/{instance}/runs",
    "run": "{run}",
    "overview": "{home}",
    "instances": "{home}/instances",
    "runs": "{home}/runs",
    "applications": "{home}/applications",
    "environments": "{home}/environments",
}
_COMPONENT = """\
    c{number}:
      type: workflow.Instance
{required}      interfaces:
        input: {{size: configuration(int)}}
{consumed}        c{number}: {{c{number}-ready: publish-signal(string)}}
        actions: {{check: {{type: "receive-command()", name: Check}}}}
      configuration:
        configuration.workflows:
          launch:
            steps: [{{work: {{action: getInstanceContext}}}}]
            return: {{c{number}-ready: {{value: "yes"}}}}
          check:
            steps:
              - read: {{action: getInstanceContext}}
              - compare: {{action: getInstanceContext, precedingPhases: [read]}}
              - report: {{action: getInstanceContext, precedingPhases: [compare]}}
          destroy: {{steps: []}}
"""


def manifest() -> str:
    """Return an application of six components, each of which waits for the one before, with the command `check`."""
    text = "application:\n  configuration: {input.size: 1}\n  interfaces:\n"
    text += "    input: {size: bind(c0#input.size)}\n    result: {url: bind(c5#c5.c5-ready)}\n"
    text += "    manage: {check: bind(c0#actions.check)}\n"
    chain = ", ".join(f"[c{number}, c{number - 1}]" for number in range(1, COMPONENTS))
    text += f"  bindings: [{chain}]\n  components:\n"
    for number in range(COMPONENTS):
        before = f"c{number - 1}"
        required = f"      required: [{before}]\n" if number else ""
        consumed = f"        {before}: {{{before}-ready: consume-signal(string)}}\n" if number else ""
        text += _COMPONENT.format(number=number, required=required, consumed=consumed)
    return text


async def used_instance(server: Server) -> str:
    """Return the ID of an instance that runs, and has run thirty checks."""
    client: Client = server.client()
    app = await stored(client, manifest())
    instance = str((await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])
    await wait_running(client, instance)
    for _ in range(RUNS):
        await client.json("POST", f"/api/1/instances/{instance}/manage.check", {})
        await wait_running(client, instance)
    client.close()
    return instance


class Spent(NamedTuple):
    """CPU time of a request, in ms."""

    server: float
    database: float

    @property
    def total(self) -> float:
        return self.server + self.database


@dataclass
class Visited:
    """A server, who visits it, and what that cost: for each page, pairs of a page and the reads before it."""

    server: Server
    browser: httpx.Client
    program: httpx.Client
    read: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    found: dict[str, list[tuple[Spent, Spent]]] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    def prepare(self, instance: str) -> None:
        """Sign in, find the pages, and open each some times: that compiles, plans and reads the grants."""
        origin = str(self.browser.base_url)
        self.browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD}, headers={"Origin": origin})
        shown = self.browser.get(f"/console/instances/{instance}").text
        [home] = re.findall(r'data-home="([^"]+)"', shown)
        run = re.findall(rf"/console/instances/{instance}/jobs/\w+", shown)[0]
        self.read = f"/api/1/instances/{instance}"
        self.paths = {name: path.format(instance=instance, home=home, run=run) for name, path in PAGES.items()}
        for _ in range(8):  # after five uses of a prepared statement, PostgreSQL may keep its plan
            self.program.get(self.read)
            for name, path in self.paths.items():
                self.weights[name] = len(self.browser.get(path).content)

    def visit(self, name: str) -> None:
        """Note what the page costs, and the read of the instance."""
        read = self._spend(self.program, self.read, READS)
        self.found.setdefault(name, []).append((self._spend(self.browser, self.paths[name], REQUESTS), read))

    def _spend(self, client: httpx.Client, path: str, requests: int) -> Spent:
        before = self._cpu_ms()
        for _ in range(requests):
            assert client.get(path).status_code == 200, path
        after = self._cpu_ms()
        return Spent((after.server - before.server) / requests, (after.database - before.database) / requests)

    def _cpu_ms(self) -> Spent:
        return Spent(self.server.own_run_ms(), self.server.database_run_ms())


def ratio(pairs: list[tuple[Spent, Spent]]) -> float:
    """Return the median of the ratios of page and read."""
    return statistics.median(page.total / read.total for page, read in pairs)


def middle(spent: list[Spent]) -> Spent:
    """Return the medians."""
    return Spent(statistics.median(each.server for each in spent), statistics.median(each.database for each in spent))


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--before", type=Path, help="the sources of an earlier version, to compare with")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    sources = {"now": None, **({"before": options.before} if options.before else {})}
    with ExitStack() as stack:
        visited = {name: _start(stack, path) for name, path in sources.items()}
        for each in visited.values():
            each.prepare(asyncio.run(used_instance(each.server)))
        for _ in range(options.rounds):
            for page in PAGES:
                for each in visited.values():
                    each.visit(page)
    result = {name: _figures(each) for name, each in visited.items()}
    _print(result)
    if options.json:
        machine.write(options.json, {"machine": machine.facts(), "pages": result})


def _start(stack: ExitStack, sources: Path | None) -> Visited:
    environment = os.environ.get("PYTHONPATH")
    if sources is not None:
        os.environ["PYTHONPATH"] = str(sources.resolve())
    try:
        many = "100000"
        started = running(python=sys.executable, rate_limit_address_per_s=many, rate_limit_user_per_s=many)
        server = stack.enter_context(started)
    finally:
        os.environ.pop("PYTHONPATH", None)
        if environment is not None:
            os.environ["PYTHONPATH"] = environment
    origin = f"http://127.0.0.1:{server.port}"
    browser = stack.enter_context(httpx.Client(base_url=origin, trust_env=False, timeout=30))
    program = stack.enter_context(httpx.Client(base_url=origin, trust_env=False, timeout=30, auth=(EMAIL, PASSWORD)))
    return Visited(server, browser, program)


def _figures(visited: Visited) -> dict[str, dict[str, float]]:
    found = {}
    for name, pairs in visited.found.items():
        page, read = middle([page for page, _ in pairs]), middle([read for _, read in pairs])
        found[name] = {
            "ratio": round(ratio(pairs), 2),
            "server_ms": round(page.server, 3),
            "database_ms": round(page.database, 3),
            "read_server_ms": round(read.server, 3),
            "read_database_ms": round(read.database, 3),
            "html_bytes": visited.weights[name],
        }
    return found


def _print(result: dict[str, dict[str, dict[str, float]]]) -> None:
    print(f"{'page':26}{'':>8}{'ratio':>7}{'server':>9}{'database':>10}{'read':>13}{'bytes':>9}")
    for page in PAGES:
        for name in sorted(result):
            figures = result[name][page]
            read = f"{figures['read_server_ms']:.2f}+{figures['read_database_ms']:.2f}"
            own, database = f"{figures['server_ms']:.2f}", f"{figures['database_ms']:.2f}"
            print(
                f"{page:26}{name:>8}{figures['ratio']:>7.1f}{own:>9}{database:>10}{read:>13}{figures['html_bytes']:>9}"
            )


if __name__ == "__main__":
    main()
