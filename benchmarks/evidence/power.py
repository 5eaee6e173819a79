"""The page of what the tests notice: mutants and coverage, before and after the restructuring."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchmarks.coverage_by_package import FIELDS, percent
from benchmarks.evidence.words import page, table

Runs = Mapping[str, Any]


def power(data: Runs) -> str:
    """Return the page from `test-power` and `coverage`, each with `-after` when there is one."""
    mutants = [data[name] for name in ("test-power", "test-power-after") if name in data]
    coverage = [data[name] for name in ("coverage", "coverage-after") if name in data]
    return page(
        "What the tests notice",
        "A mutant is the product with one expression changed. Tests that still pass did not notice it: it survived."
        " Some survivors behave as the original does.",
        "## Mutants",
        _counts(mutants),
        "Results: " + ", ".join(f"[{name}](data/{name}.json)" for name in data if name.startswith("test-power")) + "."
        " Measure again: `python -m benchmarks.mutations --json FILE`; the same mutants in moved code:"
        " `python -m benchmarks.mutations --like docs/contribute/evidence/data/test-power.json --json FILE`.",
        "## Survivors",
        _survivors(mutants[-1]),
        *(["## Coverage", _coverage(coverage), _coverage_source(data)] if coverage else []),
    )


def _counts(runs: list[Runs]) -> str:
    rows = []
    for name in runs[0]["targets"]:
        cells = []
        for run in runs:
            found = run["targets"].get(name, {"mutants": [], "missing": []})
            count = Counter(row["outcome"] for row in found["mutants"])
            killed = count["killed"] + count["timeout"]
            cells += [str(count.total()), str(killed), str(count.total() - killed), str(len(found["missing"]))]
        rows.append([name, *cells])
    heads = ["mutants", "noticed", "survived", "missing"]
    named = [f"{head}{when}" for when, _ in zip(("", ", after"), runs, strict=False) for head in heads]
    return table(("target", *named), rows)


def _survivors(run: Runs) -> str:
    return "\n".join(
        f"- {name}, `{row['function']}`: `{row['before']}` → `{row['after']}`"
        for name, found in run["targets"].items()
        for row in found["mutants"]
        if row["outcome"] not in {"killed", "timeout"}
    )


def _coverage(runs: list[Runs]) -> str:
    packages = sorted({package for run in runs for package in run})
    rows = []
    for package in packages:
        cells = []
        for run in runs:
            found = run.get(package, dict.fromkeys(FIELDS, 0))
            statements, lines, branches, branches_run = (found[field] for field in FIELDS)
            cells += [str(statements), percent(lines, statements), str(branches), percent(branches_run, branches)]
        rows.append([package, *cells])
    heads = ["statements", "lines, %", "branches", "branches, %"]
    named = [f"{head}{when}" for when, _ in zip(("", ", after"), runs, strict=False) for head in heads]
    return table(("package", *named), rows)


def _coverage_source(data: Runs) -> str:
    files = ", ".join(f"[{name}](data/{name}.json)" for name in data if name.startswith("coverage"))
    return f"Results: {files}, from `python -m benchmarks.coverage_by_package DATA --json FILE`."
