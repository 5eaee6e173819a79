"""Operators and functions in expressions: `{$.port + 1}`, `{$= length($.hosts) > 3}` (manifest.md, "Operators").

A recursive-descent parser makes a tree; each node evaluates itself. Nothing here loops over a program: the work grows
with the expression and its values. Everything charges an `EvaluationBudget` before it works, functions what the table
`FUNCTIONS` says. Functions are pure, so that a repetition after a crash gives the same result, and so does one in
another process; `now()` is when the job was accepted. Regular expressions run in RE2, in linear time.

Types are strict: `"80" == 80` is false, and `"80" + 1` an error that names `number()`.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from sys import getsizeof
from typing import Any, NamedTuple, NoReturn

import re2

from launchbay import limits
from launchbay.errors import ExpressionError, InvalidManifest
from launchbay.manifest.budget import CHAR_NS, ITEM_BYTES, ITEM_NS, EvaluationBudget
from launchbay.manifest.paths import (
    NOTHING,
    Path,
    Scope,
    is_list,
    malformed,
    parse_path_at,
)
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.yaml_text import yaml_text

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*+)(\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])")
_STRING = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATOR = re.compile(r"\|\||&&|==|!=|<=|>=|<|>|\+|-|\*|/|%|\?|!|in\b")
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">", "in")
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_DEPTH = 50
_VALUES = 300  # in one expression, so that its evaluation doesn't nest too deep
_INTEGER_MAX = 2**63 - 1
_DIGITS_MAX = 20  # of a whole number, with its sign
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_REPETITION = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_LARGE_CLASS = re.compile(r"\\[pPDSW]|\[\^|\.|\(\?[a-z]*i")
_REGEX_REPEATED_MAX = 1_000  # RE2 refuses more
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_UTF8_BYTES = 4  # of one character, at most


@dataclass(slots=True)
class _Run:
    """One evaluation."""

    scope: Scope
    budget: EvaluationBudget

    def text(self, value: str) -> str:
        """Count a string that was made."""
        self.chars(len(value))
        return value

    def chars(self, count: int) -> None:
        """Count the characters of a string that will be made."""
        if count > limits.EXPRESSION_TEXT_CHARS:
            raise ExpressionError(f"An expression makes more than {limits.EXPRESSION_TEXT_CHARS} characters.")
        self.budget.chars(count)

    def items(self, count: int) -> None:
        """Count the items of a list that will be made."""
        if count > limits.EXPRESSION_RESULT_ITEMS:
            raise ExpressionError(f"An expression makes more than {limits.EXPRESSION_RESULT_ITEMS} items.")
        self.budget.items(count)


_Evaluate = Callable[[_Run], Any]


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression with operators or functions.

    `text` is the expression as written, and `paths` those in it. `tokens` are its parts without the spaces, with one
    form of each literal: formulas of the same ones are equal.
    """

    text: str = field(compare=False)
    paths: tuple[Path, ...] = field(compare=False)
    tokens: tuple[Any, ...]
    _evaluate: _Evaluate = field(compare=False)

    def __reduce__(self) -> tuple[Callable[[str], "Formula"], tuple[str]]:
        """Let another process compile the text again: closures can't be sent."""
        return _parse_again, (self.text,)

    @property
    def meaning(self) -> list[Any]:
        """The formula as plain data, apart from how it is written."""
        return ["formula", *(each.meaning if isinstance(each, Path) else each for each in self.tokens)]

    @property
    def variables(self) -> frozenset[str]:
        """Return the variables that the paths start at."""
        return frozenset().union(*(path.variables for path in self.paths))

    def resolve(self, scope: Scope, budget: EvaluationBudget) -> Any:
        """Return the value, which may share data with the scope. Raises `ExpressionError`."""
        budget.expression = self.text
        try:
            return self._evaluate(_Run(scope, budget))
        except ExpressionError as error:
            shown = self.text if len(self.text) <= 100 else f"{self.text[:100]}…"
            raise ExpressionError(f"{shown}: {error}") from error
        except RecursionError:
            raise ExpressionError(f"A value in an expression has more than {limits.JSON_DEPTH} levels.") from None


def parse_formula(text: str, start: int, at: int, end: str = "}") -> tuple[Formula, int]:
    """Return the formula whose text begins at `at`, and the offset after its `end`.

    `start` is where the expression begins in the text. Raises `MalformedExpression`.
    """
    parser = _Parser(text, start, at)
    evaluate = parser.expression()
    parser.expect(end)
    return Formula(text[start : parser.at], tuple(parser.paths), tuple(parser.tokens), evaluate), parser.at


