"""The pages and plots of docs/contribute/evidence/ are those of the results beside them, and say what is in them."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.evidence.faults import faults
from benchmarks.evidence.pages import EVIDENCE, read, write
from benchmarks.evidence.plots import Panel, draw
from benchmarks.evidence.speed import speed
from benchmarks.evidence.words import number
from benchmarks.table import Limit, Table

MACHINE = {
    "at": "2026-01-01 00:00 UTC",
    "cores": 2,
    "processor": "x",
    "memory_gib": 8.0,
    "python": "3.11.0",
    "postgresql": "18.0",
    "load_before": 0.1,
}


@pytest.mark.slow
def test_the_pages_and_plots_that_are_kept_come_from_the_results_that_are_kept(tmp_path: Path) -> None:
    pages = write(read(EVIDENCE / "data"), tmp_path)
    assert pages, "there are results"
    made = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    kept = {name: (EVIDENCE / name).read_text("utf-8") for name in made}
    assert made == kept, "run: python -m benchmarks.evidence"


def test_each_result_is_on_a_page_and_each_plot_is_shown() -> None:
    shown = "".join(path.read_text("utf-8") for path in EVIDENCE.glob("*.md"))
    for result in (EVIDENCE / "data").glob("*.json"):
        assert f"(data/{result.name})" in shown
    for plot in EVIDENCE.glob("*.svg"):
        assert f"({plot.name})" in shown


def test_a_plot_has_no_date_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    panel = Panel("title", "x", {"one": ([1, 10], [2.0, 3.0]), "two": ([1, 10], [1.0, 5.0])}, log_x=True)
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, [panel])
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert text == (tmp_path / "b.svg").read_text("utf-8")
    assert "dc:date" not in text
    assert ">title<" in text, "text stays text"


def test_a_line_of_the_speed_table_tells_its_ratio_and_whether_it_is_as_it_must_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(machine=MACHINE)
    table.add("reads", 3000.0, "/s", must=2500, aim=4000, limit=Limit("bare", 6000.0))
    table.add("late", 300.0, "ms", must=200, beside="of 10")
    table.add("memory", 105.0, "MB")
    assert "bare: 6,000/s, ratio 0.50" in capsys.readouterr().out
    table.write(tmp_path / "speed.json")
    page = speed({"speed": json.loads((tmp_path / "speed.json").read_text("utf-8"))})
    assert "| reads | 3,000/s | 2,500/s | 4,000/s | bare: 6,000/s | 0.50 | yes |" in page
    assert "| late | 300 ms | 200 ms | – | – | – | **no** |" in page
    assert "| memory | 105 MB | – | – | – | – | – |" in page
    assert "- late: of 10." in page
    assert table.unkept() == "not as it must be: late"


def test_high_figures_that_are_no_rates_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(machine=MACHINE)
    table.add("ratio", 0.5, "", must=0.6, is_high=True)
    table.add("share", 0.7, "", must=0.6, is_high=True)
    assert table.unkept() == "not as it must be: ratio"
    table.lines.clear()
    assert table.unkept() is None
    assert capsys.readouterr().out


def test_a_campaign_that_broke_a_promise_is_told() -> None:
    about = {"kind": "server killed", "seed": 7, "kills": 3, "recoveries": 2, "ended_at": "2026-01-01T00:00:00Z"}
    times: dict[str, float | None] = {"p50_s": 1.25, "p99_s": None, "most_s": 1.5}
    unkept = {**about, **times, "violations": ["lost: the launch x"], "figures": "seed 7: 3 kills", "stops": 4.0}
    page = faults([unkept, {**unkept, "seed": 8, "most_s": 2.5, "violations": []}])
    assert "| server killed | 2 | 6 | 4 | 1.25 s | – | 2.5 s | 1 |" in page
    assert "| server killed | 7 | 3 | 2 | 1.25 s | – | 1.5 s | 1 | 2026-01-01T00:00:00Z |" in page
    assert "- server killed, seed 7: lost: the launch x" in page
    assert "- server killed: seed 7: 3 kills; stops 4" in page


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(None, "s", "–"), (1234.5, "/s", "1,234/s"), (0.1234, "s", "0.123 s"), (3.0, "", "3"), (42.31, "ms", "42.3 ms")],
)
def test_figures_have_three_digits_that_count(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_the_speed_on_the_first_page_of_the_documentation_is_a_measured_one() -> None:
    [launches] = re.findall(
        r"\[(\d+) launches per second\]\(contribute/evidence/dispatch\.md\)", (Path("docs") / "index.md").read_text()
    )
    rows = json.loads((EVIDENCE / "data" / "dispatch.json").read_text())["rows"]
    [measured] = [row["per_s"] for row in rows if row["name"] == "launch, 32 clients, polling, +0 ms"]
    assert int(launches) == round(measured)
