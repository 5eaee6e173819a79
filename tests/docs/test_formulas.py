"""The table of docs/reference/manifest/expressions.md that compares formulas with the Common Expression Language."""

import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from launchbay.errors import ExpressionError
from launchbay.manifest.expressions import compile_condition
from launchbay.manifest.paths import Scope
from tests.support.documentation import ROOT

PAGE = (ROOT / "docs" / "reference" / "manifest" / "expressions.md").read_text()
CEL = ROOT / ".venv" / "cel" / "bin" / "python"
ERROR = "error"
INFINITE = "double('Infinity')"
ASK = """
import json, sys
from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_strings
env = cel.NewEnv(variables={}, extensions=[ext_math.ExtMath(), ext_strings.ExtStrings()])
answers = {}
for formula in json.load(sys.stdin):
    # Without the check, types are those of the values, as for input that CEL reads from JSON.
    found = env.compile(formula, disable_check=True).eval(data={})
    answers[formula] = ["error"] if found.type() == cel.Type.ERROR else ["value", found.plain_value()]
json.dump(answers, sys.stdout)
"""


def _rows() -> list[tuple[str, str, str]]:
    """Return formula, result and the formula and result of CEL, a row for each formula."""
    table = PAGE.partition("| formula | result | in CEL |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = []
    for line in table.splitlines():
        formulas, result, cel = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        rows += [(formula.replace(r"\|", "|"), result, cel) for formula in re.findall("`([^`]+)`", formulas)]
    return rows


ROWS = _rows()


def _read(cell: str) -> Any:
    text = cell.strip("`")
    return float("inf") if text == INFINITE else text if text == ERROR else json.loads(text)


@pytest.mark.parametrize(("formula", "result"), [row[:2] for row in ROWS])
def test_a_formula_gives_what_the_table_says(formula: str, result: str) -> None:
    template = compile_condition(formula)
    if result == ERROR:
        with pytest.raises(ExpressionError):
            template.evaluate(Scope({}))
        return
    found, _ = template.evaluate(Scope({}))
    assert found == _read(result)
    assert type(found) is type(_read(result))


def _in_cel(formulas: list[str]) -> Mapping[str, list[Any]]:
    done = subprocess.run(
        [CEL, "-c", ASK], input=json.dumps(formulas), capture_output=True, text=True, check=True, timeout=60
    )
    answers: Mapping[str, list[Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.slow
@pytest.mark.skipif(not CEL.exists(), reason="requirements/cel could not install CEL")
def test_cel_gives_what_the_table_says() -> None:
    wanted: dict[str, Any] = {}
    for formula, result, cell in ROWS:
        own, _, value = cell.rpartition(": ")
        wanted[own.strip("`") or formula] = _read(result if cell == "same" else value)
    answers = _in_cel(list(wanted))
    found = {formula: ERROR if answer == [ERROR] else answer[1] for formula, answer in answers.items()}
    assert found == wanted
    assert {formula: type(value) for formula, value in found.items()} == {
        formula: type(value) for formula, value in wanted.items()
    }
