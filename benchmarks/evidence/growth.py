"""The page of growth curves."""

from pathlib import Path
from typing import Any

from benchmarks.evidence.plots import Panel, draw
from benchmarks.evidence.words import made_on, number, page, table

INSTANCES = {
    "reads_per_s": "reads/s, 16 clients",
    "read_p99_ms": "read p99, ms",
    "launch_accepted_ms": "launch accepted p50, ms",
    "launch_first_step_ms": "launch → first step p50, ms",
    "list_ms": "first page of a list p50, ms",
    "page_ms": "console's page p50, ms",
    "memory_mb": "memory of the server, MB",
}
SCHEDULES = {
    "inserts_per_s": "inserted/s, one by one",
    "commits_per_s": "bare commits/s",
    "late_p50_ms": "lateness p50, ms",
    "late_p99_ms": "lateness p99, ms",
    "idle_cpu_percent": "idle CPU, % of a core",
}
WORKERS = {"waiting_per_s": "launches/s, steps that wait", "light_per_s": "launches/s, steps that compute"}


def growth(data: dict[str, Any], directory: Path) -> str:
    """Draw the plots and return the page."""
    result = data["growth"]
    instances, schedules, workers = result["instances"], result["schedules"], result["workers"]
    draw(
        directory / "growth-instances.svg",
        [
            _panel("one instance, 16 clients", "instances", instances, {"reads_per_s": "reads/s"}),
            _panel(
                "launch, p50 in ms",
                "instances",
                instances,
                {"launch_accepted_ms": "accepted", "launch_first_step_ms": "first step"},
            ),
            _panel(
                "first pages, p50 in ms", "instances", instances, {"list_ms": "list of the API", "page_ms": "console"}
            ),
        ],
    )
    draw(
        directory / "growth-schedules.svg",
        [
            _panel("how late, ms", "pending", schedules, {"late_p50_ms": "p50", "late_p99_ms": "p99"}),
            _panel("per second", "pending", schedules, {"inserts_per_s": "inserted", "commits_per_s": "bare commits"}),
            _panel("idle CPU, % of a core", "pending", schedules, {"idle_cpu_percent": "server and PostgreSQL"}),
        ],
    )
    seen = {name: f"{label}" for name, label in (("waiting_per_s", "steps wait"), ("light_per_s", "steps compute"))}
    draw(directory / "growth-workers.svg", [_panel("launches/s", "workers", workers, seen, log_x=False)])
    return page(
        "Growth",
        made_on(result),
        "## Instances",
        "![reads, launches and first pages among more and more instances](growth-instances.svg)",
        _table("instances", instances, INSTANCES),
        "## Pending schedules",
        "Some of them fall due during the measurement, one after the other.",
        "![lateness, insert rate and idle CPU among more and more schedules](growth-schedules.svg)",
        _table("pending", schedules, SCHEDULES),
        "## Workers",
        f"Three steps each. Where they wait ({result['wait_s']} s each), a worker has {result['places']} places,"
        " of which an"
        " organization alone gets four fifths, and the rate grows with the workers. Where they only compute, it is the"
        " processors that are the limit: PostgreSQL, the server and the clients of the measurement share"
        f" {result['machine']['cores']} cores with the workers, and more workers bring little or nothing.",
        "![launches a second with more and more workers](growth-workers.svg)",
        _table("workers", workers, WORKERS),
    )


def _panel(title: str, x: str, rows: list[dict[str, Any]], names: dict[str, str], *, log_x: bool = True) -> Panel:
    at = [row["count"] for row in rows]
    series = {label: (at, [row[name] for row in rows]) for name, label in names.items()}
    return Panel(title, x, series, log_x=log_x, marks=True)


def _table(what: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    lines = [[number(row["count"]), *(number(row[name]) for name in columns)] for row in rows]
    return table([what, *columns.values()], lines)
