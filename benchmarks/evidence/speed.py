"""The page of the speed table."""

from collections.abc import Iterator
from typing import Any

from benchmarks.evidence.words import made_on, number, page, table

HEADS = ("work", "measured", "must", "aim", "limit of the machine in the same run", "ratio to it", "kept")
KEPT = {True: "yes", False: "**no**", None: "–"}


def speed(data: dict[str, Any]) -> str:
    """Return the page, from `python -m benchmarks` and those of single parts."""
    parts = []
    for name, command in (
        ("speed", "make bench"),
        ("fleet", "make bench-fleet"),
        ("schedules", "python -m benchmarks.schedules"),
        ("fairness", "python -m benchmarks.fairness"),
        ("parking", "python -m benchmarks.parking"),
    ):
        if name in data:
            parts += [f"## `{command}`", made_on(data[name]), table(HEADS, lines_of(data[name]["lines"]))]
            parts.append(
                "\n".join(f"- {line['what']}: {line['beside']}." for line in data[name]["lines"] if line["beside"])
            )
    return page(
        "Speed",
        "What is promised, what was measured, and what the machine itself could do at that moment. Client, server and"
        " PostgreSQL share the machine. The limit is the same work without Launchbay, measured in the same run,"
        " so that the"
        " ratio stays when the machine is another or is busy; a figure of its own says little without the load"
        " beside it.",
        *parts,
    )


def lines_of(lines: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a speed table."""
    for line in lines:
        limit = line["limit"]
        yield (
            line["what"],
            number(line["value"], line["unit"]),
            number(line["must"], line["unit"]),
            number(line["aim"], line["unit"]),
            "–" if limit is None else f"{limit['what']}: {number(limit['value'], line['unit'])}",
            "–" if line["ratio"] is None else f"{line['ratio']:.2f}",
            KEPT[line["kept"]],
        )
