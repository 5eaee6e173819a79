"""How long the console's pages take with 10,000 instances: `python -m benchmarks.console_pages`."""

import asyncio
import time
from dataclasses import dataclass

import httpx

from benchmarks.lists import fill
from benchmarks.reads import running_instance
from benchmarks.server import EMAIL, PASSWORD, Server, running
from launchbay.postgres.server import EmbeddedPostgres

COUNT = 10_000
ROUNDS = 30
MUST_MS = 100.0


@dataclass(frozen=True)
class Page:
    """One page, in ms."""

    name: str
    median_ms: float
    slowest_ms: float


def measure(server: Server, instance: str, rounds: int = ROUNDS) -> list[Page]:
    """Open the pages as somebody who is signed in, one after the other, so many times each."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=30) as browser:
        browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        home = browser.get("/console").headers["location"]
        paths = {
            "overview": home,
            "instances, the first page": f"{home}/instances",
            "instances, the last page": f"{home}/instances?before={instance[:8]}{'0' * 16}",
            "instances with a name that nobody has": f"{home}/instances?name=nobody%20is%20called%20so",
            "instance": f"/console/instances/{instance}",
            "applications": f"{home}/applications",
            "audit": f"{home}/audit",
        }
        return [_page(browser, name, path, rounds) for name, path in paths.items()]


def _page(browser: httpx.Client, name: str, path: str, rounds: int) -> Page:
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        answer = browser.get(path)
        times.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, (path, answer.status_code)
    times.sort()
    return Page(name, times[len(times) // 2], times[-1])


def main() -> None:
    """Print a line for each page."""
    with running() as server:
        instance = asyncio.run(running_instance(server))
        with EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
            fill(joined.url, instance, COUNT)
        print(f"{COUNT} instances; a page must come within {MUST_MS:.0f} ms")
        for page in measure(server, instance):
            print(f"{page.name:<40} median {page.median_ms:6.1f} ms   slowest {page.slowest_ms:6.1f} ms")


if __name__ == "__main__":
    main()
