"""The page of launches as users make them."""

from typing import Any

from benchmarks.dispatch import COLUMNS
from benchmarks.evidence.speed import HEADS, lines_of
from benchmarks.evidence.words import made_on, number, page, table


def dispatch(result: dict[str, Any]) -> str:
    """Return the page, from `python -m benchmarks.dispatch`."""
    rows = [[row["name"], *(number(row.get(name)) for name in COLUMNS), number(row["load"])] for row in result["rows"]]
    return page(
        "Launches as users make them",
        "Clients launch three recorded steps over HTTP. They read the instance after 5 ms, then after pauses that grow"
        " by half, up to 100 ms, until it runs; then they launch the next one. `+2 ms` means that each disk flush of"
        " PostgreSQL takes 2 ms longer, as on slower disks or with a synchronous replica.",
        "All but the rates and times are per launch or per read. They include the polls of the clients and the regular"
        " work of the server. Commits are the transactions that wrote. The rows that begin with `limit` show what the"
        " machine does without Launchbay, in the same run.",
        made_on(result) + f" Medians of {result['rounds']} rounds." * (result["rounds"] > 1),
        "## What must be reached",
        table(HEADS, lines_of(result["lines"])),
        "Commits, flushes and WAL are those of one client that waits: nobody shares them with it.",
        "## All rows",
        table(("work", *COLUMNS.values(), "load"), rows),
        "Measure again: `make bench-dispatch`, which takes four minutes. With `ARGS='--full --rounds 3'` it takes"
        " longer and is steadier. The exit code is 1 if anything that must be reached was not. The slower flushes need"
        " a C compiler: `cc`, or the command in `CC`.",
        "To compare two versions, run `python -m benchmarks.dispatch --json FILE` for each in turn, more than once."
        " `--python FILE` names the interpreter of the other version. Then"
        " `python -m benchmarks.dispatch --compare BEFORE.json AFTER.json` shows both with their ratios; further pairs"
        " may follow.",
    )