def parse_condition(text: str) -> Formula:
    """Return the formula that a whole string is, without braces. Raises `MalformedExpression`."""
    parser = _Parser(text, 0, 0)
    evaluate = parser.expression()
    parser.expect("")
    return Formula(text.strip(), tuple(parser.paths), tuple(parser.tokens), evaluate)


def _parse_again(text: str) -> Formula:
    """Return the formula that was written so, in braces or as a condition without them."""
    if not text.startswith("{"):
        return parse_condition(text)
    return parse_formula(text, 0, len("{$=") if text.startswith("{$=") else len("{"))[0]


class _Parser:
    def __init__(self, text: str, start: int, at: int) -> None:
        self.text = text
        self.start = start
        self.at = at
        self.paths: list[Path] = []
        self.tokens: list[Any] = []
        self._depth = 0
        self._values = 0

    def expect(self, end: str) -> None:
        """Pass over the end of the expression."""
        self._skip()
        if (self.at < len(self.text)) if not end else not self.text.startswith(end, self.at):
            self._fail(f"expected an operator or {end}" if end else "expected an operator or the end")
        self.at += len(end)

    def expression(self) -> _Evaluate:
        """Parse an expression, the `? :` first."""
        self._depth += 1
        if self._depth > _DEPTH:
            self._fail(f"expected at most {_DEPTH} levels")
        condition = self._any()
        if self._take("?"):
            chosen = self.expression()
            self._need(":")
            other = self.expression()
            condition = _choice(condition, chosen, other)
        self._depth -= 1
        return condition

    def _any(self) -> _Evaluate:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda run: any(_flag(part(run), "||") for part in parts)

    def _all(self) -> _Evaluate:
        parts = [self._comparison()]
        while self._take("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda run: all(_flag(part(run), "&&") for part in parts)

    def _comparison(self) -> _Evaluate:
        left = self._sum()
        operator = self._take(*_COMPARISONS)
        if operator is None:
            return left
        right = self._sum()
        compare = _COMPARE[operator]
        return lambda run: compare(left(run), right(run), run)

    def _sum(self) -> _Evaluate:
        left = self._product()
        while (operator := self._take("+", "-")) is not None:
            left = _applied(_ARITHMETIC[operator], left, self._product())
        return left

    def _product(self) -> _Evaluate:
        left = self._unary()
        while (operator := self._take("*", "/", "%")) is not None:
            left = _applied(_ARITHMETIC[operator], left, self._unary())
        return left

    def _unary(self) -> _Evaluate:
        self._depth += 1
        if self._depth > _DEPTH:
            self._fail(f"expected at most {_DEPTH} levels")
        try:
            if self._take("!"):
                inner = self._unary()
                return lambda run: not _flag(inner(run), "!")
            if self._take("-"):
                negated = self._unary()
                return lambda run: _number(-_numeric(negated(run), "-"))
            return self._postfix()
        finally:
            self._depth -= 1

    def _postfix(self) -> _Evaluate:
        value = self._primary()
        while True:
            if self._take_text("["):
                value = _item(value, self.expression())
                self._need("]")
            elif self.text.startswith(".", self.at) and (name := _NAME.match(self.text, self.at + 1)):
                self.at = name.end()
                self.tokens.append((".", name[0]))
                value = _entry(value, name[0])
            else:
                return value

    def _primary(self) -> _Evaluate:
        self._skip()
        self._values += 1
        if self._values > _VALUES:
            self._fail(f"expected at most {_VALUES} values in one expression")
        if self.text.startswith("$", self.at):
            path, self.at = parse_path_at(self.text, self.start, self.at + 1)
            self.paths.append(path)
            self.tokens.append(path)
            return _path(path)
        return self._group() or self._literal() or self._call()

    def _group(self) -> _Evaluate | None:
        if self._take_text("("):
            inner = self.expression()
            self._need(")")
            return inner
        if self._take_text("["):
            items = self._list("]")
            return _listed(items)
        return None

    def _literal(self) -> _Evaluate | None:
        if number := _NUMBER.match(self.text, self.at):
            return self._constant(number, self._read_number(number))
        if string := _STRING.match(self.text, self.at):
            written = string[1] if string[2] is None else string[2]
            return self._constant(string, _ESCAPE.sub(lambda each: _ESCAPES.get(each[1], each[1]), written))
        return None

    def _constant(self, match: re.Match[str], value: Any) -> _Evaluate:
        self.at = match.end()
        self.tokens.append(("=", json.dumps(value)))
        return lambda _: value

    def _read_number(self, match: re.Match[str]) -> Any:
        try:
            return _read_number(match[0])
        except ExpressionError as error:
            return self._fail(str(error))

    def _call(self) -> _Evaluate:
        name = _NAME.match(self.text, self.at)
        if name is None:
            self._fail("expected a value, such as $.name, 'text', 1 or length($.list)")
        if name[0] in _CONSTANTS:
            return self._constant(name, _CONSTANTS[name[0]])
        function = FUNCTIONS.get(name[0])
        if function is None:
            self._fail(f"unknown function {name[0][:50]!r}; variables start with $., functions are {_NAMES}")
        self.at = name.end()
        self.tokens.append(name[0])
        self._need("(")
        arguments = self._list(")")
        if not function.least <= len(arguments) <= function.most:
            count = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
            self._fail(f"expected {count} arguments of {name[0]}, found {len(arguments)}")
        return _called(name[0], function, arguments)

    def _list(self, end: str) -> list[_Evaluate]:
        items: list[_Evaluate] = []
        if self._take_text(end):
            return items
        while True:
            items.append(self.expression())
            if self._take_text(end):
                return items
            self._need(",")

    def _need(self, text: str) -> None:
        if not self._take_text(text):
            self._fail(f"expected {text}")

    def _take_text(self, text: str) -> bool:
        self._skip()
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        self.tokens.append(text)
        return True

    def _take(self, *wanted: str) -> str | None:
        self._skip()
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None or operator[0] not in wanted:
            return None
        self.at = operator.end()
        self.tokens.append(operator[0])
        return operator[0]

    def _skip(self) -> None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None
        self.at = space.end()

    def _fail(self, problem: str) -> NoReturn:
        malformed(problem, self.text, self.at, self.start)


def _path(path: Path) -> _Evaluate:
    def evaluate(run: _Run) -> Any:
        found = path.resolve(run.scope, run.budget)
        return None if found is NOTHING else found

    return evaluate


def _listed(items: Sequence[_Evaluate]) -> _Evaluate:
    def evaluate(run: _Run) -> Any:
        run.items(len(items))
        return [item(run) for item in items]

    return evaluate


def _choice(condition: _Evaluate, chosen: _Evaluate, other: _Evaluate) -> _Evaluate:
    return lambda run: chosen(run) if _flag(condition(run), "?") else other(run)


def _applied(operation: Callable[[Any, Any, _Run], Any], left: _Evaluate, right: _Evaluate) -> _Evaluate:
    return lambda run: operation(left(run), right(run), run)


def _entry(value: _Evaluate, name: str) -> _Evaluate:
    def evaluate(run: _Run) -> Any:
        found = value(run)
        return found.get(name) if isinstance(found, Mapping) else None

    return evaluate


def _item(value: _Evaluate, index: _Evaluate) -> _Evaluate:
    def evaluate(run: _Run) -> Any:
        found, at = value(run), index(run)
        if isinstance(found, Mapping) and isinstance(at, str):
            return found.get(_hashed(at, run))
        place = _as_whole(at)
        if is_list(found) and place is not None:
            return found[place] if -len(found) <= place < len(found) else None
        raise ExpressionError(
            f"can't take item {kind(at)} of {kind(found)}; use a whole number in a list, a key in a map."
        )

    return evaluate


def _called(name: str, function: "_Function", arguments: Sequence[_Evaluate]) -> _Evaluate:
    def evaluate(run: _Run) -> Any:
        values = [argument(run) for argument in arguments]
        try:
            function.cost.charge(run.budget, values)
            return function.call(run, *values)
        except _WrongArgument as error:
            raise ExpressionError(f"{name}() needs {error.wanted}, not {kind(error.value)}.") from None

    return evaluate


def kind(value: Any) -> str:
    """Return what a value is, for messages: the value itself may be a secret."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if is_list(value) else "a map"


def _flag(value: Any, operator: str) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"{operator} needs true or false, not {kind(value)}. Compare it, or use default().")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_whole(value: Any) -> int | None:
    """Return a whole number, also one such as 2.0, as an int, or None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _numeric(value: Any, operator: str) -> Any:
    if not _is_number(value):
        raise ExpressionError(f"{operator} needs numbers, not {kind(value)}. Convert text with number().")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError("The number is too large.")
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        raise ExpressionError("The whole number is too large. Use at most 64 bits.")
    return value


def _read_number(text: str) -> Any:
    """Return the number that a text in JSON's form is."""
    try:
        return _number(json.loads(text))
    except ValueError:  # Python reads no whole number of thousands of digits
        raise ExpressionError("The whole number is too large. Use at most 64 bits.") from None


def _add(left: Any, right: Any, run: _Run) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        run.chars(len(left) + len(right))
        run.budget.charge((len(left) + len(right)) * CHAR_NS, getsizeof(left) + getsizeof(right))
        return left + right
    if is_list(left) and is_list(right):
        run.items(len(left) + len(right))
        return [*left, *right]
    if _is_number(left) and _is_number(right):
        return _number(left + right)
    raise ExpressionError(
        f"+ can't add {kind(left)} and {kind(right)}. Convert with text() or number(), or give both the same type."
    )


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise ExpressionError("Division by zero.")
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise ExpressionError("Division by zero.")
    return left % right


def _on_numbers(operator: str, operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any, _Run], Any]:
    def apply(left: Any, right: Any, run: _Run) -> Any:  # noqa: ARG001 - other operators make text, and count it
        try:
            return _number(operation(_numeric(left, operator), _numeric(right, operator)))
        except OverflowError:
            raise ExpressionError("The number is too large.") from None

    return apply


