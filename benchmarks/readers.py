"""Lists of a small and of a large organization, as five kinds of people read them: how much longer the large one takes.

python -m benchmarks.readers [--instances N] [--rounds N]

Each list is read in both organizations in turn. The rows are those of `population.py`, with steps and logs.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

from benchmarks import population
from benchmarks.http_client import Client, basic
from benchmarks.server import Server, running
from benchmarks.table import Table
from launchbay.postgres.server import EmbeddedPostgres

INSTANCES = 100_000
TIMES_SMALLER = 100
ROUNDS = 20
PASSWORD = "a password of a reader"
LISTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "instances": ("instances", {}),
    "instances by words": ("instances", {"q": "shop team-1"}),
    "instances, counted": ("instances", {"count": "true"}),
    "jobs": ("jobs", {}),
    "jobs, counted": ("jobs", {"count": "true"}),
    "jobs by words": ("jobs", {"q": "shop"}),
    "summary": ("summary", {}),
    "users": ("users", {"limit": "100"}),
    "entries of somebody who did nothing": ("audit", {"actor": population.INACTIVE, "limit": "50"}),
    "entries with a rare operation": ("audit", {"action": population.RARE, "limit": "50"}),
}


async def readers(server: Server, url: str, size: population.Size) -> tuple[str, dict[str, Client]]:
    """Fill the first organization of a server. Return its path, and its readers."""
    root = f"/api/1/organizations/{await asyncio.to_thread(population.fill_first, url, size)}"
    client = server.client()
    found = {}
    for number, (who, text) in enumerate(population.READERS.items()):
        roles = []
        if text:
            await client.json("POST", f"{root}/roles", {"name": who, "permissions": text})
            roles.append(who)
        email = f"reader{number}@example.org"
        body = {"email": email, "name": who, "password": PASSWORD, "roles": roles, "isForProgram": True}
        await client.json("POST", f"{root}/users", body)
        reader = Client("127.0.0.1", server.port, basic(email, PASSWORD))
        token = await reader.json("POST", f"{root}/accessTokens", {"name": who, "scope": None, "days": 1})
        reader.close()
        found[who] = Client("127.0.0.1", server.port, f"Bearer {token['token']}")
    client.close()
    return root, found


async def _took_ms(client: Client, path: str) -> float:
    began = time.perf_counter()
    status, body = await client.request("GET", path)
    assert status in {200, 403}, body
    return (time.perf_counter() - began) * 1000


async def measure(table: Table, servers: list[tuple[Server, str]], instances: int, rounds: int) -> None:
    """Fill the organizations, and add a line for each list and reader."""
    sizes = [population.Size(max(instances // TIMES_SMALLER, 100), people=50)]
    sizes.append(population.Size(instances, people=2_000, versions=100, steps_each=2))
    of: list[tuple[str, dict[str, Client]]] = []
    for (server, url), size in zip(servers, sizes, strict=True):
        of.append(await readers(server, url, size))
    for what, (path, query) in LISTS.items():
        for who in population.READERS:
            times: list[list[Any]] = [[], []]
            for _ in range(rounds):
                for place, (root, clients) in enumerate(of):
                    times[place].append(await _took_ms(clients[who], f"{root}/{path}?{urlencode(query)}"))
            small, large = map(statistics.median, times)
            table.add(f"{what}: {who}", large, "ms", beside=f"small {small:.1f} ms, {large / small:.1f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    table = Table()
    table.head()
    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            server = stack.enter_context(running(None, quota_requests_per_s="0"))
            joined = stack.enter_context(EmbeddedPostgres.start(server.data_dir, serving=False))
            servers.append((server, joined.url))
        asyncio.run(measure(table, servers, options.instances, options.rounds))


if __name__ == "__main__":
    main()
