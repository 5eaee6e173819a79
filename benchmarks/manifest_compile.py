"""Time of read, check and compile (must: 15 ms for 500 lines, aim: 5 ms), and how it grows with the components.

Usage: manifest_compile.py [FILE…], else the real manifests.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from yaml import CSafeLoader, parse

from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.reader import read

REAL = Path(__file__).parents[2] / "shared" / "manifests"
ROUNDS = 30
ACTIONS = frozenset(
    {
        *("chefsolo", "chefrun", "provisionVms", "execrun", "getSignals", "getEnvironmentProperties", "serviceCall"),
        *("serialize", "restcall", "undeployEnv", "destroyVms", "wait", "waitPeers"),
    }
)


def main() -> None:
    for path in [Path(name) for name in sys.argv[1:]] or sorted(REAL.glob("*.yml")):
        _report(path.name, path.read_bytes())
    _report("synthetic, 500 lines", written_out(500))
    per_component = []
    for count in (20, 200, 2_000):
        best = _report(f"{count} machines bound to one component", _star(count))
        per_component.append(best / count)
    print(f"time per component, from 20 to 2,000: {per_component[-1] / per_component[0]:.2f} times")


def synthetic_ms() -> tuple[float, float]:
    """Return best and median milliseconds for a manifest of 500 lines."""
    data = written_out(500)
    times = [_timed(lambda data: compile_manifest(data, known_actions=ACTIONS), data) * 1e3 for _ in range(ROUNDS)]
    return min(times), statistics.median(times)


def parse_ms() -> float:
    """Return the median milliseconds in which the YAML library's C parser gives the events of that manifest."""
    data = written_out(500)
    return statistics.median(_timed(lambda data: list(parse(data, CSafeLoader)), data) * 1e3 for _ in range(ROUNDS))


def _report(name: str, data: bytes) -> float:
    """Print the times, and return the best in seconds."""
    reading = min(_timed(read, data) for _ in range(ROUNDS))
    whole = [_timed(lambda data: compile_manifest(data, known_actions=ACTIONS), data) for _ in range(ROUNDS)]
    best, median = min(whole), statistics.median(whole)
    lines = len(data.splitlines())
    times = f"best {best * 1e3:7.2f} ms  median {median * 1e3:7.2f} ms  reading {reading * 1e3:6.2f} ms"
    print(f"{lines:5d} lines  {times}  {name}")
    return best


def _timed(work: Callable[[bytes], object], data: bytes) -> float:
    start = time.perf_counter()
    work(data)
    return time.perf_counter() - start


def written_out(lines: int) -> bytes:
    """One application of workflow components, about as dense as the public manifests."""
    text = ["application:", "  interfaces:", '    input: {"*": bind(w0#input.*)}', "  components:"]
    number = 0
    while len(text) + 30 < lines:
        text += [
            f"    w{number}:",
            "      type: workflow.Instance",
            "      interfaces:",
            "        input:",
            "          size: {type: configuration(int), name: Size}",
            "          image: configuration(map<string, object>)",
            "        actions:",
            "          scale: receive-command(int size, string zone => list<string> hosts)",
            "        result:",
            "          hosts: publish-signal(list<string>)",
            "      configuration:",
            "        input.size: 3",
            "        input.image: {ami: x, user: root}",
            "        configuration.propagateStatus: [scale]",
            "        configuration.workflows:",
            "          launch: &launch",
            "            steps:",
            "              - provision:",
            "                  action: provisionVms",
            "                  parameters:",
            '                    imageId: "{$.image.ami}"',
            '                    targetQuantity: "{$.size}"',
            "                  output: {ips: ips}",
            "              - install:",
            "                  action: execrun",
            "                  precedingPhases: [provision]",
            "                  parameters:",
            '                    command: ["install.sh {$.ips[0]} {$.image.user} > /tmp/log"]',
            "            return:",
            '              hosts: {value: "{$.ips}"}',
            "          scale: *launch",
        ]
        number += 1
    return "\n".join(text).encode()


def _star(count: int) -> bytes:
    """A component bound to many machines: they have built-in pins, so 2,000 of them stay within the bound on values."""
    lines = [
        "application:",
        f"  bindings: [{', '.join(f'[w, m{number}]' for number in range(count))}]",
        "  components:",
        "    w: {type: workflow.Instance, interfaces: {vm: {networks: 'consume-signal(map<map<string>>)'}}}",
        *(f"    m{number}: {{type: compute.Instance}}" for number in range(count)),
    ]
    return "\n".join(lines).encode()


if __name__ == "__main__":
    main()
