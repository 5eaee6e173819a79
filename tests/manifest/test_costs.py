"""What functions and operators charge before they work, against what they take of the processor."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import yaml

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.budget import EvaluationBudget
from launchbay.manifest.expressions import Template, compile_condition, compile_template
from launchbay.manifest.formulas import FUNCTIONS
from launchbay.manifest.paths import Scope

TOO_CHEAP = 3.0  # times the charge
_QUICK_NS = 10_000_000  # of the charge, and the size, beyond which only the slow test measures
_QUICK_SIZE = 30_000
_SLOW_NS = 150_000_000  # of the charge of most cases in the slow test
_LONGEST_NS = 1_000_000_000  # of one case of each function: time that grows faster than the size shows there
_SHORTEST_NS = 2_000_000  # measured as often as that takes, so that the clock is fine enough
_LOOP_ROUNDS = 20_000
_LOOP_NS = 550_000.0  # that the loop takes on the machine of the table

Maker = Callable[[int], Any]


class Case(NamedTuple):
    """An expression, and what makes `$.v` for a size; `most` is the largest one that it is for."""

    text: str
    make: Maker
    most: int = limits.EXPRESSION_TEXT_CHARS


def texts(unit: str) -> Maker:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def items(item: Callable[[int], Any]) -> Maker:
    return lambda size: [item(number) for number in range(size)]


def of_json(value: Maker) -> Maker:
    return lambda size: json.dumps(value(size), ensure_ascii=False)


def of_yaml(value: Maker) -> Maker:
    return lambda size: yaml.dump(value(size), Dumper=yaml.CSafeDumper)


ITEMS = limits.EXPRESSION_RESULT_ITEMS
ASCII, UMLAUTS, EMOJI, CONTROL = texts("x"), texts("ä"), texts("\U0001f600"), texts("\x01")
DIGITS, UNDERSCORES = lambda size: "1" * size + "x", lambda size: "1_" * size + "x"
SPACES, COMMAS, LINES, EXPANDING = texts(" "), texts(","), texts("a: b\n"), texts("ΐ")
NUMBERS, LARGE, FRACTIONS = items(lambda n: n), items(lambda n: 2**62 + n), items(lambda n: n * 1.1)
WORDS, ALIKE = items(lambda n: f"word {n * 7919 % 1009}"), items(lambda n: "x" * 1_000 + f"{n * 7919 % 1009}")
MAPS, EMPTY, MAP = items(lambda n: {"a": n}), items(lambda _: {}), lambda size: {f"key {n}": n for n in range(size)}
DEEP = items(lambda n: {"a": {"b": [n, None, True, "x"]}})
_OF_TEXT = (ASCII, UMLAUTS, EMOJI, CONTROL, SPACES)
_OF_VALUES = (NUMBERS, LARGE, FRACTIONS, WORDS, MAPS, EMPTY, MAP, DEEP)
_PATTERNS = ("foo", "^web-[0-9]+$", "(x+x+)+y", "[^a]{500}b", "(?:(?:x{1,30}){1,30})*b", "(x*)" * 60 + "y", "(?i)x*ä")
# In many x, all but the last characters are right at each place.
_NEARLY = ("x" * 97 + "yx", "x" * 1_200 + "yx", "x" * 5 + "yx", "xxyx")

CASES: dict[str, list[Case]] = {
    "length": [Case("length($.v)", make) for make in (ASCII, NUMBERS, MAP)],
    "default": [Case("default($.v, 1)", ASCII)],
    "text": [Case("text([$.v])", make) for make in _OF_TEXT] + [Case("text($.v)", make, ITEMS) for make in _OF_VALUES],
    "number": [
        Case("number($.v)", texts("1"), 18),
        Case("number($.v)", lambda size: "0." + "1" * size),
        Case("number($.v)", lambda _: "1" * _QUICK_SIZE + "x", 1),
    ],
    "join": [Case("join($.v)", make, ITEMS) for make in (*_OF_VALUES[:6], DEEP, ALIKE)],
    "split": [Case("split($.v)", make, ITEMS) for make in (ASCII, COMMAS, LINES)]
    + [Case(f"split($.v, '{each}')", ASCII) for each in _NEARLY]
    + [Case("split($.v)", ASCII)],
    "lower": [Case("lower($.v)", make) for make in (*_OF_TEXT, EXPANDING)],
    "upper": [Case("upper($.v)", make, limits.EXPRESSION_TEXT_CHARS // 3) for make in (*_OF_TEXT, EXPANDING)],
    "trim": [Case("trim($.v)", make) for make in _OF_TEXT],
    "replace": [
        Case("replace($.v, 'x', 'yy')", ASCII, limits.EXPRESSION_TEXT_CHARS // 2),
        Case("replace($.v, 'x', '')", ASCII),
        Case("replace($.v, '\U0001f600', 'ä')", EMOJI),
        Case("replace($.v, 'xy', 'z')", ASCII),
        *(Case(f"replace($.v, '{each}', 'z')", ASCII) for each in _NEARLY),
    ],
    "matches": [Case(f"matches($.v, '{each}')", make) for each in _PATTERNS for make in (ASCII, EMOJI)],
    "match": [Case(f"match($.v, '{each}')", make) for each in _PATTERNS for make in (ASCII, EMOJI)]
    + [Case(f"match($.v, '{'(x?)' * 90}')", ASCII), Case(f"match($.v, '{'(' * 90 + 'x+' + ')' * 90}')", ASCII)],
    "keys": [Case("keys($.v)", MAP, ITEMS)],
    "values": [Case("values($.v)", MAP, ITEMS)],
    "range": [Case("range($.v)", lambda size: size, ITEMS)],
    "round": [Case("round($.v)", lambda _: 1e18 / 3, 1)],
    "floor": [Case("floor($.v)", lambda _: -5e-324, 1)],
    "ceil": [Case("ceil($.v)", lambda _: 5e-324, 1)],
    "sort": [Case("sort($.v)", make, ITEMS) for make in (NUMBERS, FRACTIONS, WORDS, ALIKE)],
    "min": [Case("min($.v)", make) for make in (NUMBERS, FRACTIONS, WORDS, ALIKE)],
    "max": [Case("max($.v)", make) for make in (NUMBERS, FRACTIONS, WORDS, ALIKE)],
    "sum": [Case("sum($.v)", make) for make in (NUMBERS, FRACTIONS)],
    "json": [Case("json($.v)", make) for make in _OF_TEXT] + [Case("json($.v)", make, ITEMS) for make in _OF_VALUES],
    "parseJson": [Case("parseJson($.v)", of_json(make)) for make in (*_OF_TEXT, *_OF_VALUES)]
    + [Case("parseJson($.v)", lambda size: "[" + ",".join(["{}"] * size) + "]")],
    "yaml": [Case("yaml($.v)", make) for make in (*_OF_TEXT, LINES, DIGITS, UNDERSCORES, *_OF_VALUES)],
    "parseYaml": [Case("parseYaml($.v)", of_yaml(make), 50_000) for make in (*_OF_TEXT[:3], *_OF_VALUES)]
    + [Case("parseYaml($.v)", lambda size: "[" + "a," * size + "b]", 50_000)],
    "base64": [Case("base64($.v)", make, limits.EXPRESSION_TEXT_CHARS // 6) for make in _OF_TEXT],
    "decodeBase64": [Case("decodeBase64($.v)", lambda size: base64.b64encode(b"x" * size).decode())],
    "now": [Case("now()", ASCII, 1)],
    "time": [Case("time($.v)", lambda _: "2026-05-01T12:00:00+02:00", 1), Case("time($.v)", SPACES)],
    "formatTime": [
        Case("formatTime(0, $.v)", make, limits.NAME_CHARS - 1) for make in (ASCII, texts("%c"), texts("%%"))
    ],
}
OPERATORS = [
    *(Case("$.v + $.v", make, limits.EXPRESSION_TEXT_CHARS // 2) for make in _OF_TEXT),
    Case("length($.v + $.v)", NUMBERS, ITEMS // 2),
    *(Case("$.v == $.other", make) for make in (ASCII, *_OF_VALUES)),
    *(Case("$.v < $.other", make) for make in (ASCII, EMOJI)),
    *(Case("'xy' in $.v", make) for make in (ASCII, EMOJI)),
    *(Case("-1 in $.v", make) for make in _OF_VALUES),
    *(Case(f"'{each}' in $.v", ASCII) for each in _NEARLY),
    Case(f"$.v + 'yx' in $.v + '{'x' * 1_990}'", ASCII),
    Case("$.v in $.small", ASCII),
    Case("$.small[$.v] == 1", ASCII),
    Case("$.v == $.other", lambda size: {f"{n} {'x' * size}": n for n in range(10)}, 100_000),
]
PATHS = [
    *(Case("{$.v}", make) for make in (ASCII, *_OF_VALUES)),
    *(Case("{$.v.*}", make) for make in _OF_VALUES),
    *(Case("{$.v.*.a}", make) for make in (MAPS, DEEP)),
    *(Case("{$..b}", make) for make in (MAPS, DEEP)),
    *(Case("x {$.v}", make) for make in (ASCII, NUMBERS, WORDS, MAPS, MAP)),
]


def slowness() -> float:
    """Return how much slower than the machine of the table this one is now."""
    found = []
    for _ in range(3):
        begun = time.process_time_ns()
        total = 0
        for number in range(_LOOP_ROUNDS):
            total += number & 7
        found.append(time.process_time_ns() - begun)
    return min(found) / _LOOP_NS


def evaluated(template: Template, scope: Scope, budget: EvaluationBudget) -> bool:
    """Return whether there is a value; what fails takes time as well."""
    try:
        template.evaluate(scope, budget)
    except ExpressionError:
        return False
    return True


def measured_ns(template: Template, scope: Scope) -> float:
    """Return the processor's time of one evaluation: the best of some."""
    best, all_ns = float("inf"), 0.0
    for _ in range(1_000):
        begun = time.process_time_ns()
        evaluated(template, scope, EvaluationBudget())
        taken = time.process_time_ns() - begun
        best, all_ns = min(best, taken), all_ns + taken
        if all_ns > _SHORTEST_NS:
            break
    return best


