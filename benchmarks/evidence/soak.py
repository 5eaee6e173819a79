"""The page of the soak, and that of retention after a million jobs."""

from pathlib import Path
from typing import Any

from benchmarks.evidence.plots import Panel, draw
from benchmarks.evidence.words import made_on, number, page, table

PROCESSES = ("server", "second server", "worker")


def soak(data: dict[str, Any], directory: Path) -> str:
    """Draw the plot and return the page: the last run, and one of before where it is kept."""
    result, earlier = data["soak"], data.get("soak-earlier")
    draw(directory / "soak.svg", _panels(result["series"]))
    return page(
        "Soak",
        f"{number(result['minutes'])} minutes of launches, runs, schedules, reconfigurations, destroying and deleting,"
        " with lists, event streams and pages of the console beside them. One server lives from the begin to the end;"
        " a second server and a worker on the same PostgreSQL are killed with `kill -9` every 5 to 40 s and"
        " started again."
        f" What is destroyed and old is thrown away after {result['kept_s']} s. After each minute the clients rest, and"
        " all that they were promised is compared with what is recorded.",
        "What counts as flat is by how much the robust slope (Theil–Sen) of the last two thirds would raise a"
        " figure from"
        " their begin to their end. Files of tables keep the size of their busiest moment.",
        "## The last run",
        "![memory, descriptors, connections, sizes and dead rows over the time](soak.svg)",
        *_run(result),
        *(("## [An earlier run](data/soak-earlier.json)", *_run(earlier)) if earlier else ()),
    )


def _run(result: dict[str, Any]) -> list[str]:
    happened = [
        ("rounds, each with a verdict", number(result["rounds"])),
        ("kills", number(result["kills"])),
        ("launches accepted", number(result["launches"])),
        ("changes that were answered", number(sum(result["changes"].values()))),
        ("visits to the server that lives", number(sum(result["visits"].values()))),
        ("its answers with 5xx", number(result["errors"])),
        ("first step again after a kill, p50", number(result["recovery_p50_s"], "s")),
        ("first step again after a kill, p99", number(result["recovery_p99_s"], "s")),
        ("promises broken", number(len(result["violations"]))),
    ]
    judged = [
        [
            row["name"],
            *(number(row[name], row["unit"]) for name in ("at_first", "at_last", "most", "risen", "allowed")),
            "yes" if row["flat"] else "**no**",
        ]
        for row in result["judged"]
    ]
    return [
        made_on(result) + f" Load during the run, median: {result['load_p50']}.",
        result.get("remark", ""),
        table(("what happened", "count"), happened),
        "\n".join(f"- {each}" for each in result["violations"]) or "No promise was broken.",
        "All of it is flat." if result["flat"] else "Not all of it is flat.",
        table(("after the first third", "at first", "at last", "most", "risen by", "may rise by", "flat"), judged),
    ]


def _panels(series: dict[str, dict[str, list[float]]]) -> list[Panel]:
    def panel(title: str, names: dict[str, str]) -> Panel:
        lines = {
            label: ([at / 60 for at in series[name]["at"]], series[name]["values"])
            for name, label in names.items()
            if name in series
        }
        return Panel(title, "minutes", lines)

    return [
        panel("memory, MB", {f"{process}: memory": process for process in PROCESSES}),
        panel("own descriptors of the server that lives", {"server: own descriptors": "descriptors"}),
        panel("tasks of the server that lives", {"server: tasks": "tasks"}),
        panel("connections of the database", {"connections of the database": "connections"}),
        panel("size of all tables, MB", {"size of all tables": "size"}),
        panel("dead rows of all tables", {"dead rows of all tables": "dead"}),
    ]


def retention(data: dict[str, Any]) -> str:
    """Return the page."""
    result = data["retention"]
    fills = result["fills"]
    parts = []
    for place, fill in enumerate(fills, 1):
        filled = fill["filled"]
        parts.append(
            f"### Fill {place}\n\n{number(filled['jobs'])} jobs, {number(filled['steps'])} steps and"
            f" {number(filled['lines'])} log lines were there; {number(fill['jobs_left'])} jobs are left, as"
            " living instances"
            f" keep their last hundred. It took {number(fill['purged_in_s'], 's')}."
        )
        times = [(f"a round of {name}", row) for name, row in fill["rounds"].items()]
        for when, kind in (("before", "use_before"), ("meanwhile", "use_meanwhile")):
            times += [(f"{name}, {when}", row) for name, row in fill[kind].items()]
        parts.append(
            table(
                ("ms", "count", "p50", "p99", "most"),
                [[what, *(number(row[name]) for name in ("count", "p50", "p99", "most"))] for what, row in times],
            )
        )
    heads = ["MB with indexes"]
    for place in range(1, len(fills) + 1):
        heads += [f"fill {place}: full", f"fill {place}: after"]
    rows = []
    for name in fills[0]["sizes_full"]:
        sizes = [fill[when][name]["all_mb"] for fill in fills for when in ("sizes_full", "sizes_after")]
        rows.append([f"`{name}`", *(number(size) for size in sizes)])
    return page(
        "Retention after many jobs",
        made_on(result),
        f"{number(result['jobs'])} ended jobs with their steps, logs and events are filled in, a fifth of them on"
        " destroyed"
        " instances; then retention throws away what is older than it is told to keep, in transactions of 2,000"
        " rows of a"
        " kind at most, while somebody reads and somebody launches. All is done again to see whether the tables"
        " find room"
        " where the first left it.",
        *parts,
        "### Sizes",
        "A table keeps its file; what was thrown away is room for what comes. What still grows with each fill are the"
        " jobs that living instances keep.",
        table(heads, rows),
    )
