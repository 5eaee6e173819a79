"""The pure parts of benchmarks/dispatch.py: what it reads, and how it compares."""

from itertools import islice
from typing import Any

import pytest

from benchmarks.dispatch import (
    DEMANDS,
    Report,
    Waiting,
    collapsed,
    compared,
    demanded,
    missed,
    poll_pauses,
    statements_in,
)
from benchmarks.evidence.dispatch import dispatch

MACHINE = {"load_before": 1.5}
WAITS = [{"name": "wait", "in": "query"}]


def result(**figures: float) -> dict[str, Any]:
    return {"machine": MACHINE, "rows": [{"name": "launch", "load": 1.0, **figures}]}


def test_clients_poll_after_5_ms_and_then_more_and_more_rarely() -> None:
    pauses_ms = [round(pause_s * 1000, 1) for pause_s in islice(poll_pauses(), 10)]
    assert pauses_ms == [5, 7.5, 11.2, 16.9, 25.3, 38, 57, 85.4, 100, 100]


def test_only_statements_are_counted_not_their_further_lines_or_other_messages() -> None:
    log = (
        "2026-01-01 00:00:00 UTC [7] LOG:  statement: BEGIN\n"
        "2026-01-01 00:00:00 UTC [7] LOG:  execute _pg3_1: SELECT 1\n"
        "\tFROM instances\n"
        "2026-01-01 00:00:00 UTC [7] LOG:  execute <unnamed>: SELECT 'LOG: '\n"
        "2026-01-01 00:00:00 UTC [7] LOG:  received SIGHUP, reloading configuration files\n"
    )
    assert statements_in(log) == 3


@pytest.mark.parametrize(
    ("paths", "offered"),
    [
        ({}, Waiting()),
        ({"/api/1/instances/{id}": {"get": {"parameters": WAITS}}}, Waiting(at_read=True)),
        ({"/api/1/applications/{id}/launch": {"post": {"parameters": WAITS}}}, Waiting(at_launch=True)),
        ({"/api/1/instances/{id}": {"get": {"parameters": [{"name": "wait", "in": "path"}]}}}, Waiting()),
        ({"/api/1/instances/{id}/events": {"get": {"parameters": WAITS}}}, Waiting()),
    ],
)
def test_a_server_that_waits_says_so_in_its_document(paths: dict[str, Any], offered: Waiting) -> None:
    assert Waiting.offered({"paths": paths}) == offered


def test_a_comparison_shows_medians_and_the_median_of_the_ratios_of_pairs() -> None:
    pairs = [
        result(per_s=100),
        result(per_s=200),
        result(per_s=10),
        result(per_s=60),
        result(per_s=50),
        result(per_s=50),
    ]
    lines = [line.split() for line in compared(pairs)]
    assert lines[2:] == [["launch", "before", "50"], ["after", "60"], ["ratio", "2"]]


def test_a_comparison_keeps_rows_that_only_one_side_has() -> None:
    before, after = result(per_s=100), result(p50_ms=3)
    after["rows"][0]["name"] = "launch, ?wait=30"
    lines = [line.split() for line in compared([before, after])]
    assert lines[2:] == [
        ["launch", "before", "100"],
        ["after"],
        ["ratio"],
        ["launch,", "?wait=30", "before"],
        ["after", "3"],
        ["ratio"],
    ]


def test_a_figure_that_cannot_be_measured_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(machine=MACHINE)
    report.add("launch", per_s=12.5, flushes=None)
    assert {"name", "load", "per_s"} == report.rows[0].keys()
    assert capsys.readouterr().out.split() == ["launch", "12.5"]


def test_the_page_has_a_row_for_each_row_of_the_result_and_a_dash_for_what_was_not_measured() -> None:
    about = {
        "at": "2026-01-01",
        "cores": 2,
        "processor": "x",
        "memory_gib": 8.0,
        "python": "3.11",
        "postgresql": "18.0",
    }
    rows = [*result(per_s=86, wal_kb=11.25)["rows"], {"name": DEMANDS[0].row, "per_s": 86.0, "load": 1.0}]
    lines = [each.row() for each in demanded(rows)]
    page = dispatch({"machine": {**about, "load_before": 1.5}, "rounds": 3, "rows": rows, "lines": lines})
    assert "| launch | 86 | – | – | – | – | – | – | – | 11.2 | – | – | 1 |" in page
    assert "| launches, 32 polling clients | 86/s | 280/s | 350/s | – | – | **no** |" in page
    assert "Medians of 3 rounds." in page


def met() -> list[dict[str, Any]]:
    """Rows in which each demand is just met."""
    rows: dict[str, dict[str, Any]] = {}
    for each in DEMANDS:
        row = rows.setdefault(each.row, {"name": each.row, "load": 1.0})
        row |= {name: each.must / len(each.columns) for name in each.columns}
    return list(rows.values())


def test_what_must_be_reached_is_met_at_its_bound_and_missed_beyond_it_or_unmeasured() -> None:
    assert missed(demanded(met())) is None
    for demand in DEMANDS:
        rows = met()
        [row] = [each for each in rows if each["name"] == demand.row]
        is_high = demand.is_high or demand.unit.endswith("/s")
        row[demand.columns[0]] *= 0.9 if is_high else 1.1
        assert missed(demanded(rows)) == f"not met or not measured: {demand.what}"
        del row[demand.columns[0]]
        assert demand.what in (missed(demanded(rows)) or "")


def test_a_figure_of_several_columns_is_their_sum_and_stands_beside_the_limit_of_the_machine() -> None:
    [cpu] = [each for each in DEMANDS if each.what == "CPU a launch, burst"]
    row = {"name": cpu.row, "load": 1.0, "server_cpu_ms": 1.5, "postgres_cpu_ms": 0.5}
    assert [line.value for line in demanded([row]) if line.what == cpu.what] == [2.0]
    reads = next(each for each in DEMANDS if each.limit is not None and each.row.startswith("GET"))
    rows: list[dict[str, Any]] = [
        {"name": reads.row, "load": 1.0, "per_s": 30.0},
        {"name": reads.limit, "load": 1.0, "per_s": 60.0},
    ]
    [line] = [line for line in demanded(rows) if line.what == reads.what]
    assert line.row()["ratio"] == 0.5


def test_rounds_collapse_to_the_medians_of_their_rows() -> None:
    rounds = [result(per_s=value, load=value / 10)["rows"][0] for value in (10.0, 90.0, 20.0)]
    assert collapsed(rounds) == [{"name": "launch", "per_s": 20.0, "load": 2.0}]
