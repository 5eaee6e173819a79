"""Paths into a workflow's variables: their syntax and meaning (manifest-language §6).

`.key`, `['key']`, `["key"]` pick from a map, `[n]` from a list (`[-1]` is the last item). `*` (also `[*]`, `['*']`)
spreads a map into the list of its values, or a list into its items; `..key` spreads into the values of the key at any
depth. On a spread list,

- a key picks from each item that has it, and the lists that it finds are joined. Public manifests need that:
  `{$.signals.source.*.context-nodes}`, where each peer gives a list of nodes, is used as a list of nodes, and
  `{$.signals.source.*.context-attrs[0]}`, where each gives a map, as the first map;
- `[n]` picks one item and ends the spreading: `{$.signals.compute.*.networks.public.ip[0]}` is the first machine's
  address;
- `*` spreads each item.

`{$.step~variable}` starts at a variable inside the macro that the step called.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.budget import EvaluationBudget


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions see: variables by name, and by step those inside the macro that it called."""

    variables: Mapping[str, Any]
    inner: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    now_s: int = 0  # since the epoch: what now() gives


class MalformedExpression(ExpressionError):
    """An expression's syntax is wrong; `offset` is the 0-based index of the error in the string."""

    code = "MalformedExpression"

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class _Key:
    name: str


@dataclass(frozen=True, slots=True)
class _Index:
    number: int


@dataclass(frozen=True, slots=True)
class _Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class _Descent:
    name: str


_Step: TypeAlias = _Key | _Index | _Wildcard | _Descent

