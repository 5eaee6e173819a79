"""The impact of changes on 10,000 instances, and how long other requests wait; a rollout to 1,000.

python -m benchmarks.impact [--json FILE]
"""

import argparse
import asyncio
import time
from pathlib import Path

import psycopg

from benchmarks.http_client import Client
from benchmarks.launches import wait_running
from benchmarks.server import running
from benchmarks.table import Table
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

INSTANCES = 10_000
ROLLED_OUT = 1_000
ROUNDS = 3
MANIFEST = """
application:
  configuration: {{input.release: {release}}}
  interfaces:
    input: {{release: bind(worker#input.release), size: bind(worker#input.size)}}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {{release: configuration(int), size: configuration(int)}}
      configuration:
        configuration.triggers: {{input.release: update}}
        configuration.workflows:
          launch: {{steps: []}}
          update: {{steps: [{{look: {{action: getInstanceContext}}}}]}}
          destroy: {{steps: []}}
"""
# Each has parameters of its own, so that no outcome is that of another one.
_COPIES = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values)
SELECT lpad(to_hex(extract(epoch FROM now())::bigint), 8, '0') || lpad(to_hex(number), 16, '0'), organization_id,
       application_id, environment_id, version, 'copy ' || number, owner_id, 'Running',
       json_build_object('input.size', number)::text, components, environment_view, state, return_values
FROM instances, generate_series(1, %(count)s::integer) AS number WHERE id = %(id)s
"""


async def launched(client: Client) -> tuple[str, str]:
    """Return an application and an instance of its version 2."""
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    path = f"/api/1/organizations/{organization}/applications"
    application = str((await client.json("POST", path, {"name": "shop"}))["id"])
    await client.yaml(f"/api/1/applications/{application}/manifest", MANIFEST.format(release=1))
    body = {"parameters": {"input.size": 0}, "destroyInterval": -1}
    instance = str((await client.json("POST", f"/api/1/applications/{application}/launch", body))["id"])
    await wait_running(client, instance)
    return application, instance


def fill(url: str, instance: str) -> None:
    """Copy an instance."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(_COPIES.encode(), {"count": INSTANCES - 1, "id": instance})
        connection.execute("ANALYZE")


async def upload(client: Client, application: str) -> None:
    """Upload version 3, in which the default of a parameter has changed."""
    await client.yaml(f"/api/1/applications/{application}/manifest", MANIFEST.format(release=2))


async def impact(make: Client, application: str) -> tuple[float, float]:
    """Return how long the impact takes, and the longest that a request for the health waited meanwhile, in s."""
    other = make.another()
    waits: list[float] = []

    async def ask() -> None:
        while True:
            began = time.perf_counter()
            await other.request("GET", "/health/live")
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask())
    began = time.perf_counter()
    found = await make.json("GET", f"/api/1/applications/{application}/impact")
    took = time.perf_counter() - began
    asking.cancel()
    assert found["changes"] == INSTANCES, found
    return took, max(waits)


async def environment_impact(client: Client, instance: str) -> float:
    """Return how many seconds the impact of a policy takes that isn't saved."""
    environment = (await client.json("GET", f"/api/1/instances/{instance}"))["environmentId"]
    body = {"policies": "policies: {getInstanceContext.retryCount: 1}"}
    began = time.perf_counter()
    found = await client.json("POST", f"/api/1/environments/{environment}/impact", body)
    assert found["changes"] == INSTANCES, found
    return time.perf_counter() - began


async def roll_out(client: Client, application: str) -> float:
    """Return how many seconds a rollout to some of the instances takes."""
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    listed = await client.json("GET", f"/api/1/organizations/{organization}/instances?limit={ROLLED_OUT}")
    body = {
        "applicationId": application,
        "version": 3,
        "ids": [each["id"] for each in listed],
        "waves": [1, "10%"],
        "maxParallel": 20,
    }
    began = time.perf_counter()
    rollout = (await client.json("POST", f"/api/1/organizations/{organization}/rollouts", body))["id"]
    while (seen := await client.json("GET", f"/api/1/rollouts/{rollout}"))["finishedAt"] is None:
        await asyncio.sleep(0.2)
    assert seen["counts"]["succeeded"] == ROLLED_OUT, seen
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    table = Table()
    table.head()
    of = f"on {INSTANCES:,} instances"
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        client = server.bearer()
        application, instance = asyncio.run(launched(client))
        fill(joined.url, instance)
        asyncio.run(upload(server.bearer(), application))
        found = [asyncio.run(impact(server.bearer(), application)) for _ in range(ROUNDS)]
        table.add("impact of a version", max(took for took, _ in found), "s", must=2, beside=f"{of}, worst of {ROUNDS}")
        table.add("longest wait of other requests", max(waited for _, waited in found) * 1000, "ms", beside="meanwhile")
        took = asyncio.run(environment_impact(server.bearer(), instance))
        table.add("impact of a policy of an environment", took, "s", must=2, beside=of)
        took = asyncio.run(roll_out(server.bearer(), application))
        table.add(f"rollout to {ROLLED_OUT:,} instances", took, "s", beside=f"{ROLLED_OUT / took:.0f}/s, 20 at a time")
    table.write(options.json)


if __name__ == "__main__":
    main()
