"""How a launch grows with its components: 20, 200 and 2,000 in three levels of submodules.

`python -m benchmarks.components`
"""

import asyncio
import time
from typing import Any

from benchmarks.http_client import Client
from benchmarks.server import Server, running

LEVELS = 3
SIZES = (20, 200, 2_000)


def leaf(name: str, required: str | None) -> str:
    needs = f"      required: [{required}]\n" if required else ""
    consumed = f"        {required}: {{{required}-ready: consume-signal(string)}}\n" if required else ""
    return f"""    {name}:
      type: workflow.Instance
{needs}      interfaces:
        input: {{size: configuration(int)}}
{consumed}        {name}: {{{name}-ready: publish-signal(string)}}
      configuration:
        configuration.triggers: {{input.size: resize}}
        configuration.workflows:
          launch:
            steps: [{{work: {{action: getInstanceContext}}}}]
            return: {{{name}-ready: {{value: "yes"}}}}
          resize: {{steps: []}}
          destroy: {{steps: []}}
"""


def manifest(components: int, child: str | None, children: int) -> str:
    """Return an application of so many workflow components, in chains of ten that require each other, and children."""
    names = [f"c{number}" for number in range(components)]
    required = {name: names[place - 1] for place, name in enumerate(names) if place % 10}
    text = "application:\n  configuration: {input.size: 1}\n  interfaces:\n"
    text += f"    input: {{size: bind({names[0]}#input.size)}}\n"
    bindings = ", ".join(f"[{name}, {provider}]" for name, provider in required.items())
    text += f"  bindings: [{bindings}]\n  components:\n"
    text += "".join(leaf(name, required.get(name)) for name in names)
    for number in range(children):
        text += (
            f"    child{number}: {{type: reference.Submodule, configuration: {{__locator.application-id: {child}}}}}\n"
        )
    return text


async def prepare(client: Client, total: int) -> str:
    """Create the applications of three levels, ten submodules at most to each, and return the root's id."""
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    fan = 2 if total <= 20 else 4
    instances = 1 + fan + fan * fan
    each = max(1, round(total / instances))
    name: str | None = None
    app = ""
    for level in reversed(range(LEVELS)):
        text = manifest(each, name, 0 if name is None else fan)
        name = f"grow-{total}-{level}-{time.time_ns()}"
        body = {"name": name}
        app = str((await client.json("POST", f"/api/1/organizations/{organization}/applications", body))["id"])
        await client.yaml(f"/api/1/applications/{app}/manifest", text)
    return app


async def measure(server: Server, total: int) -> dict[str, Any]:
    client = server.client()
    app = await prepare(client, total)
    cpu, began = server.cpu_s(), time.perf_counter()
    instance = (await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"]
    accepted = time.perf_counter() - began
    while (seen := await client.json("GET", f"/api/1/instances/{instance}"))["status"] in {"Requested", "Executing"}:
        await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    assert seen["status"] == "Running", seen["errorMessage"]
    cpu = server.cpu_s() - cpu
    path = f"/api/1/instances/{instance}/configuration/preview"
    times = []
    for size in range(2, 12):
        before = time.perf_counter()
        told = await client.json("POST", path, {"parameters": {"input.size": size}})
        times.append(time.perf_counter() - before)
    changed = [part for part in told["components"] if part["change"] == "changes"]
    assert len(changed) == 1, changed
    count = sum(not part["path"].rpartition(".")[2].startswith("child") for part in told["components"])
    assert total * 0.9 <= count <= total * 1.1, count
    client.close()
    return {"accepted": accepted, "took": took, "cpu": cpu, "preview": sorted(times)[len(times) // 2]}


def main() -> None:
    print(f"{'components':>10} {'accepted':>10} {'running':>10} {'CPU':>8} {'CPU each':>10} {'preview p50':>12}")
    each = {}
    with running() as server:
        for total in SIZES:
            found = asyncio.run(measure(server, total))
            each[total] = found["cpu"] / total * 1000
            print(
                f"{total:>10} {found['accepted'] * 1000:>8.0f}ms {found['took'] * 1000:>8.0f}ms {found['cpu']:>7.2f}s"
                f" {each[total]:>8.2f}ms {found['preview'] * 1000:>10.1f}ms"
            )
    print(f"CPU per component, from {SIZES[0]} to {SIZES[-1]}: {each[SIZES[-1]] / each[SIZES[0]]:.2f} times")


if __name__ == "__main__":
    main()
