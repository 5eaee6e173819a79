"""The page of the flood campaigns."""

from typing import Any

from benchmarks.evidence.words import page, table

_FIGURES = (
    "launches_quiet_per_s",
    "launches_rate_ratio",
    "launches_p99_ratio",
    "reads_quiet_per_s",
    "reads_rate_ratio",
)


def _missed(campaign: dict[str, Any]) -> list[str]:
    """Return the floods in which the neighbor kept less than it must."""
    return [
        way
        for way, figures in campaign["ways"].items()
        if min(figures["launches_rate_ratio"], figures["reads_rate_ratio"]) < campaign["least_rate"]
        or max(figures["launches_p99_ratio"], figures["reads_p99_ratio"]) > campaign["most_p99"]
    ]


def floods(campaigns: list[dict[str, Any]]) -> str:
    """Return the page of flood campaigns: the last one with each number of servers."""
    in_order = sorted({each["servers"]: each for each in campaigns}.values(), key=lambda each: each["servers"])
    parts = []
    for each in in_order:
        turns = f", in {each['rounds']} turns under a load of {each['load']:g}" if "rounds" in each else ""
        parts += [
            f"## {each['servers']} {'server' if each['servers'] == 1 else 'servers'}",
            f"Measured for {each['seconds']:g} s each{turns}, ended at {each['ended_at']}.",
            table(
                ("flood", "launches/s quiet", "rate kept", "p99 ratio", "reads/s quiet", "rate kept", "p99 ratio"),
                [
                    [way, *(f"{figures[name]:.2f}" for name in (*_FIGURES, "reads_p99_ratio"))]
                    for way, figures in each["ways"].items()
                ],
            ),
            f"Not held: {', '.join(_missed(each)) or 'nothing'}.",
        ]
    return page(
        "Floods",
        "One organization sends all it can over 16 connections, in one way at a time. Another one launches and reads,"
        " each over one connection. The figures compare it with itself without the flood, in turns of the same run: it"
        f" must keep {in_order[0]['least_rate']:.0%} of its rates, and its p99 must stay below"
        f" {in_order[0]['most_p99']:g} times the quiet one.",
        "The machine has two cores, which other work used too: single turns differ by a factor of two and more, so that"
        " earlier runs, of one turn each, said little. Servers of one machine let organizations take turns together"
        " (decision 0118).",
        "`LAUNCHBAY_EVIDENCE=docs/contribute/evidence/data pytest -m load tests/abuse` measures again.",
        *parts,
    )