_ARITHMETIC: Mapping[str, Callable[[Any, Any, _Run], Any]] = {
    "+": _add,
    "-": _on_numbers("-", lambda left, right: left - right),
    "*": _on_numbers("*", lambda left, right: left * right),
    "/": _on_numbers("/", _divide),
    "%": _on_numbers("%", _remainder),
}


def equal(left: Any, right: Any, budget: EvaluationBudget) -> bool:
    """Compare two JSON values: 1 and 1.0 are equal, 1 and true are not."""
    budget.items(1)
    if isinstance(left, str) and isinstance(right, str):
        budget.charge(min(len(left), len(right)) * CHAR_NS)
        return left == right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        budget.items(len(left))
        budget.charge(sum(map(len, left)) * CHAR_NS)
        return left.keys() == right.keys() and all(equal(left[key], right[key], budget) for key in left)
    if is_list(left) and is_list(right):
        return len(left) == len(right) and all(
            equal(one, other, budget) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _find_ns(whole: str, sought: str) -> float:
    """Return what it costs at most to find a string wherever it is.

    Python compares at each place, up to all of what is sought, where it expects that to be quick: in short strings, and
    at the last places for a long one. Elsewhere it takes linear time.
    """
    length, size = len(whole), len(sought)
    places = max(0, length - size + 1)
    if length >= _FIND_SHORT_CHARS and (size >= _FIND_FEW_CHARS or length >= _FIND_MIDDLE_CHARS):
        places = min(places, _FIND_LAST_PLACES) if size * 3 >= length else 0
    return (length + size) * _FIND_NS + places * size * _FIND_COMPARE_NS


def _hashed(text: str, run: _Run) -> str:
    """Charge for the hash of a key."""
    run.budget.charge(len(text) * CHAR_NS)
    return text


def _contains(item: Any, whole: Any, run: _Run) -> bool:
    run.budget.charge(ITEM_NS)
    if isinstance(whole, Mapping):
        return isinstance(item, str) and _hashed(item, run) in whole
    if is_list(whole):
        return any(equal(item, each, run.budget) for each in whole)
    if isinstance(whole, str) and isinstance(item, str):
        run.budget.charge(_find_ns(whole, item))
        return item in whole
    raise ExpressionError(f"in can't look for {kind(item)} in {kind(whole)}; use a list, a map or text.")


def _ordered(operator: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, _Run], bool]:
    def apply(left: Any, right: Any, run: _Run) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            run.budget.charge(min(len(left), len(right)) * CHAR_NS)
            return compare(left, right)
        if _is_number(left) and _is_number(right):
            return compare(left, right)
        raise ExpressionError(f"{operator} can't compare {kind(left)} with {kind(right)}. Convert text with number().")

    return apply


