import contextlib
import time
from typing import Any

import pytest

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.expressions import compile_template
from launchbay.manifest.paths import Scope


def within_a_second(template: Any, **variables: Any) -> str:
    """Return how an evaluation is refused, having taken less than a second."""
    start = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        compile_template(template).evaluate(Scope(variables))
    assert time.process_time() - start < 1.0
    return str(caught.value)


def test_evaluations_that_would_blow_up_are_refused_in_time() -> None:
    nested: Any = {"a": 1}
    for _ in range(60):
        nested = {"a": nested, "b": 1}
    many = [{"x": list(range(1000))} for _ in range(1000)]
    huge = {"l": list(range(50_000))}
    assert "more than" in within_a_second("{$..a..a..a..a..a..a}", v=nested)
    assert "more than" in within_a_second("{$.v.*.x}", v=many)
    assert "values" in within_a_second(["{$.v}"] * 10_000, v=huge)
    assert "values" in within_a_second(["{$..zzz}"] * 10_000, v=huge)
    assert "texts" in within_a_second("x{$.v}", v=[1] * (limits.EXPRESSION_RESULT_ITEMS + 1))
    assert "characters" in within_a_second("{$.v}{$.l}", v="x" * 100_000, l=[1] * 50_000)
    assert "characters" in within_a_second(["{$.v}"] * 20_000, v="x" * limits.MIB)
    assert "characters" in within_a_second(["x{$.v}"] * 20_000, v={"x" * limits.MIB: 1})
    assert "characters" in within_a_second("{$.v}" * 5, v="x" * limits.MIB)


def test_results_deeper_than_json_may_be_are_refused() -> None:
    deep: Any = []
    for _ in range(limits.JSON_DEPTH - 1):
        deep = [deep]
    assert compile_template("{$.v}").evaluate(Scope({"v": deep})) == (deep, ())
    assert "nested deeper" in within_a_second(["{$.v}"], v=deep)
    assert "nested deeper" in within_a_second("x{$.v}", v=[deep])
    for _ in range(5000):
        deep = [deep]
    for text in ("{$.v}", "x{$.v}", "{$..a}x{$.v}", "x{$.m}"):
        assert within_a_second(text, v=deep, m={"a": deep})


def test_what_is_no_json_value_is_refused() -> None:
    for text in ("{$.v}", "x{$.v}"):
        with pytest.raises(ExpressionError, match="no JSON value"):
            compile_template(text).evaluate(Scope({"v": object()}))


@pytest.mark.parametrize(
    "unit", ["{$.v}", "$$", "{{", "}}", "${v}", "${v.v.v", "${", "{", "{$", "$", "x", "{$.v.v['v'][0].*}"]
)
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    start = time.process_time()
    template = compile_template(unit * (limits.MANIFEST_BYTES // len(unit)))
    with contextlib.suppress(ExpressionError):
        template.evaluate(Scope({"v": "w"}))
    assert time.process_time() - start < 1.0


def test_long_paths_take_linear_time() -> None:
    start = time.process_time()
    for unit in (".v", "..v", "[0]", "['v']", ".*", "['", "['\\"):
        try:
            compile_template("{$.v" + unit * 50_000 + "}").evaluate(Scope({"v": ["w"]}))
        except ExpressionError:
            continue
    assert time.process_time() - start < 2.0
