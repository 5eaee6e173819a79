"""Which page is made from which results."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.evidence.console import console, console_tasks
from benchmarks.evidence.dispatch import dispatch
from benchmarks.evidence.faults import faults
from benchmarks.evidence.floods import floods
from benchmarks.evidence.growth import growth
from benchmarks.evidence.long_history import long_history
from benchmarks.evidence.long_jobs import long_jobs
from benchmarks.evidence.power import power
from benchmarks.evidence.soak import retention, soak
from benchmarks.evidence.speed import speed
from benchmarks.evidence.words import page, table

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "contribute" / "evidence"

COMMANDS = {
    "speed": "make bench ARGS='--json docs/contribute/evidence/data/speed.json'",
    "fleet": "make bench-fleet",
    "schedules": "python -m benchmarks.schedules --json docs/contribute/evidence/data/schedules.json",
    "recurring": "python -m benchmarks.recurring --json docs/contribute/evidence/data/recurring.json",
    "impact": "python -m benchmarks.impact --json docs/contribute/evidence/data/impact.json",
    "dispatch": "make bench-dispatch",
    "growth": "python -m benchmarks.growth --json docs/contribute/evidence/data/growth.json",
    "soak": "make soak ARGS='--json docs/contribute/evidence/data/soak.json'",
    "retention": "python -m benchmarks.retention --json docs/contribute/evidence/data/retention.json",
    "long-history": "python -m benchmarks.long_history --jobs 10000000"
    " --json docs/contribute/evidence/data/long-history.json",
    "console": "python -m benchmarks.console_pages --json docs/contribute/evidence/data/console.json",
    "console-tasks": "LAUNCHBAY_EVIDENCE=docs/contribute/evidence/data pytest tests/browser/test_twelve_tasks.py",
    "fairness": "python -m benchmarks.fairness --json docs/contribute/evidence/data/fairness.json",
    "parking": "python -m benchmarks.parking --json docs/contribute/evidence/data/parking.json",
    "long-jobs": "python -m benchmarks.long_jobs --json docs/contribute/evidence/data/long-jobs.json",
}
TITLES = {
    "speed.md": "the speed table",
    "dispatch.md": "launches as users make them, on disks of several speeds",
    "growth.md": "growth with instances, schedules and workers",
    "soak.md": "half an hour of load and kills: does anything grow?",
    "retention.md": "throwing away the history of many jobs",
    "long-history.md": "lists, reads and retention with ten million jobs",
    "long-jobs.md": "what a step costs in long and wide jobs",
    "console.md": "the pages of the console with 10,000 instances",
    "console-tasks.md": "twelve tasks in the console, in clicks and seconds",
    "faults.md": "kills, failover, and a database that stops",
    "floods.md": "one organization sends all it can, another one works",
    "isolation.md": "expensive input from one organization: what the others notice",
    "rights.md": "requests that try to reach further than their rights",
    "peers.md": "launches of Launchbay, Restate and DBOS side by side",
    "profile.md": "the three hottest paths, and what was done about them",
    "test-power.md": "what the tests notice",
}


def read(directory: Path) -> dict[str, Any]:
    """Return the results that lie in a directory, by name; `faults` and `floods` are lists of campaigns."""
    results: dict[str, Any] = {path.stem: _json(path) for path in sorted(directory.glob("*.json"))}
    for name in ("faults", "floods"):
        path = directory / f"{name}.jsonl"
        results[name] = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return results


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def write(data: dict[str, Any], directory: Path) -> list[Path]:
    """Write the pages for which there are results, with their plots; return the pages."""
    texts = dict(_pages(data, directory))
    for name, text in texts.items():
        (directory / name).write_text(text, "utf-8")
    return [directory / name for name in texts]


def _pages(data: dict[str, Any], directory: Path) -> Iterator[tuple[str, str]]:
    if "speed" in data or "schedules" in data:
        yield "speed.md", speed(data)
    if "dispatch" in data:
        yield "dispatch.md", dispatch(data["dispatch"])
    if "growth" in data:
        yield "growth.md", growth(data, directory)
    if "soak" in data:
        yield "soak.md", soak(data, directory)
    if "retention" in data:
        yield "retention.md", retention(data)
    if "long-history" in data:
        yield "long-history.md", long_history(data["long-history"])
    if "long-jobs" in data:
        yield "long-jobs.md", long_jobs(data["long-jobs"])
    if "console" in data:
        yield "console.md", console(data["console"])
    if "console-tasks" in data:
        yield "console-tasks.md", console_tasks(data["console-tasks"])
    if data["faults"]:
        yield "faults.md", faults(data["faults"])
    if data["floods"]:
        yield "floods.md", floods(data["floods"])
    if "test-power" in data:
        yield "test-power.md", power(data)
    yield "index.md", index(data)


def index(data: dict[str, Any]) -> str:
    """Return the page that leads to the others."""
    there = [name for name in TITLES if _is_there(name, data)]
    runs = []
    for name, command in COMMANDS.items():
        if name in data:
            facts = data[name]["machine"]
            about = (
                facts["at"],
                str(facts["cores"]),
                f"{facts['memory_gib']} GiB",
                facts["python"],
                facts["postgresql"],
            )
            runs.append([f"[{name}](data/{name}.json)", *about, str(facts["load_before"]), f"`{command}`"])
    return page(
        "Evidence",
        "What was measured, on what, and how to measure it again.",
        "\n".join(f"- [{name.removesuffix('.md').capitalize()}]({name}): {TITLES[name]}" for name in there),
        "## Runs",
        table(("result", "when", "cores", "memory", "Python", "PostgreSQL", "load before", "again"), runs),
        "`make bench-dispatch` measures launches as users make them: over HTTP, polled until they run, on disks of"
        " several speeds, with what each launch costs. `python -m benchmarks.dispatch --help` says how to compare two"
        " versions. Slower disks need a C compiler. `make bench-peers` compares with Restate and DBOS.",
        "`python -m benchmarks.evidence` writes these pages and their plots from the results. Client, server and"
        " PostgreSQL"
        " share the machine in all runs. Why it is done so: [decision"
        " 0089](../decisions/0089-evidence-and-what-counts-as-flat.md).",
    )


def _is_there(name: str, data: dict[str, Any]) -> bool:
    stem = name.removesuffix(".md")
    return bool(data.get(stem)) or (EVIDENCE / name).exists() or (stem == "speed" and "schedules" in data)