_COMPARE: Mapping[str, Callable[[Any, Any, _Run], bool]] = {
    "==": lambda left, right, run: equal(left, right, run.budget),
    "!=": lambda left, right, run: not equal(left, right, run.budget),
    "<": _ordered("<", lambda left, right: left < right),
    "<=": _ordered("<=", lambda left, right: left <= right),
    ">": _ordered(">", lambda left, right: left > right),
    ">=": _ordered(">=", lambda left, right: left >= right),
    "in": _contains,
}


class _WrongArgument(Exception):
    def __init__(self, wanted: str, value: Any) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.value = value


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongArgument("text", value)
    return value


def _as_list(value: Any) -> Sequence[Any]:
    if not is_list(value):
        raise _WrongArgument("a list", value)
    found: Sequence[Any] = value
    return found


def _as_map(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _WrongArgument("a map", value)
    return value


def _length(run: _Run, value: Any) -> int:  # noqa: ARG001 - see _Function
    if isinstance(value, str | Mapping) or is_list(value):
        return len(value)
    raise _WrongArgument("a list, a map or text", value)


def _text(run: _Run, value: Any) -> str:
    return value if isinstance(value, str) else run.text(encoded(value))


def encoded(value: Any) -> str:
    """Return a value as text: null is empty, other values are JSON.

    `JSON_COST` must be charged before. Raises `ExpressionError`.
    """
    if value is None:
        return ""
    try:
        text = int.__repr__(value) if type(value) is int else _ENCODER.encode(value)
    except (TypeError, ValueError):
        raise ExpressionError("A value isn't a JSON value.") from None
    return text


def _json(run: _Run, value: Any) -> str:
    return run.text("null" if value is None else encoded(value))


def _to_number(run: _Run, value: Any) -> Any:  # noqa: ARG001 - see _Function
    if _is_number(value):
        return value
    text = _as_text(value).strip()
    if _NUMBER.fullmatch(text.removeprefix("-")):
        return _read_number(text)
    raise ExpressionError("number() needs text with a number, such as '80' or '-1.5'.")


def _join(run: _Run, items: Any, separator: Any = ",") -> str:
    between = _as_text(separator)
    length = len(between) * max(0, len(_as_list(items)) - 1)
    texts = []
    for item in items:
        if isinstance(item, str):
            text = item
        else:
            if type(item) is not int:
                run.budget.charge(_ENCODE_NS)
                JSON_COST.charge(run.budget, (item,))
            text = encoded(item)
        texts.append(text)
        length += len(text)
        if length > limits.EXPRESSION_TEXT_CHARS:
            raise ExpressionError(f"join() makes more than {limits.EXPRESSION_TEXT_CHARS} characters.")
    run.chars(length)
    run.budget.charge(length * CHAR_NS, length * _UTF8_BYTES)
    return between.join(texts)


def _split(run: _Run, value: Any, separator: Any = ",") -> list[Any]:
    if not _as_text(separator):
        raise ExpressionError("split() needs a separator that isn't empty.")
    run.budget.charge(2 * _find_ns(_as_text(value), separator))
    count = 1 + _as_text(value).count(separator)
    run.items(count)
    run.budget.charge(0, getsizeof(value) + count * ITEM_BYTES)
    return list(value.split(separator))


def _replace(run: _Run, value: Any, old: Any, new: Any) -> str:
    if not _as_text(old):
        raise ExpressionError("replace() needs a string to replace that isn't empty.")
    text = _as_text(value)
    run.budget.charge(2 * _find_ns(text, old))
    count = text.count(old)
    length = len(text) + count * (len(_as_text(new)) - len(old))
    if length > limits.EXPRESSION_TEXT_CHARS:
        raise ExpressionError(f"replace() makes more than {limits.EXPRESSION_TEXT_CHARS} characters.")
    run.chars(length)
    run.budget.charge(length * CHAR_NS + count * _FOUND_NS, length * _UTF8_BYTES)
    return text.replace(old, new)


def _default(run: _Run, value: Any, other: Any) -> Any:  # noqa: ARG001 - see _Function
    return other if value is None else value


def _parsed_json(run: _Run, value: Any) -> Any:
    text = _as_text(value)
    run.budget.items(text.count(",") + text.count("[") + text.count("{"))
    try:
        found = json.loads(text, parse_constant=_refuse_constant, parse_int=_whole, parse_float=_fraction)
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"parseJson(): the text isn't JSON: {_reason(error)}.") from None
    if _SURROGATE_ESCAPE.search(text):  # otherwise there is none
        JSON_COST.charge(run.budget, (found,))
        if _SURROGATE.search(encoded(found)):
            raise ExpressionError("parseJson(): the text has half of a surrogate pair.")
    return found


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise ValueError("a whole number has more than 64 bits")
    found: int = _number(int(digits))
    return found


