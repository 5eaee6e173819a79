"""How long the console's pages take with 10,000 instances, and what they weigh.

python -m benchmarks.console_pages [--json FILE] [--rounds N]

A read of one instance by the API before each page shows how fast the machine is at that moment. The exit code is 1 if
a page is beyond its budget: in bytes or elements, or in time while it also takes more than MOST_READS of these reads.
"""

import argparse
import asyncio
import gzip
import re
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.fleet import fill
from benchmarks.population import Size
from benchmarks.reads import running_instance
from benchmarks.server import EMAIL, PASSWORD, Server, running
from benchmarks.table import Limit, Table
from launchbay.postgres.server import EmbeddedPostgres

COUNT = 10_000
JOBS_EACH = 3
ROUNDS = 60
MOST_READS = 12.0
KIB = 1024
# What a page may take, in ms at the 95th percentile; what it may weigh, compressed; its elements.
LIST_MS, INSTANCE_MS, JUMP_MS = 40.0, 25.0, 20.0
PAGE_KIB, RUN_KIB = 12.0, 20.0
ELEMENTS = 5_000
# Pages of an organization, by what they list.
_LISTS = {
    "schedules as a list": "schedules?view=list",
    "recurring schedules": "recurring",
    "approvals": "approvals",
    "change sets": "changes",
    "bulk runs": "bulk",
    "services": "services",
    "git sources": "git-sources",
    "users": "users",
    "roles": "roles",
    "service accounts": "serviceAccounts",
    "webhooks": "webhooks",
    "organization settings": "usage",
}


@dataclass(frozen=True)
class Page:
    """What one page took and weighs; `reads_ms` are the reads of an instance in between."""

    name: str
    must_ms: float
    must_kib: float
    times_ms: list[float]
    reads_ms: list[float]
    kib: float
    elements: int

    @property
    def p95_ms(self) -> float:
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.95)]

    @property
    def reads(self) -> float:
        """Return the median as a multiple of that of the reads."""
        return statistics.median(self.times_ms) / statistics.median(self.reads_ms)

    def is_within(self) -> bool:
        is_fast = self.p95_ms <= self.must_ms or self.reads <= MOST_READS
        return is_fast and self.kib <= self.must_kib and self.elements <= ELEMENTS


def measure(server: Server, instance: str, rounds: int = ROUNDS) -> list[Page]:
    """Open the pages as somebody who is signed in, one after the other, so many times each."""
    origin = f"http://127.0.0.1:{server.port}"
    with httpx.Client(base_url=origin, trust_env=False, timeout=30) as browser:
        browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD}, headers={"Origin": origin})
        shown = browser.get(f"/console/instances/{instance}").text
        [home] = re.findall(r'data-home="([^"]+)"', shown)
        application = re.findall(r"/console/applications/\w+", shown)[0]
        job = re.findall(rf"/console/instances/{instance}/jobs/\w+", shown)
        paths = (
            ("overview", home, LIST_MS, PAGE_KIB),
            ("instances", f"{home}/instances", LIST_MS, PAGE_KIB),
            ("instances that failed, by their last run", f"{home}/instances?q=last-run:failed", LIST_MS, PAGE_KIB),
            ("instances of nobody's name", f"{home}/instances?q=nobodyiscalledso", LIST_MS, PAGE_KIB),
            ("runs", f"{home}/runs", LIST_MS, PAGE_KIB),
            ("schedules", f"{home}/schedules", LIST_MS, PAGE_KIB),
            ("applications", f"{home}/applications", LIST_MS, PAGE_KIB),
            ("environments", f"{home}/environments", LIST_MS, PAGE_KIB),
            ("activity", f"{home}/audit", LIST_MS, PAGE_KIB),
            *((each, f"{home}/{path}", LIST_MS, PAGE_KIB) for each, path in _LISTS.items()),
            ("instance", f"/console/instances/{instance}", INSTANCE_MS, PAGE_KIB),
            *(
                (f"instance: {each}", f"/console/instances/{instance}/{each}", INSTANCE_MS, PAGE_KIB)
                for each in ("runs", "configuration", "schedules", "activity", "settings", "components", "signals")
            ),
            *(
                (f"application: {each or 'its page'}", f"{application}{each}", LIST_MS, PAGE_KIB)
                for each in ("", "/versions", "/settings", "/launch", "/manifest")
            ),
            ("run", job[0], INSTANCE_MS, RUN_KIB),
            ("palette: names", f"{home}/jump?q=shop-1", JUMP_MS, PAGE_KIB),
            ("palette: a command with names", f"{home}/jump?q=open%20shop-1", JUMP_MS, PAGE_KIB),
        )
        read = (f"{origin}/api/1/instances/{instance}", httpx.BasicAuth(EMAIL, PASSWORD))
        return [_page(browser, read, rounds, *each) for each in paths]


def _page(
    browser: httpx.Client,
    read: tuple[str, httpx.BasicAuth],
    rounds: int,
    name: str,
    path: str,
    must_ms: float,
    must_kib: float,
) -> Page:
    times: list[float] = []
    reads: list[float] = []
    text = b""
    for _ in range(rounds):
        began = time.perf_counter()
        assert browser.get(read[0], auth=read[1]).status_code == 200
        between = time.perf_counter()
        answer = browser.get(path)
        times.append((time.perf_counter() - between) * 1000)
        reads.append((between - began) * 1000)
        assert answer.status_code == 200, (path, answer.status_code)
        text = answer.content
    elements = len(re.findall(rb"<[a-z]", text))
    return Page(name, must_ms, must_kib, times, reads, len(gzip.compress(text, 6)) / KIB, elements)


def measure_pages(table: Table, rounds: int = ROUNDS) -> list[Page]:
    """Fill a server, open its pages, and add a line for each."""
    with running() as server:
        with EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
            fill(joined.url, Size(COUNT, JOBS_EACH))
        instance = asyncio.run(running_instance(server))
        pages = measure(server, instance, rounds)
    for page in pages:
        table.add(
            f"console, {COUNT:,} instances: {page.name}, p95",
            page.p95_ms,
            "ms",
            must=page.must_ms,
            limit=Limit("a read of an instance by the API", statistics.median(page.reads_ms)),
            beside=f"{page.kib:.1f} of {page.must_kib:g} KiB compressed, {page.elements} of {ELEMENTS} elements",
        )
    return pages


def main() -> None:
    """Print a line for each page, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    table = Table()
    table.head()
    pages = measure_pages(table, options.rounds)
    table.write(options.json)
    beyond = [page.name for page in pages if not page.is_within()]
    if beyond:
        sys.exit(f"beyond the budget: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
