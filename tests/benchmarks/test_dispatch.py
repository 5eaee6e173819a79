"""The pure parts of benchmarks/dispatch.py: what it reads, and how it compares."""

from itertools import islice
from typing import Any

import pytest

from benchmarks.dispatch import Report, Waiting, compared, poll_pauses, statements_in
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
    page = dispatch({"machine": {**about, "load_before": 1.5}, "rows": result(per_s=86, wal_kb=11.25)["rows"]})
    assert "| launch | 86 | – | – | – | – | – | – | – | 11.2 | – | – | 1 |" in page