def _fraction(digits: str) -> float:
    found: float = _number(float(digits))
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    return "it has too many levels" if isinstance(error, RecursionError) else str(error)


def _yaml(run: _Run, value: Any) -> str:
    return run.text(yaml_text(value))


def _parsed_yaml(run: _Run, value: Any) -> Any:
    text = _as_text(value)
    run.budget.items(text.count("\n") + text.count(","))
    try:
        return plain(read(_utf8(text)))
    except InvalidManifest as error:
        found = error.findings[0]  # its message may contain parts of the text
        raise ExpressionError(
            f"parseYaml(): {found['code']} in line {found['line']}, column {found['column']} of the text."
        ) from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ExpressionError("The text has half of a surrogate pair.") from None


def _base64(run: _Run, value: Any) -> str:
    return run.text(base64.b64encode(_utf8(_as_text(value))).decode())


def _decoded_base64(run: _Run, value: Any) -> str:
    try:
        return run.text(base64.b64decode(_as_text(value), validate=True).decode())
    except (binascii.Error, ValueError):
        raise ExpressionError("decodeBase64() needs base64 of UTF-8 text.") from None


def _regex(run: _Run, pattern: str, *, never_capture: bool) -> Any:
    if len(pattern) > limits.REGEX_CHARS:
        raise ExpressionError(f"A regular expression has more than {limits.REGEX_CHARS} characters.")
    run.budget.charge(_compile_ns(pattern), limits.REGEX_BYTES)
    options = re2.Options()
    options.max_mem = limits.REGEX_BYTES
    options.log_errors = False
    options.never_capture = never_capture
    try:
        regex = re2.compile(_utf8(pattern), options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ExpressionError(f"Invalid regular expression: {shown}.") from None
    if regex.programsize > limits.REGEX_INSTRUCTIONS:
        raise ExpressionError("The regular expression is too large. Repeat less in it.")
    if regex.groups > limits.REGEX_GROUPS:
        raise ExpressionError(f"A regular expression has more than {limits.REGEX_GROUPS} groups. Use (?:…).")
    return regex


def _compile_ns(pattern: str) -> float:
    """Return what it costs to compile a regular expression, with its repetitions."""
    repeated = 1
    for found in _REPETITION.finditer(pattern):
        repeated = min(_REGEX_REPEATED_MAX, repeated * max(1, int(found[1]), int(found[2] or 0)))
    large = len(_LARGE_CLASS.findall(pattern))
    return _COMPILE_NS + repeated * (len(pattern) * _COMPILE_CHAR_NS + large * _COMPILE_CLASS_NS)


def _search(run: _Run, value: Any, pattern: Any, *, never_capture: bool) -> Any:
    """Return the first match in the text as UTF-8, or None."""
    text = _utf8(_as_text(value))
    regex = _regex(run, _as_text(pattern), never_capture=never_capture)
    states = regex.programsize
    run.budget.charge(len(text) * states * (_STATE_NS + regex.groups * _STATE_GROUP_NS))
    return regex.search(text)


def _matches(run: _Run, value: Any, pattern: Any) -> bool:
    return _search(run, value, pattern, never_capture=True) is not None


def _match(run: _Run, value: Any, pattern: Any) -> list[Any] | None:
    found = _search(run, value, pattern, never_capture=False)
    if found is None:
        return None
    groups = (found[0], *found.groups())
    run.items(len(groups))
    size = sum(len(group) for group in groups if group is not None)  # groups within groups repeat their text
    run.budget.charge(size, size * _UTF8_BYTES)
    return [None if group is None else group.decode() for group in groups]


def _now(run: _Run) -> int:
    return run.scope.now_s * 1000


def _time(run: _Run, value: Any) -> int:  # noqa: ARG001 - see _Function
    try:
        moment = datetime.fromisoformat(_as_text(value).strip())
    except (ValueError, OverflowError):
        raise ExpressionError("time() needs a time such as '2026-05-01T12:00:00Z'.") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _format_time(run: _Run, value: Any, pattern: Any = "%Y-%m-%dT%H:%M:%SZ") -> str:
    if not _is_number(value):
        raise _WrongArgument("milliseconds since 1970", value)
    if len(_as_text(pattern)) > limits.NAME_CHARS:
        raise ExpressionError(f"formatTime() takes a format of at most {limits.NAME_CHARS} characters.")
    try:
        return run.text(datetime.fromtimestamp(value / 1000, UTC).strftime(pattern))
    except (ValueError, OverflowError, OSError):
        raise ExpressionError("formatTime() needs milliseconds since 1970 of a year up to 9999.") from None


def _range(run: _Run, count: Any) -> list[Any]:
    whole = _as_whole(count)
    if whole is None or not 0 <= whole <= limits.EXPRESSION_RESULT_ITEMS:
        raise ExpressionError(f"range() needs a whole number from 0 to {limits.EXPRESSION_RESULT_ITEMS}.")
    run.items(whole)
    return list(range(whole))


def _rounded(rounding: str) -> Callable[..., Any]:
    def apply(run: _Run, value: Any) -> Any:  # noqa: ARG001 - see _Function
        if not _is_number(value):
            raise _WrongArgument("a number", value)
        return _number(int(Decimal(value).to_integral_value(rounding)))

    return apply


def _comparable(name: str, items: Any) -> Sequence[Any]:
    found = _as_list(items)
    if not (all(isinstance(item, str) for item in found) or all(map(_is_number, found))):
        raise ExpressionError(f"{name}() needs a list of texts or a list of numbers.")
    return found


def _sorted(run: _Run, items: Any) -> list[Any]:
    found = _comparable("sort", items)
    rounds = len(found).bit_length()
    run.budget.charge(rounds * (len(found) * _COMPARE_NS + _chars(found) * CHAR_NS))
    run.items(len(found))
    return sorted(found)


def _chars(items: Sequence[Any]) -> int:
    return sum(len(item) for item in items if isinstance(item, str))


def _extreme(name: str, choose: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def apply(run: _Run, items: Any) -> Any:
        found = _comparable(name, items)
        run.budget.charge(_chars(found) * CHAR_NS)
        return choose(found) if found else None

    return apply


def _total(run: _Run, items: Any) -> Any:  # noqa: ARG001 - see _Function
    found = _as_list(items)
    if not all(map(_is_number, found)):
        raise ExpressionError("sum() needs a list of numbers.")
    return _number(sum(found))


def _keys(run: _Run, value: Any) -> list[Any]:
    run.items(len(_as_map(value)))
    return list(value)


def _values(run: _Run, value: Any) -> list[Any]:
    run.items(len(_as_map(value)))
    return list(value.values())


class Cost(NamedTuple):
    """What a call costs at most.

    It costs `ns`, and nanoseconds and bytes for each character and item of its arguments. A *deep* cost counts what is
    in the arguments at any depth, another one only texts that are arguments, and the items of lists and maps.
    """

    ns: float = 1_500
    char_ns: float = 0.0
    char_bytes: float = 0.0
    item_ns: float = 0.0
    item_bytes: float = 0.0
    is_deep: bool = False

    def charge(self, budget: EvaluationBudget, values: Iterable[Any]) -> None:
        """Charge a call with these arguments. Raises `ExpressionError`."""
        ns, size = self.ns, 0.0
        for value in values:
            if isinstance(value, str):
                ns += len(value) * self.char_ns
                size += len(value) * self.char_bytes
            elif self.is_deep:
                self._charge_within(budget, value, limits.JSON_DEPTH)
            elif is_list(value) or isinstance(value, Mapping):
                ns += len(value) * self.item_ns
                size += len(value) * self.item_bytes
        budget.charge(ns, size)

    def _charge_within(self, budget: EvaluationBudget, value: Any, depth: int) -> None:
        if isinstance(value, str):
            budget.charge(len(value) * self.char_ns, len(value) * self.char_bytes)
        elif isinstance(value, Mapping) or is_list(value):
            if depth == 0:
                raise ExpressionError(f"A value in an expression has more than {limits.JSON_DEPTH} levels.")
            budget.charge((1 + len(value)) * self.item_ns, (1 + len(value)) * self.item_bytes)
            budget.items(len(value))
            if isinstance(value, Mapping):
                keys = _chars(list(value))
                budget.charge((len(value) * self.item_ns + keys * self.char_ns), keys * self.char_bytes)
                value = value.values()
            for child in value:
                self._charge_within(budget, child, depth - 1)


class _Function(NamedTuple):
    """A function: it gets the evaluation, which counts work, and `least` to `most` values.

    `cost` is charged before the call. What depends on more than the sizes of the arguments, the function charges
    itself before it works.
    """

    call: Callable[..., Any]
    least: int
    most: int
    cost: Cost = Cost()


_FIND_NS = 6.0  # to look for a string, for each character
_FIND_COMPARE_NS = 1.0  # to compare a character at a place
_FIND_SHORT_CHARS = 2_500  # below it, Python compares at each place,
_FIND_MIDDLE_CHARS = 30_000  # also below this one for less than
_FIND_FEW_CHARS = 100  # characters
_FIND_LAST_PLACES = 2_100
_FOUND_NS = 60.0  # for each place where it was found
_COMPARE_NS = 120.0
_ENCODE_NS = 4_000  # to begin the JSON of one item
_COMPILE_NS = 15_000  # a regular expression
_COMPILE_CHAR_NS = 1_500
_COMPILE_CLASS_NS = 5_000
_STATE_NS = 12.0  # for each instruction of a regular expression and each byte of the text
_STATE_GROUP_NS = 1.0
ROUND_COST = Cost(2_500)  # a number close to 0 has hundreds of digits
JSON_COST = Cost(500, char_ns=6, char_bytes=8, item_ns=1_500, item_bytes=ITEM_BYTES, is_deep=True)
_YAML_COST = Cost(200_000, char_ns=3_000, char_bytes=12, item_ns=30_000, item_bytes=1_000, is_deep=True)
_READ_JSON_COST = Cost(3_000, char_ns=100, char_bytes=5)
_READ_YAML_COST = Cost(100_000, char_ns=2_000, char_bytes=100)
_SEARCH_COST = Cost(6_000, char_ns=1, char_bytes=_UTF8_BYTES)
_CASE_COST = Cost(char_ns=10, char_bytes=16)

# What each function costs; `tests/manifest/test_costs.py` compares it with the processor.
FUNCTIONS: Mapping[str, _Function] = {
    "length": _Function(_length, 1, 1),
    "default": _Function(_default, 2, 2),
    "text": _Function(_text, 1, 1, JSON_COST),
    "number": _Function(_to_number, 1, 1, Cost(3_000, char_ns=20)),
    "join": _Function(_join, 1, 2, Cost(item_ns=300, item_bytes=8)),
    "split": _Function(_split, 1, 2),
    "lower": _Function(lambda run, value: run.text(_as_text(value).lower()), 1, 1, _CASE_COST),
    "upper": _Function(lambda run, value: run.text(_as_text(value).upper()), 1, 1, _CASE_COST),
    "trim": _Function(lambda run, value: run.text(_as_text(value).strip()), 1, 1, Cost(char_ns=3, char_bytes=4)),
    "replace": _Function(_replace, 3, 3),
    "matches": _Function(_matches, 2, 2, _SEARCH_COST),
    "match": _Function(_match, 2, 2, _SEARCH_COST),
    "keys": _Function(_keys, 1, 1),
    "values": _Function(_values, 1, 1),
    "range": _Function(_range, 1, 1),
    "round": _Function(_rounded(ROUND_HALF_UP), 1, 1, ROUND_COST),
    "floor": _Function(_rounded(ROUND_FLOOR), 1, 1, ROUND_COST),
    "ceil": _Function(_rounded(ROUND_CEILING), 1, 1, ROUND_COST),
    "sort": _Function(_sorted, 1, 1, Cost(item_ns=300, item_bytes=8)),
    "min": _Function(_extreme("min", min), 1, 1, Cost(item_ns=300)),
    "max": _Function(_extreme("max", max), 1, 1, Cost(item_ns=300)),
    "sum": _Function(_total, 1, 1, Cost(item_ns=300)),
    "json": _Function(_json, 1, 1, JSON_COST),
    "parseJson": _Function(_parsed_json, 1, 1, _READ_JSON_COST),
    "yaml": _Function(_yaml, 1, 1, _YAML_COST),
    "parseYaml": _Function(_parsed_yaml, 1, 1, _READ_YAML_COST),
    "base64": _Function(_base64, 1, 1, Cost(char_ns=10, char_bytes=12)),
    "decodeBase64": _Function(_decoded_base64, 1, 1, Cost(char_ns=6, char_bytes=6)),
    "now": _Function(_now, 0, 0),
    "time": _Function(_time, 1, 1, Cost(5_000, char_ns=20)),
    "formatTime": _Function(_format_time, 1, 2, Cost(20_000, char_ns=400, char_bytes=100)),
}
_NAMES = ", ".join(FUNCTIONS)
