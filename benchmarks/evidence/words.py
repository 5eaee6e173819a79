"""Pieces of the pages: tables, figures as people read them, and what a run was made on."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.table import shown

GENERATED = "<!-- Written by `python -m benchmarks.evidence` from the files in data/. Do not edit. -->"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in markdown; all columns but the first stand to the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float | None, unit: str = "") -> str:
    """Return a figure as people read it; a dash for none."""
    return "–" if value is None else shown(value, unit)


def made_on(result: dict[str, Any]) -> str:
    """Return a sentence about the run of a result."""
    facts = result["machine"]
    return (
        f"Run on {facts['at']}: {facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB of memory,"
        f" Python {facts['python']}, PostgreSQL {facts['postgresql']}; load of the machine before the run"
        f" {facts['load_before']}."
    )


def page(title: str, *parts: str) -> str:
    """Return the text of a page."""
    return "\n\n".join([f"# {title}", GENERATED, *(part.strip() for part in parts if part.strip())]) + "\n"
