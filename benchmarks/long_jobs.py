"""Long and wide jobs: what a step costs in a chain, in thousands of components, and when a worker takes the job over.

python -m benchmarks.long_jobs [--json FILE] [--scale 0.1]

CPU is that of the server and of PostgreSQL. What counts are the ratios: the same work in longer jobs. `--scale` makes
all jobs smaller.
"""

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from yaml import CSafeLoader, parse

from benchmarks import machine
from benchmarks.http_client import Client
from benchmarks.launches import stored
from benchmarks.manifest_compile import written_out
from benchmarks.server import Server, running
from launchbay.actions.registry import Registry
from launchbay.app.commands import tune_interpreter
from launchbay.limits import KIB
from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.reader import Bounds

CHAINS = (100, 300, 1_000, 3_000)
COMPONENTS = 5_000
STEPS_OF_COMPONENT = 4
TAKEN_OVER = (300, 1_000, 3_000)
LAST_WAIT_S = 8  # in which the server is killed
BOUNDS = {
    "manifest_kib": "16384",
    "manifest_values": "2000000",
    "manifest_expressions": "500000",
    "manifest_bound_pins": "200000",
}
MUST_STEP_MS = 1.0
MUST_COMPILE_S = 0.4


def chain(steps: int, last_s: float = 0) -> str:
    """Return a manifest whose launch has so many recorded steps, one after the other."""
    text = [
        f"- s{each}: {{action: wait, {_after(each)}parameters: {{delay: {last_s if each == steps else 0}}}}}"
        for each in range(steps + bool(last_s))
    ]
    return _component("c", "\n".join(f"              {each}" for each in text))


def _after(number: int) -> str:
    return f"precedingPhases: [s{number - 1}], " if number else ""


def _component(name: str, steps: str) -> str:
    return (
        "application:\n  components:\n"
        f"    {name}:\n      type: workflow.Instance\n      configuration:\n        configuration.workflows:\n"
        f"          launch:\n            steps:\n{steps}\n          destroy: {{steps: []}}\n"
    )


def wide(components: int) -> str:
    """Return a manifest of so many components with recorded steps each."""
    steps = ", ".join(f"{{s{each}: {{action: wait, parameters: {{delay: 0}}}}}}" for each in range(STEPS_OF_COMPONENT))
    workflows = f"{{launch: {{steps: [{steps}]}}, destroy: {{steps: []}}}}"
    parts = [
        f"    c{each}: {{type: workflow.Instance, configuration: {{configuration.workflows: {workflows}}}}}"
        for each in range(components)
    ]
    return "application:\n  components:\n" + "\n".join(parts) + "\n"


async def launched(client: Client, app: str) -> str:
    return str((await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])


async def until_running(client: Client, instance: str) -> None:
    while True:
        seen = await client.json("GET", f"/api/1/instances/{instance}?wait=30")
        if seen["status"] == "Running":
            return
        assert seen["status"] in {"Requested", "Executing", "Launching"}, (seen["status"], seen.get("errorMessage"))


async def measure_chain(server: Server, steps: int) -> dict[str, float]:
    """Return what a step of a chain costs."""
    client = server.client()
    app = await stored(client, chain(steps))
    cpu_s, own_s, began_s = server.cpu_s(), server.own_cpu_s(), time.perf_counter()
    await until_running(client, await launched(client, app))
    took_s = time.perf_counter() - began_s
    figures = {
        "steps": float(steps),
        "cpu_ms": (server.cpu_s() - cpu_s) / steps * 1e3,
        "server_cpu_ms": (server.own_cpu_s() - own_s) / steps * 1e3,
        "took_ms": took_s / steps * 1e3,
    }
    client.close()
    return figures


async def slowest_s(client: Client, stop: asyncio.Event) -> float:
    """Return the longest time that the server took for its simplest answer, until `stop`."""
    slowest = 0.0
    while not stop.is_set():
        began_s = time.perf_counter()
        await client.request("GET", "/health/live")
        slowest = max(slowest, time.perf_counter() - began_s)
        await asyncio.sleep(0.005)
    return slowest


async def measure_wide(server: Server, components: int) -> dict[str, float]:
    """Return how long it takes to upload, launch and run a manifest of thousands of components."""
    client, other = server.client(), server.client()
    text = wide(components)
    stop = asyncio.Event()
    watching = asyncio.create_task(slowest_s(other, stop))
    began_s = time.perf_counter()
    app = await stored(client, text)
    uploaded_s = time.perf_counter() - began_s
    cpu_s, began_s = server.cpu_s(), time.perf_counter()
    instance = await launched(client, app)
    accepted_s = time.perf_counter() - began_s
    await until_running(client, instance)
    took_s = time.perf_counter() - began_s
    cpu_s = server.cpu_s() - cpu_s
    stop.set()
    steps = components * STEPS_OF_COMPONENT
    figures = {
        "components": float(components),
        "steps": float(steps),
        "manifest_kib": len(text) / KIB,
        "uploaded_s": uploaded_s,
        "accepted_s": accepted_s,
        "ran_s": took_s,
        "cpu_ms": cpu_s / steps * 1e3,
        "memory_mb": server.memory_mb(),
        "slowest_answer_s": await watching,
    }
    client.close()
    other.close()
    return figures