NOTHING: Final = object()
DOUBLED_ROOT: Final = "{$.$"  # older manifests have {$.$.x}, which means {$.x}
_SHOWN_CHARS = 300
_COLLECTED_AT_ONCE = 1_000
_KEY = re.compile(r"[\w-]++")
_INDEX = re.compile(r"\[\s*(-?[0-9]{1,9})\s*\]")
_WILDCARD = re.compile(r"""\[\s*(?:\*|'\*'|"\*")\s*\]|\.\*""")
_QUOTED = re.compile(r"""\[\s*(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)")\s*\]""", re.DOTALL)
_BRACKET = re.compile(r"""\[\s*(?:-?[0-9]{1,9}\s*\]|'|"|\*)""")  # of a path; any other one takes an item of a value
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. `text` is the expression as written; `exact` a variable that takes precedence if it exists.

    Paths that lead to the same are equal, however they are written.
    """

    text: str = field(compare=False)
    steps: tuple[_Step, ...]
    macro_step: str | None = None
    exact: str | None = None

    @property
    def meaning(self) -> list[Any]:
        """The path as plain data, apart from how it is written."""
        steps = [[type(step).__name__.strip("_").lower(), *astuple(step)] for step in self.steps]
        return ["path", self.macro_step, self.exact, *steps]

    @property
    def paths(self) -> "tuple[Path, ...]":
        """Return the path, as a formula returns those in it."""
        return (self,)

    @property
    def variables(self) -> frozenset[str]:
        """Return the variable that the path starts at, if it is a single one."""
        return frozenset() if self.variable is None else frozenset({self.variable})

    @property
    def variable(self) -> str | None:
        """Return the variable that the path starts at (`step~variable` inside a macro); None for all."""
        first = self.steps[0]
        if not isinstance(first, _Key):
            return None
        return first.name if self.macro_step is None else f"{self.macro_step}~{first.name}"

    def resolve(self, scope: Scope, budget: EvaluationBudget) -> Any:
        """Return the value at the path, shared with the scope, or `NOTHING`. Raises `ExpressionError` beyond limits."""
        if self.exact is not None and self.exact in scope.variables:
            return scope.variables[self.exact]
        found: Any = scope.variables if self.macro_step is None else scope.inner.get(self.macro_step, NOTHING)
        spread = False
        for step in self.steps:
            if found is NOTHING:
                return NOTHING
            if spread and not isinstance(step, _Index):
                found = _from_each(step, found, budget)
            else:
                found = _from_one(step, found, budget)
                spread = isinstance(step, _Wildcard | _Descent)
        return found


def named_variable(text: str, name: str) -> Path:
    """Return the path for `${name}`: the variable of exactly this name, else the path that its dots make."""
    return Path(text, tuple(_Key(part) for part in name.split(".")), exact=name)


def parse_path(text: str, start: int) -> tuple[Path | None, int]:
    """Return the expression `{$.path}` at this offset and the offset after it.

    The path is None if operators follow it. Raises `MalformedExpression`.
    """
    at = start + 2
    if text.startswith((f"{DOUBLED_ROOT}.", f"{DOUBLED_ROOT}["), start):
        at += 2
    steps, macro_step, at = _steps(text, start, at)
    if not text.startswith("}", at):
        return None, at
    return Path(text[start : at + 1], tuple(steps), macro_step), at + 1


def parse_path_at(text: str, start: int, at: int) -> tuple[Path, int]:
    """Return the path at this offset, after the root, and the offset after it.

    `start` is where its expression begins. Raises `MalformedExpression`.
    """
    steps, macro_step, end = _steps(text, start, at)
    return Path(f"${text[at:end]}", tuple(steps), macro_step), end


def _steps(text: str, start: int, at: int) -> tuple[list[_Step], str | None, int]:
    steps: list[_Step] = []
    macro_step = None
    while True:
        next_one = text[at : at + 1]
        if next_one == "~" and macro_step is None and len(steps) == 1 and isinstance(first := steps[0], _Key):
            macro_step = first.name
            key = _key(text, at + 1, start)
            steps, at = [_Key(key)], at + 1 + len(key)
        elif not steps or next_one == "." or (next_one == "[" and _BRACKET.match(text, at)):
            step, at = _step(text, at, start)
            steps.append(step)
        else:
            return steps, macro_step, at


def _step(text: str, at: int, start: int) -> tuple[_Step, int]:
    if match := _WILDCARD.match(text, at):
        return _Wildcard(), match.end()
    if text.startswith("..", at):
        key = _key(text, at + 2, start)
        return _Descent(key), at + 2 + len(key)
    if text.startswith(".[", at):  # {$.['odd name']}
        at += 1
    elif text.startswith(".", at):
        key = _key(text, at + 1, start)
        return _Key(key), at + 1 + len(key)
    if match := _INDEX.match(text, at):
        return _Index(int(match[1])), match.end()
    if match := _QUOTED.match(text, at):
        return _Key(_ESCAPED.sub(r"\1", match[1] if match[2] is None else match[2])), match.end()
    problem = "expected n], *] or 'key'] after [" if text.startswith("[", at) else "expected }"
    return malformed(problem, text, at, start)


def _key(text: str, at: int, start: int) -> str:
    match = _KEY.match(text, at)
    return match[0] if match else malformed("expected a key", text, at, start)


def malformed(problem: str, text: str, at: int, start: int) -> NoReturn:
    """Refuse the expression that begins at `start`, for its character at `at`. Raises `MalformedExpression`."""
    end = text.find("}", at) + 1 or len(text)
    shown = text[start:end] if end - start <= _SHOWN_CHARS else f"{text[start : start + _SHOWN_CHARS]}…"
    message = f"Invalid expression {shown!r}: {problem} at its character {at - start + 1}."
    raise MalformedExpression(f"{message} To write {{$ as plain text, use {{{{$.", at)


def _from_one(step: _Step, value: Any, budget: EvaluationBudget) -> Any:
    budget.items(1)
    if isinstance(step, _Key):
        return value.get(step.name, NOTHING) if isinstance(value, Mapping) else NOTHING
    if isinstance(step, _Index):
        if not is_list(value) or not -len(value) <= step.number < len(value):
            return NOTHING
        return value[step.number]
    if isinstance(step, _Wildcard):
        return _collect(_items_of(value), budget) if is_list(value) or isinstance(value, Mapping) else NOTHING
    return _collect(_joined(_under(step.name, value, budget)), budget)


def _from_each(step: _Step, values: Sequence[Any], budget: EvaluationBudget) -> list[Any]:
    budget.items(len(values))
    if isinstance(step, _Key):
        found = (value[step.name] for value in values if isinstance(value, Mapping) and step.name in value)
        return _collect(_joined(found), budget)
    if isinstance(step, _Descent):
        return _collect(_joined(found for value in values for found in _under(step.name, value, budget)), budget)
    return _collect((item for value in values for item in _items_of(value)), budget)


def _items_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif is_list(value):
        yield from value


def _joined(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        if is_list(value):
            yield from value
        else:
            yield value


def _under(name: str, value: Any, budget: EvaluationBudget) -> Iterator[Any]:
    """Yield the values of the key at any depth, in document order."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            budget.items(len(node))
            if name in node:
                yield node[name]
            pending.extend(reversed(list(node.values())))
        elif is_list(node):
            budget.items(len(node))
            pending.extend(reversed(node))


def _collect(values: Iterator[Any], budget: EvaluationBudget) -> list[Any]:
    gathered: list[Any] = []
    while part := list(islice(values, _COLLECTED_AT_ONCE)):
        budget.items(len(part))
        gathered += part
        if len(gathered) > limits.EXPRESSION_RESULT_ITEMS:
            raise ExpressionError(
                f"An expression with * or .. gives more than {limits.EXPRESSION_RESULT_ITEMS} values. Narrow its path."
            )
    return gathered


def is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