def too_cheap(template: Template, case: Case, most_ns: float, most: int = limits.EXPRESSION_TEXT_CHARS) -> list[str]:
    """Return the sizes at which the case costs less in the table than it takes."""
    found: list[str] = []
    size, largest = 1, min(most, case.most if isinstance(case.make(1), str) else ITEMS)
    while True:
        value = case.make(size)
        other = json.loads(json.dumps(value)) if "$.other" in case.text else None
        scope = Scope({"v": value, "other": other, "small": {"a": 1}})
        budget = EvaluationBudget()
        begun = time.process_time_ns()
        has_value = evaluated(template, scope, budget)
        taken = time.process_time_ns() - begun
        times = taken / slowness() / budget.spent_ns
        for _ in range(4):  # another program may have come between
            if taken > _SHORTEST_NS and times < TOO_CHEAP:
                break
            taken = _SHORTEST_NS + 1
            times = measured_ns(template, scope) / slowness() / budget.spent_ns
        if times >= TOO_CHEAP:
            found.append(f"{case.text[:60]} of {size}: {times:.1f} times the charge of {budget.spent_ns:.0f} ns")
        if size == largest or budget.spent_ns > most_ns or not has_value:
            return found
        size = min(largest, 8 * size, int(1.1 * size * most_ns / budget.spent_ns) + 1)  # the last is hardly too large


def found_in(cases: list[Case], compiled: Callable[[str], Template], *bounds: int) -> list[str]:
    return [line for case in cases for line in too_cheap(compiled(case.text), case, *bounds)]


def test_every_function_has_a_case() -> None:
    assert set(CASES) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_is_cheaper_in_the_table_than_in_truth(name: str) -> None:
    assert [
        line for case in CASES[name] for line in too_cheap(compile_condition(case.text), case, _QUICK_NS, _QUICK_SIZE)
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_is_cheaper_in_the_table_up_to_its_bound(name: str) -> None:
    *others, last = CASES[name]
    assert found_in([last], compile_condition, _LONGEST_NS) + found_in(others, compile_condition, _SLOW_NS) == []


def test_no_operator_is_cheaper_than_in_truth() -> None:
    assert [
        line for case in OPERATORS for line in too_cheap(compile_condition(case.text), case, _QUICK_NS, _QUICK_SIZE)
    ] == []


def test_no_path_and_no_string_is_cheaper_than_in_truth() -> None:
    assert [
        line for case in PATHS for line in too_cheap(compile_template(case.text), case, _QUICK_NS, _QUICK_SIZE)
    ] == []
