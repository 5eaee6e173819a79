"""The page of lists, reads and retention with millions of jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.evidence.words import made_on, number, page, table

_KINDS = {"busy": "An instance that runs every minute", "calm": "An instance with a hundred jobs"}


def long_history(result: dict[str, Any]) -> str:
    """Return the page."""
    return page(
        "A long history",
        made_on(result),
        f"{result['jobs']:,} jobs over {result['days']} days, with their steps, log lines and audit entries, and the"
        " events of the last days. Half of the jobs are on 200 instances, the others on instances with a hundred each."
        " Beside it, a server with"
        f" {result['small']:,} jobs. Both are read in turns, so that both meet the same load.",
        *_reads(result["reads"]),
        "## Sizes",
        table(
            ("table", "rows", "MB with indexes", "partitions"),
            [
                [f"`{name}`", f"{size['rows']:,}", number(size["mb"]), str(size["partitions"])]
                for name, size in result["sizes"].items()
            ],
        ),
        "## Retention",
        *_retention(result["retention"]),
    )


def _reads(reads: Mapping[str, Any]) -> Iterator[str]:
    for kind, title in _KINDS.items():
        rows = []
        for name, found in reads[f"of a {kind} instance"].items():
            small, large = found["small"], found["large"]
            ratio = large["cpu_ms"] / small["cpu_ms"]
            times = [each[figure] for figure in ("p50", "p99", "cpu_ms") for each in (small, large)]
            rows.append([name, *map(number, times), number(ratio)])
        yield f"## {title}"
        yield table(("ms", "p50 few", "p50 many", "p99 few", "p99 many", "CPU few", "CPU many", "ratio of CPU"), rows)


def _retention(retention: Mapping[str, Any]) -> Iterator[str]:
    dropped, deleted = retention["drop"], retention["delete jobs"]
    yield (
        "Log lines and audit entries go with their partitions. Jobs and their steps are deleted row by row, in"
        " transactions of at most 2,000 jobs ([decision 0094](../decisions/0094-history-in-partitions.md)). All the"
        " time, somebody reads an instance and somebody launches."
    )
    rounds = deleted["result"]["retention"]
    rows = [
        [f"drop of a partition of `{name}`", "1", number(took), number(took), number(took)]
        for name, took in dropped["result"].items()
        if took is not None
    ]
    rows.append(
        [
            f"a transaction of the deletion of {deleted['jobs']:,} jobs, a day's worth, in {deleted['took_s']} s",
            *_times(rounds),
        ]
    )
    for what, found in (("the drops", dropped), ("the deletion", deleted)):
        rows.extend([f"{name}, beside {what}", *_times(times)] for name, times in found["use"].items())
    yield table(("ms", "count", "p50", "p99", "most"), rows)


def _times(times: Mapping[str, float]) -> list[str]:
    return [f"{times['count']:,}", *(number(times[figure]) for figure in ("p50", "p99", "most"))]
