"""Operators and functions in expressions (docs/reference/manifest/expressions.md, "Operators and functions")."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.expressions import compile_condition, compile_template
from launchbay.manifest.formulas import FUNCTIONS
from launchbay.manifest.paths import MalformedExpression, Scope

ROOT = Path(__file__).parents[2]
VARIABLES: dict[str, Any] = {
    "port": 80,
    "half": 0.5,
    "name": "web",
    "on": True,
    "off": False,
    "nothing": None,
    "names": ["b", "a"],
    "hosts": {"one": {"ip": "10.0.0.1"}, "two": {"ip": "10.0.0.2"}},
    "odd key": 3,
    "a-b": 7,
}


def value(text: str, **variables: Any) -> Any:
    return compile_condition(text).evaluate(Scope({**VARIABLES, **variables}, {"step": {"inner": 5}}, 1_700_000_000))[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.port + 1", 81),
        ("$.port - 1 - 1", 78),
        ("2 + 3 * 4 - 1", 13),
        ("(2 + 3) * 4", 20),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("7 % 4", 3),
        ("-$.port + 1", -79),
        ("1.5e2", 150.0),
        ("$.name + '-' + text($.port)", "web-80"),
        ("$.names + ['c']", ["b", "a", "c"]),
        ("$.port == 80", True),
        ("$.port == 80.0", True),
        ("$.port == '80'", False),
        ("$.on == 1", False),
        ("$.nothing == null", True),
        ("$.missing == null", True),
        ("$.names == ['b', 'a']", True),
        ("$.hosts.one != $.hosts.two", True),
        ("$.port >= 80 && $.port < 81", True),
        ("$.off || $.name > 'v'", True),
        ("!$.off", True),
        ("$.on && $.off || true", True),
        ("$.off && $.nothing", False),
        ("'a' in $.names", True),
        ("'one' in $.hosts", True),
        ("'e' in $.name", True),
        ("!('x' in $.names)", True),
        ("$.on ? 'yes' : 'no'", "yes"),
        ("$.off ? 1 : $.on ? 2 : 3", 2),
        ("[1, $.port, []]", [1, 80, []]),
        ("$['odd key'] * 2", 6),
        ("$.a-b - 1", 6),
        ("$.step~inner", 5),
        ("$.hosts.*.ip", ["10.0.0.1", "10.0.0.2"]),
        ("$.hosts[$.off ? 'one' : 'two'].ip", "10.0.0.2"),
        ("$.names[length($.names) - 1]", "a"),
        ("split('a,b')[1]", "b"),
        (r"'it\'s' + \"\n\"".replace('\\"', '"'), "it's\n"),
    ],
)
def test_operators_give(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("length($.hosts) + length($.names) + length($.name)", 7),
        ("default($.missing, 'x')", "x"),
        ("default($.off, true)", False),
        ("text(null) + text(true) + text([1])", "true[1]"),
        ("number(' 80 ') + number('-1.5')", 78.5),
        ("join($.names)", "b,a"),
        ("join([1, true, 'x'], '-')", "1-true-x"),
        ("split('a-b', '-')", ["a", "b"]),
        ("upper(lower('Ab') + trim(' c '))", "ABC"),
        ("replace('aXbX', 'X', '--')", "a--b--"),
        ("matches('web-12', '^web-[0-9]+$')", True),
        ("match('web-12', '([a-z]+)-([0-9]+)')", ["web-12", "web", "12"]),
        ("match('web', '[0-9]')", None),
        ("keys($.hosts)", ["one", "two"]),
        ("values($.hosts)[0].ip", "10.0.0.1"),
        ("range(3)", [0, 1, 2]),
        ("range($.port * 0.025)", [0, 1]),
        ("$.names[0.5 * 2]", "a"),
        ("[round(2.5), round(-2.5), round(0.49999999999999994), round(7)]", [3, -3, 0, 7]),
        ("[floor(-2.5), ceil(-2.5), floor(2.5), ceil(2.5), floor(-5e-324)]", [-3, -2, 2, 3, -1]),
        ("text(ceil(7 / 2)) + text(round(2.0))", "42"),
        ("sort($.names)", ["a", "b"]),
        ("[min([2, 1]), max(['a', 'b']), max([])]", [1, "b", None]),
        ("sum([1, 2.5])", 3.5),
        ("json($.hosts.one)", '{"ip": "10.0.0.1"}'),
        ("parseJson('{\"a\": [1]}').a[0]", 1),
        ("parseYaml(yaml($.hosts)) == $.hosts", True),
        ("decodeBase64(base64('häh'))", "häh"),
        ("now()", 1_700_000_000_000),
        ("time('2026-05-01T12:00:00+02:00') == time('2026-05-01T10:00:00Z')", True),
        ("formatTime(time('2026-05-01'), '%d.%m.%Y')", "01.05.2026"),
        ("formatTime(0)", "1970-01-01T00:00:00Z"),
    ],
)
def test_functions_give(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$.name + 1", "+ can't add text and a number"),
        ("$.name * 2", "* needs numbers, not text. Convert text with number()."),
        ("$.on + $.on", "+ can't add true or false and true or false"),
        ("$.name < 1", "< can't compare text with a number"),
        ("$.nothing && true", "&& needs true or false, not null"),
        ("$.nothing ? 1 : 2", "? needs true or false, not null"),
        ("1 / 0", "Division by zero"),
        ("1 % 0", "Division by zero"),
        ("9223372036854775807 + 1", "too large"),
        ("1e308 * 10", "too large"),
        ("1 in 2", "in can't look for a number in a number"),
        ("$.names[$.name]", "can't take item text of a list"),
        ("length(1)", "length() needs a list, a map or text, not a number"),
        ("lower(1)", "lower() needs text, not a number"),
        ("number('eighty')", "number() needs text with a number"),
        ("sort([1, 'a'])", "sort() needs a list of texts or a list of numbers"),
        ("parseJson('{')", "parseJson(): the text isn't JSON"),
        ("parseJson('NaN')", "isn't JSON"),
        ("parseYaml('a: [')", "parseYaml(): "),
        ("decodeBase64('?')", "decodeBase64() needs base64"),
        ("matches('a', '(')", "Invalid regular expression"),
        ("time('noon')", "time() needs a time"),
        ("formatTime(1e300)", "formatTime() needs milliseconds"),
        ("range(-1)", "range() needs a whole number"),
        ("range(2.5)", "range() needs a whole number"),
        ("$.names[0.5]", "can't take item a number of a list; use a whole number"),
        ("round('2.5')", "round() needs a number, not text"),
        ("floor(1e19)", "too large"),
        ("split('a', '')", "separator"),
    ],
)
def test_what_cannot_be_computed_says_why(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)) as caught:
        value(text)
    assert str(caught.value).startswith(text)


def test_no_message_shows_a_value() -> None:
    yaml = ("parseYaml($.secret + ': 1\\n' + $.secret + ': 2')", "parseYaml('*' + $.secret)")
    for text in ("$.secret * 2", "number($.secret)", "$.secret < 1", "lower($.all)", "parseJson($.secret)", *yaml):
        with pytest.raises(ExpressionError) as caught:
            value(text, secret="hunter2", all=["hunter2"])
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem", "offset"),
    [
        ("", "expected a value", 0),
        ("1 +", "expected a value", 3),
        ("1 1", "expected an operator", 2),
        ("port > 1", "unknown function 'port'; variables start with $.", 0),
        ("sqrt(2)", "unknown function 'sqrt'", 0),
        ("length()", "expected 1 arguments of length, found 0", 8),
        ("$.a ? 1", "expected :", 7),
        ("[1, 2", "expected ,", 5),
        ("'open", "expected a value", 0),
        ("1 < 2 < 3", "expected an operator", 6),
        ("08", "expected a value", 0),
        ("(" * 60 + "1" + ")" * 60, "at most 50 levels", 25),
        ("-" * 60 + "1", "at most 50 levels", 49),
        (" + ".join(["1"] * 301), "at most 300 values", 1200),
        ("99999999999999999999", "too large", 0),
    ],
)
def test_malformed_formulas_are_refused_with_the_offset(text: str, problem: str, offset: int) -> None:
    with pytest.raises(MalformedExpression, match=re.escape(problem)) as caught:
        compile_condition(text)
    assert caught.value.offset == offset


def test_formulas_stand_in_strings_as_paths_do() -> None:
    tree = {
        "whole": "{$.port + 1}",
        "function": "{$= length($.names) }",
        "text": "port {$.port + 1}, {$=upper($.name)}",
        "list": "x{$=sort($.names)}",
        "brace": "{$='}' + \"{\"}",
        "shell": "${X:-1} {$(date)} {$}",
    }
    found, warnings = compile_template(tree).evaluate(Scope(VARIABLES))
    assert found == {
        "whole": 81,
        "function": 2,
        "text": "port 81, WEB",
        "list": ["xa", "xb"],
        "brace": "}{",
        "shell": "${X:-1} {$(date)} {$}",
    }
    assert warnings == ()
    assert compile_template(tree).variables == {"port", "names", "name"}


@pytest.mark.parametrize(
    "text",
    [
        "join(range(10000), $.long)",
        "replace($.long, 'x', $.long)",
        "$.long + $.long + $.long + $.long + $.long + $.long + $.long + $.long + $.long + $.long + $.long",
        "range(10000000)",
        "[" + ", ".join(["json($.big)"] * 200) + "]",
        "[" + ", ".join(["$.big == $.other"] * 200) + "]",
        "[" + ", ".join(["-1 in $.big"] * 200) + "]",
        "length(parseYaml($.bomb))",
    ],
)
def test_work_and_memory_are_bounded(text: str) -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
    )
    variables = {"long": "x" * (limits.EXPRESSION_TEXT_CHARS // 10), "big": list(range(5_000)), "bomb": bomb}
    with pytest.raises(ExpressionError):
        value(text, **variables, other=list(range(5_000)))


def test_a_regular_expression_cannot_run_for_long() -> None:
    assert value("matches($.long, '^(a+)+$')", long="a" * 50_000 + "b") is False


def test_each_function_is_described_on_the_page() -> None:
    described = (ROOT / "docs/reference/manifest/expressions.md").read_text()
    assert [name for name in FUNCTIONS if f"`{name}(" not in described] == []


_DIGITS = "5" * 5_000
_AWKWARD: tuple[Any, ...] = (
    None,
    True,
    0,
    -(2**63),
    2**64 - 1,
    1e308,
    -0.5,
    "",
    _DIGITS,
    f"-{_DIGITS}",
    f"1e{_DIGITS}",
    "1e999",
    f"0.{_DIGITS}",
    "\ud800",
    "\\ud800",
    '"\\ud800"',
    '["\\udfff\\ud800", "\\ud83d\\ude00"]',
    "\x00",
    "%Y%\ud800",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "[" * 2_000,
    "{a: [1, *b]}",
    f"[{_DIGITS}, 1e999, .inf, .nan]",
    "NaN",
    "(?P<x>a)|\\xff{1000}",
    "(",
    [],
    ["\ud800", "a"],
    [1, 2.5, 2**64],
    [None, {"a": [True]}],
    {},
    {"\ud800": "\ud800", "": [1e308, 1e308]},
)
_VALUE = st.sampled_from(_AWKWARD) | st.text(max_size=20) | st.floats(allow_nan=False) | st.integers()


def test_any_function_of_any_values_gives_json_or_an_expression_error() -> None:
    """Each function with each awkward value in each place, and beside each other one."""
    for name, function in FUNCTIONS.items():
        for count in range(function.least, function.most + 1):
            templates = [
                compile_condition(f"{name}({', '.join('$.' + 'ab'[(place + turn) % 2] for place in range(count))})")
                for turn in range(2)
            ]
            for first in _AWKWARD:
                for second in _AWKWARD[::3] if count > 1 else (first,):
                    for template in templates:
                        with suppress(ExpressionError):
                            template.evaluate(Scope({"a": first, "b": second}))


@given(st.sampled_from(["+", "-", "*", "/", "%", "==", "<", "in", "&&"]), _VALUE, _VALUE)
def test_any_operator_of_any_values_gives_a_value_or_an_expression_error(operator: str, left: Any, right: Any) -> None:
    scope = Scope({"a": left, "b": right})
    for text in (f"$.a {operator} $.b", "$.a[$.b]", "-$.a", "!$.b", "$.a ? 1 : 2"):
        with suppress(ExpressionError):
            compile_condition(text).evaluate(scope)
    with suppress(ExpressionError):
        compile_template(["x {$.a} {$.b}", "{$..a}", "{$.b.*}"]).evaluate(scope)


@pytest.mark.parametrize(
    "text", [_DIGITS, f"-{_DIGITS}", f"$.names[{_DIGITS}]", f"$.names[-{_DIGITS}]", f"1e{_DIGITS}", f"[1, {_DIGITS}]"]
)
def test_literals_of_thousands_of_digits_are_malformed(text: str) -> None:
    with pytest.raises(MalformedExpression, match="too large"):
        compile_condition(text)
    with pytest.raises(MalformedExpression):
        compile_template(f"{{$= {text} }}")


@pytest.mark.parametrize(
    "text",
    [
        "number($.digits)",
        "parseJson($.digits)",
        "parseJson('[1e999]')",
        "parseJson($.half)",
        "matches($.lone, 'a')",
        "matches('a', $.lone)",
        "parseYaml($.lone)",
        "base64($.lone)",
        "text([$.infinite])",
    ],
)
def test_what_is_no_json_value_never_comes_out_of_a_function(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text, digits=_DIGITS, half='"\\ud800"', lone="\ud800", infinite=float("inf"))


def test_pairs_of_surrogates_are_one_character() -> None:
    assert value("parseJson($.pair)", pair='"\\ud83d\\ude00"') == "\U0001f600"
