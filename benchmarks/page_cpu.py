"""What a page costs the server and its database, as a multiple of the API's read of the same instance.

python -m benchmarks.page_cpu [--rounds N]

Each round asks for every page and for the instance by the API in turn, and compares the CPU time of the two. Nothing
else runs on the server meanwhile. With PYTHONPATH, an earlier version of the product answers.
"""

import argparse
import asyncio
import re
import statistics

import httpx

from benchmarks.reads import running_instance
from benchmarks.server import EMAIL, PASSWORD, Server, running

ROUNDS = 5
# Requests of each kind in a round: some dozen times the resolution of the CPU time, which is 10 ms.
REQUESTS = 60
READS = 600
PAGES = {
    "instance": "/console/instances/{instance}",
    "instance: settings": "/console/instances/{instance}/settings",
    "instance: configuration": "/console/instances/{instance}/configuration",
    "run": "{run}",
    "overview": "{home}",
    "instances": "{home}/instances",
    "environments": "{home}/environments",
}


def _spend(server: Server, client: httpx.Client, path: str, requests: int) -> float:
    """Return the CPU time of a request, in ms."""
    before = server.cpu_s()
    for _ in range(requests):
        assert client.get(path).status_code == 200, path
    return (server.cpu_s() - before) * 1000 / requests


def measure(server: Server, instance: str, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return for each page its CPU times in ms, and those of the API's reads in between."""
    origin = f"http://127.0.0.1:{server.port}"
    read = f"/api/1/instances/{instance}"
    with (
        httpx.Client(base_url=origin, trust_env=False, timeout=30) as browser,
        httpx.Client(base_url=origin, trust_env=False, timeout=30, auth=(EMAIL, PASSWORD)) as program,
    ):
        browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD}, headers={"Origin": origin})
        shown = browser.get(f"/console/instances/{instance}").text
        [home] = re.findall(r'data-home="([^"]+)"', shown)
        run = re.findall(rf"/console/instances/{instance}/jobs/\w+", shown)[0]
        paths = {name: path.format(instance=instance, home=home, run=run) for name, path in PAGES.items()}
        found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in paths}
        for path in (read, *paths.values()):
            for client in (browser, program):
                client.get(path)  # compiles the manifest, reads the grants, prepares the statements
        for _ in range(rounds):
            for name, path in paths.items():
                reads, pages = found[name]
                reads.append(_spend(server, program, read, READS))
                pages.append(_spend(server, browser, path, REQUESTS))
    return found


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with running(rate_limit_address_per_s="100000", rate_limit_user_per_s="100000") as server:
        instance = asyncio.run(running_instance(server))
        found = measure(server, instance, options.rounds)
    print(f"{'page':26}{'page, ms':>10}{'read, ms':>10}{'ratio':>8}")
    for name, (reads, pages) in found.items():
        ratio = statistics.median(page / read for page, read in zip(pages, reads, strict=True))
        print(f"{name:26}{statistics.median(pages):>10.2f}{statistics.median(reads):>10.2f}{ratio:>8.1f}")


if __name__ == "__main__":
    main()
