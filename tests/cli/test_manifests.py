"""Manifests are checked and drawn without a server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launchbay.cli.manifests import DOT, MERMAID
from tests.support.manifests import MANIFESTS
from tests.support.shell import Shell

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "src" / "launchbay" / "demo" / "sample.yaml"
BAD = "launch:\n  steps:\n    - a: {action: nothing}\n"


def test_a_valid_manifest_is_valid_and_an_error_is_shown_with_line_and_column(shell: Shell) -> None:
    assert shell.good("validate", str(SAMPLE)) == f"{SAMPLE}: valid\n"
    result = shell.run("validate", "-", stdin=BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("-:3:19: error: ")
    assert "[UnknownAction]" in result.stdout
    _, line, mark, *_ = result.stdout.splitlines()
    assert line == "    3 |     - a: {action: nothing}"
    assert mark.index("^") == line.index("nothing")


def test_validate_imports_no_database_nor_client_nor_colors() -> None:
    """They take as long as all the rest. A process of its own, 0.5 s: this one has them."""
    check = f"""
import sys
from launchbay.cli.main import main
try:
    main(["validate", {str(SAMPLE)!r}])
finally:
    print(*{{name.split(".")[0] for name in sys.modules}}, *(name for name in sys.modules if name.count(".") == 1))
"""
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    verdict, loaded = shown.splitlines()
    assert verdict == f"{SAMPLE}: valid"
    assert {"click", "launchbay.manifest"} <= set(loaded.split())
    for name in ("psycopg", "starlette", "structlog", "rich", "pygments", "launchbay.client", "launchbay.store"):
        assert name not in loaded.split()


def test_findings_are_had_as_json(shell: Shell) -> None:
    result = shell.run("validate", "-", "-o", "json", stdin=BAD)
    (finding,) = json.loads(result.stdout)["-"]
    assert (finding["severity"], finding["line"], finding["column"], finding["code"]) == (
        "error",
        3,
        19,
        "UnknownAction",
    )


def test_findings_are_shown_in_the_order_of_the_text(shell: Shell) -> None:
    text = """launch:
  steps: [{a: {action: nothing}}]
  return: {x: {value: 1, valu: 1}}
destroy:
  steps: [{b: {action: nothing}}]
"""
    told = shell.run("validate", "-", stdin=text).stdout.splitlines()
    shown = [line.split(":")[1:4:2] for line in told if line.startswith("-:")]
    assert shown == [["2", " error"], ["3", " warning"], ["5", " error"]]


def test_warnings_count_only_when_they_are_told_to(shell: Shell) -> None:
    unused = "launch:\n  steps:\n    - a: {action: wait, precedingPhases: [p], parameters: {delay: 1}}\n"
    assert "warning" in shell.good("validate", "-", stdin=unused)
    assert shell.run("validate", "-", "--strict", stdin=unused).exit_code == 1


def test_schedules_show_their_next_times_and_what_their_author_may_not_expect(shell: Shell) -> None:
    scheduled = """application:
  components:
    web:
      type: workflow.Instance
      configuration:
        configuration.schedule: {{ launch: "{cron}" }}
        configuration.workflows: {{ launch: {{ steps: [] }} }}
"""
    told = shell.good("validate", "-", stdin=scheduled.format(cron="0 30 4 ? * 2")).splitlines()
    assert told[0] == "-: valid"
    assert told[1].startswith("-: web.launch at 0 30 4 ? * 2: Mon ")
    assert told[1].count(" 04:30:00 UTC") == 5
    over = shell.good("validate", "-", stdin=scheduled.format(cron="0 0 0 1 1 ? 2020"))
    assert "web.launch at 0 0 0 1 1 ? 2020: It doesn't fire within 10 years." in over


def test_a_default_of_the_wrong_type_fails_a_strict_check(shell: Shell) -> None:
    wrong = """application:
  configuration: { input.n: lots }
  interfaces: { input: { n: bind(web#input.n) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { n: configuration(int) } }
      configuration:
        configuration.workflows: { launch: { steps: [] } }
"""
    told = shell.good("validate", "-", stdin=wrong)
    assert "-:2:" in told
    assert "warning" in told
    assert shell.run("validate", "-", "--strict", stdin=wrong).exit_code == 1


def test_a_graph_is_drawn_as_mermaid_and_as_dot(shell: Shell, tmp_path: Path) -> None:
    drawn = shell.good("graph", str(SAMPLE))
    assert drawn.startswith("flowchart LR\n")
    assert '["catalogue<br/>workflow.Instance<br/>destroy, launch, scale"]' in drawn
    assert "--> results" in drawn
    file = tmp_path / "graph.dot"
    shell.good("graph", str(SAMPLE), "--format", "dot", "--output-file", str(file))
    assert file.read_text("utf-8").startswith("digraph manifest {")


def test_odd_texts_break_no_diagram() -> None:
    assert MERMAID.node("c0", ['a "b" <c>']) == 'c0["a &quot;b&quot; &lt;c&gt;"]'
    assert DOT.node("c0", ['a "b" \\', "d"]) == 'c0 [label="a \\"b\\" \\\\\\nd"];'


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_what_is_drawn(shell: Shell) -> None:
    drawn = shell.good("graph", str(SAMPLE), "--format", "dot")
    subprocess.run(["dot", "-Tsvg"], input=drawn.encode(), check=True, capture_output=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_whole_manifests_can_be_drawn(shell: Shell, path: Path) -> None:
    assert shell.good("graph", str(path)).startswith("flowchart")


def test_a_bad_manifest_is_not_drawn(shell: Shell) -> None:
    assert "-:3:19:" in shell.bad(1, "graph", "-", stdin=BAD)