def measure_compile(kib: int = 1024) -> dict[str, float]:
    """Return the CPU time to compile manifests of 1 MiB: a dense one, and one written as the public ones are.

    `dense_events_s` and `usual_events_s` are what the YAML library takes for its events alone.
    """
    tune_interpreter()  # as a server does
    dense = wide(int(kib * KIB * 1_000 / len(wide(1_000)))).encode()
    usual = written_out(int(kib * KIB * 30_000 / len(written_out(30_000))))
    bounds = Bounds(16_384 * KIB, 2_000_000, 500_000, 200_000)
    known = Registry.load().by_name
    found = {"kib": float(kib)}
    for name, data in (("dense", dense), ("usual", usual)):
        found[f"{name}_cpu_s"] = _cpu_s(partial(compile_manifest, data, known_actions=known, bounds=bounds))
        found[f"{name}_events_s"] = _cpu_s(partial(_events, data))
    return found


def _events(data: bytes) -> int:
    return sum(1 for _ in parse(data, CSafeLoader))


def _cpu_s(work: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began_s = time.process_time()
        work()
        times.append(time.process_time() - began_s)
    return min(times)


def measure_take_over(steps: int) -> dict[str, float]:
    """Kill the server in the last step of a chain, and return what it costs to continue."""
    with tempfile.TemporaryDirectory(prefix="launchbay-bench-") as place:
        directory = Path(place)
        with running(directory, **BOUNDS) as server:
            instance = asyncio.run(_until_last(server, steps))
            os.kill(server.pid, signal.SIGKILL)
        with running(directory, **BOUNDS) as server:
            began_s = time.perf_counter()
            asyncio.run(_wait(server, instance))
            return {"steps": float(steps), "cpu_s": server.cpu_s(), "took_s": time.perf_counter() - began_s}


async def _until_last(server: Server, steps: int) -> str:
    client = server.client()
    instance = await launched(client, await stored(client, chain(steps, LAST_WAIT_S)))
    while True:
        [job] = await client.json("GET", f"/api/1/instances/{instance}/jobs")
        if job["steps"][-1]["status"] == "Executing":
            break
        await asyncio.sleep(0.2)
    client.close()
    return instance


async def _wait(server: Server, instance: str) -> None:
    client = server.client()
    await until_running(client, instance)
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to a file")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the jobs; 1 is the whole size")
    parser.add_argument("--only", choices=("chains", "wide", "compile", "take-over"), help="measure one part only")
    arguments = parser.parse_args()
    scale, only = arguments.scale, arguments.only
    found: dict[str, Any] = {"machine": machine.facts(), "scale": scale}

    def sized(count: int) -> int:
        return max(10, int(count * scale))

    if only in {None, "chains", "wide"}:
        with running(None, **BOUNDS) as server:
            if only != "wide":
                asyncio.run(measure_chain(server, 50))
                found["chains"] = []
                print(f"{'steps in a chain':>20} {'CPU ms a step':>14} {'of the server':>14} {'took ms':>10}")
                for steps in map(sized, CHAINS):
                    each = asyncio.run(measure_chain(server, steps))
                    found["chains"].append(each)
                    figures = (each["cpu_ms"], each["server_cpu_ms"], each["took_ms"])
                    print(f"{steps:>20} {figures[0]:>14.2f} {figures[1]:>14.2f} {figures[2]:>10.2f}", flush=True)
            if only != "chains":
                found["wide"] = asyncio.run(measure_wide(server, sized(COMPONENTS)))
                print("wide: " + ", ".join(f"{name} {value:.2f}" for name, value in found["wide"].items()))
    if only in {None, "compile"}:
        found["compile"] = measure_compile(int(1024 * min(1, scale)))
        print("compile: " + ", ".join(f"{name} {value:.2f}" for name, value in found["compile"].items()))
    if only in {None, "take-over"}:
        found["taken_over"] = []
        for steps in map(sized, TAKEN_OVER):
            found["taken_over"].append(measure_take_over(steps))
            print("taken over: " + ", ".join(f"{name} {value:.2f}" for name, value in found["taken_over"][-1].items()))
    found["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
