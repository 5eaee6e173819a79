"""Expressions in parameters and return values (manifest-language §6).

`compile_template` compiles a tree of plain data once, `Template.evaluate` fills it in any number of times. The result
is new data that shares nothing mutable with the scope, the template or another result. Keys of maps stay unchanged.

A string that is one expression and nothing else becomes the value, with its type. In any other string, expressions
become text: numbers, `true`, `false` as in JSON, maps as JSON. A list **broadcasts**: the string becomes a list, one
string per element; several lists are combined by position and must have one length; nested lists give nested lists. A
broadcasting element of a list literal is **spliced** into it: `input: ["http://{$.ips}:2379"]` is the flat list of
URLs, as the `serialize` step of public manifests needs it for one CSV row. An element that is a single expression stays
one element.

`{$.` that doesn't continue as a path, or as a formula (`formulas.py`), is an error: neither shell nor JSON has it. `${`
that doesn't continue as a name stays unchanged, as any other brace: it is shell, such as `${X:-1}`.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, NamedTuple, TypeAlias

import msgspec

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.budget import CHAR_NS, ITEM_NS, EvaluationBudget
from launchbay.manifest.formulas import JSON_COST, Formula, encoded, parse_condition, parse_formula
from launchbay.manifest.paths import (
    DOUBLED_ROOT,
    NOTHING,
    MalformedExpression,
    Path,
    Scope,
    is_list,
    named_variable,
    parse_path,
)
from launchbay.manifest.source import Source
from launchbay.manifest.tree import MappingNode, Node, ScalarNode
from launchbay.model.findings import Findings, Place
from launchbay.model.scalars import same, settled, with_texts, written

_SPECIAL = re.compile(r"\$\$|\{\{|\}\}|\{\$(?:=|(?=\.))|\$\{([\w-]++(?:\.[\w-]++)*+)\}")
_EXPRESSION = (Path, Formula)
_WARNINGS = 100  # shown of one evaluation


class Template(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A tree of plain data with its expressions compiled by `compile_template`.

    `variables` are those that the expressions start at, those inside a macro as `step~variable`. `has_written` says
    that the tree has numbers that remember their text (`model/scalars.py`). Templates with the same meaning are equal,
    however they are written.
    """

    node: "_Node"
    variables: frozenset[str]
    has_written: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and _text(self.meaning) == _text(other.meaning)

    def __ne__(self, other: object) -> bool:
        return not self == other  # structures have one of their own, which compares identities

    def __hash__(self) -> int:
        return hash(_text(self.meaning))

    @property
    def meaning(self) -> Any:
        """The tree as plain data, apart from how it is written."""
        return _meaning(self.node)

    def is_variable(self, name: str) -> bool:
        """Return whether the tree is one expression that gives this variable unchanged."""
        node = self.node
        return isinstance(node, Path) and node.variable == name and len(node.steps) == 1

    @property
    def names(self) -> frozenset[str]:
        """The keys of a map; of other trees, none."""
        match self.node:
            case _Map():
                return frozenset(str(key) for key, _ in self.node.children)
            case _Static(value=Mapping()):
                return frozenset(map(str, self.node.value))
        return frozenset()

    @property
    def expressions(self) -> Mapping[str, str]:
        """The entries of a map that are one expression each, as written."""
        children = self.node.children if isinstance(self.node, _Map) else ()
        return {str(key): child.text for key, child in children if isinstance(child, _EXPRESSION)}

    @property
    def written(self) -> Any:
        """The tree with its expressions and numbers as written."""
        tree = _written(self.node)
        return with_texts(tree) if self.has_written else tree

    @property
    def _expressions(self) -> "Iterator[_Expression]":
        pending: list[_Node] = [self.node]
        while pending:
            node = pending.pop()
            if isinstance(node, _EXPRESSION):
                yield node
            elif isinstance(node, _Text):
                pending.extend(part for part in reversed(node.parts) if isinstance(part, _EXPRESSION))
            elif isinstance(node, _Map):
                pending.extend(child for _, child in reversed(node.children))
            elif isinstance(node, _List):
                pending.extend(reversed(node.children))

    @property
    def texts(self) -> Iterator[str]:
        """Yield the expressions as written."""
        return (each.text for each in self._expressions)

    @property
    def paths(self) -> Iterator[Path]:
        """Yield the paths in the expressions, in the order of the tree."""
        return (path for each in self._expressions for path in each.paths)

    def needed(self, scope: Scope) -> Scope:
        """Return the part of the scope that the expressions can see."""
        names, steps = set[str](), set[str]()
        sees_all = False
        for path in self.paths:
            first = path.variable
            if path.macro_step is not None:
                steps.add(path.macro_step)
            elif first is None:
                sees_all = True
            else:
                names.update((first,) if path.exact is None else (first, path.exact))
        known = scope.variables
        variables = dict(known) if sees_all else {name: known[name] for name in names if name in known}
        inner = {step: dict(scope.inner[step]) for step in steps if step in scope.inner}
        return Scope(variables, inner, scope.now_s)

    def restored(self, value: Any) -> Any:
        """Return a value of this tree, from a process that knows plain numbers, with its literals' texts."""
        return _restored(self.node, value) if self.has_written else value

    def evaluate(
        self, scope: Scope, budget: EvaluationBudget | None = None, *, keeps_texts: bool = False
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the tree with its expressions filled in, and warnings for the step's log.

        Its numbers are plain ones. With `keeps_texts`, literal numbers remember their text, for a caller with types.

        Raises `ExpressionError` if lists of different lengths broadcast together, or a limit is reached. No message
        contains a value. A budget for a trial raises `TooExpensive`.
        """
        run = _Run(scope, budget or EvaluationBudget())
        node = self.node
        value = _entries(node, run) if isinstance(node, _Map) else _evaluate(node, run, limits.JSON_DEPTH)
        if self.has_written and not keeps_texts:
            value = settled(value)
        return value, run.shown_warnings()


def compile_template(value: Any, known: "dict[str, _Node] | None" = None) -> Template:
    """Compile the expressions in a tree of plain data.

    `known` caches compiled strings: aliases repeat them. Raises `MalformedExpression`, which has the offset in its
    string, and `ExpressionError` beyond `MANIFEST_DEPTH`.
    """
    paths: list[_Expression] = []
    node = _compile(value, paths, {} if known is None else known, limits.MANIFEST_DEPTH)
    return Template(node, frozenset().union(*(path.variables for path in paths)))


def compile_condition(text: str) -> Template:
    """Compile an expression without braces, such as `$.size > 3`.

    Raises `MalformedExpression`.
    """
    formula = parse_condition(text)
    return Template(formula, formula.variables)


@dataclass(slots=True)
class _Run:
    """One evaluation."""

    scope: Scope
    work: EvaluationBudget
    warnings: dict[str, None] = field(default_factory=dict)  # an ordered set

    def shown_warnings(self) -> tuple[str, ...]:
        shown = tuple(self.warnings)
        if len(shown) <= _WARNINGS:
            return shown
        return (*shown[:_WARNINGS], f"{len(shown) - _WARNINGS} more expressions have no value.")


class _Static(msgspec.Struct, frozen=True, gc=False):
    """A subtree without any expression."""

    value: Any


class _Text(msgspec.Struct, frozen=True, gc=False):
    """A string with expressions in it."""

    parts: "tuple[str | _Expression, ...]"


class _Map(msgspec.Struct, frozen=True, gc=False):
    children: tuple[tuple[str, "_Node"], ...]


class _List(msgspec.Struct, frozen=True, gc=False):
    children: "tuple[_Node, ...]"


_Expression: TypeAlias = Path | Formula
_Node: TypeAlias = _Static | _Expression | _Text | _Map | _List


def _restored(node: "_Node", value: Any) -> Any:
    match node:
        case _Static():
            # In a list into which elements were spliced, another value may be at its place.
            return deepcopy(node.value) if same(settled(node.value), value) else value
        case _Map():
            return {key: _restored(child, value[key]) for key, child in node.children}
        case _List() if len(value) == len(node.children):
            return [_restored(child, each) for child, each in zip(node.children, value, strict=True)]
    return value


def _text(meaning: Any) -> str:
    """Return a meaning as text, in which `1`, `1.0` and `True` differ."""
    return json.dumps(meaning, sort_keys=True)


def _meaning(node: "_Node") -> Any:
    match node:
        case _Static():
            return ["value", plain_data(node.value)]
        case Path() | Formula():
            return node.meaning
        case _Text():
            return ["text", *(part if isinstance(part, str) else part.meaning for part in node.parts)]
        case _Map():
            return ["map", {key: _meaning(child) for key, child in node.children}]
        case _List():
            return ["list", *map(_meaning, node.children)]


def plain_data(value: Any) -> Any:
    """Return JSON data as dictionaries and lists, whatever holds it."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(child) for key, child in value.items()}
    return [plain_data(child) for child in value] if is_list(value) else value


def _written(node: "_Node") -> Any:
    match node:
        case _Static():
            return node.value
        case Path() | Formula():
            return node.text
        case _Text():
            return "".join(part if isinstance(part, str) else part.text for part in node.parts)
        case _Map():
            return {key: _written(child) for key, child in node.children}
        case _List():
            return [_written(child) for child in node.children]


def _compile(value: Any, paths: list[_Expression], known: dict[str, _Node], depth: int) -> _Node:
    if isinstance(value, str):
        return _compile_text(value, paths, known)
    is_map = isinstance(value, (dict, Mapping))  # the usual class first: others take long to look up
    if not is_map and not is_list(value):
        return _Static(value)
    if depth == 0:
        raise ExpressionError(f"The parameters have more than {limits.MANIFEST_DEPTH} levels. Use fewer levels.")
    nodes: list[_Node] = []
    static: list[Any] = []
    for child in value.values() if is_map else value:
        node = _compile(child, paths, known, depth - 1)
        nodes.append(node)
        if isinstance(node, _Static):
            static.append(node.value)
    if len(static) == len(nodes):
        return _Static(dict(zip(value, static, strict=True)) if is_map else static)
    return _Map(tuple(zip(value, nodes, strict=True))) if is_map else _List(tuple(nodes))


def _compile_text(text: str, paths: list[_Expression], known: dict[str, _Node]) -> _Node:
    node = known.get(text)
    if node is None:
        parts = _parts(text)
        if not any(isinstance(part, _EXPRESSION) for part in parts):
            node = _Static("".join(part for part in parts if isinstance(part, str)))
        else:
            node = parts[0] if len(parts) == 1 and isinstance(parts[0], _EXPRESSION) else _Text(parts)
        known[text] = node
    if isinstance(node, _EXPRESSION):
        paths.append(node)
    elif isinstance(node, _Text):
        paths.extend(part for part in node.parts if isinstance(part, _EXPRESSION))
    return node


def _parts(text: str, offsets: list[int] | None = None) -> tuple[str | _Expression, ...]:
    """Split a string into literal text and expressions; `$$`, `{{` and `}}` become one character each.

    The offset of each expression is added to `offsets`.
    """
    parts: list[str | _Expression] = []
    literal: list[str] = []
    at = 0
    while (special := _SPECIAL.search(text, at)) is not None:
        literal.append(text[at : special.start()])
        at = special.end()
        if special[0] in ("$$", "{{", "}}"):
            literal.append(special[0][0])
            continue
        if any(literal):
            parts.append("".join(literal))
        literal = []
        if offsets is not None:
            offsets.append(special.start())
        if special[1] is not None:
            parts.append(named_variable(special[0], special[1]))
            continue
        start = special.start()
        expression: _Expression | None = None
        if special[0] == "{$":
            expression, at = parse_path(text, start)
        if expression is None:
            expression, at = parse_formula(text, start, special.end() if special[0] == "{$=" else start + 1)
        parts.append(expression)
    literal.append(text[at:])
    if any(literal):
        parts.append("".join(literal))
    return tuple(parts)


def _entries(node: _Map, run: _Run) -> dict[str, Any]:
    """Return the outermost map. An error says in which entry it is."""
    run.work.charge(len(node.children) * ITEM_NS)
    found: dict[str, Any] = {}
    for key, child in node.children:
        try:
            found[key] = _evaluate(child, run, limits.JSON_DEPTH - 1)
        except ExpressionError as error:
            raise ExpressionError(f"{key}: {error}") from error
    return found


def _evaluate(node: _Node, run: _Run, depth: int) -> Any:
    if isinstance(node, _Static):
        return _copied(node.value, run.work, depth)
    if isinstance(node, _EXPRESSION):
        value = node.resolve(run.scope, run.work)
        if value is NOTHING:
            run.warnings[f"{_shown(node)} has no value, so null is used."] = None
            return None
        return _copied(value, run.work, depth)
    if isinstance(node, _Text):
        return _fill(node, run, depth)
    if isinstance(node, _Map):
        _enter(depth)
        run.work.charge(len(node.children) * ITEM_NS)
        return {key: _evaluate(child, run, depth - 1) for key, child in node.children}
    _enter(depth)
    run.work.charge(len(node.children) * ITEM_NS)
    items: list[Any] = []
    for child in node.children:
        value = _evaluate(child, run, depth - 1)
        if isinstance(child, _Text) and isinstance(value, list):
            items.extend(value)
        else:
            items.append(value)
    return items


def _copied(value: Any, budget: EvaluationBudget, depth: int) -> Any:
    """Return a deep copy of JSON data; strings are shared, since they are immutable."""
    if isinstance(value, str):
        budget.chars(len(value))
        return value
    if value is None or isinstance(value, bool | int | float):
        return value
    _enter(depth)
    if isinstance(value, Mapping):
        budget.items(len(value))
        budget.chars(sum(map(len, value)))
        return {key: _copied(child, budget, depth - 1) for key, child in value.items()}
    if is_list(value):
        budget.items(len(value))
        return [_copied(child, budget, depth - 1) for child in value]
    raise ExpressionError(
        f"A variable contains a value of the Python type {type(value).__name__}, which isn't a JSON value."
    )


def _fill(node: _Text, run: _Run, depth: int) -> Any:
    """Return the string with its expressions filled in, or a list of such strings."""
    run.work.charge(len(node.parts) * ITEM_NS)
    pieces: list[Any] = []
    for part in node.parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        value = part.resolve(run.scope, run.work)
        pieces.append(_piece(None if value is NOTHING else value, part, run))
    return _broadcast(pieces, node, run, depth)


def _broadcast(pieces: list[Any], node: _Text, run: _Run, depth: int) -> Any:
    """Join the pieces to a string; if some are lists, return the list of strings with the n-th element of each."""
    lists = [piece for piece in pieces if is_list(piece)]
    if not lists:
        length = sum(map(len, pieces))
        if length > limits.EXPRESSION_TEXT_CHARS:
            raise ExpressionError(f"A string with expressions has more than {limits.EXPRESSION_TEXT_CHARS} characters.")
        run.work.chars(length)
        run.work.charge(length * CHAR_NS, sum(map(getsizeof, pieces)))
        return "".join(pieces)
    _enter(depth)
    paths = [part for part in node.parts if isinstance(part, _EXPRESSION)]
    count = len(lists[0])
    if any(len(one) != count for one in lists):
        lengths = ", ".join(str(len(one)) for one in lists[:10])
        names = ", ".join(_shown(path) for path in paths[:10])
        raise ExpressionError(f"Lists in one string have different lengths ({lengths}): {names}. Use equal lengths.")
    if count > limits.EXPRESSION_RESULT_ITEMS:
        limit = limits.EXPRESSION_RESULT_ITEMS
        raise ExpressionError(f"{_shown(paths[0])} makes more than {limit} strings. Use a shorter list.")
    run.work.items(count * len(pieces))
    return [
        _broadcast(
            [_nth(piece, index, part, run) for piece, part in zip(pieces, node.parts, strict=True)],
            node,
            run,
            depth - 1,
        )
        for index in range(count)
    ]


def _nth(piece: Any, index: int, part: str | _Expression, run: _Run) -> Any:
    return _piece(piece[index], part, run) if is_list(piece) and isinstance(part, _EXPRESSION) else piece


def _piece(value: Any, path: _Expression, run: _Run) -> Any:
    """Return a value as a string; a list stays one, to be broadcast. Null is empty, with a warning."""
    if isinstance(value, str) or is_list(value):
        return value
    if value is None:
        run.warnings[f"{_shown(path)} has no value, so the string is empty at its place."] = None
        return ""
    try:
        JSON_COST.charge(run.work, (value,))
        return encoded(value)
    except ExpressionError as error:
        raise ExpressionError(f"{_shown(path)} can't be part of a string: {error}") from None


def _enter(depth: int) -> None:
    if depth <= 0:
        raise ExpressionError(f"A value with expressions has more than {limits.JSON_DEPTH} levels.")


def _shown(path: _Expression) -> str:
    return path.text if len(path.text) <= 100 else f"{path.text[:100]}…"


_EMPTY = compile_template(None)
_EMPTY_MAP = compile_template({})
_MARKS = ("$", "{{", "}}")


class Templates:
    """Compiles the templates of one manifest, within a limit on all its expressions together."""

    def __init__(self, source: Source, expressions_max: int = limits.MANIFEST_EXPRESSIONS) -> None:
        self._source = source
        self._expressions_max = expressions_max
        self._marks = 0
        self._is_full = False
        self._known: dict[str, Any] = {}
        self._doubled: list[ScalarNode] = []
        self._has_written = False

    def of(self, node: Node, findings: Findings) -> Template:
        """Return the template of a node; a malformed expression is an error, and the template is empty."""
        before, self._has_written = self._marks, False
        return self._compiled(self._data(node), before, (node,), findings)

    def of_condition(self, node: Node, findings: Findings) -> Template:
        """Return the template of a node whose text is an expression even without braces."""
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or _SPECIAL.search(node.value):
            return self.of(node, findings)
        self._marks += 1
        try:
            return compile_condition(node.value)
        except MalformedExpression as error:
            findings.error("MalformedExpression", str(error), self._source.place(node, error.offset))
            return _EMPTY

    def of_map(self, nodes: Mapping[str, Node], findings: Findings) -> Template:
        """Return the template of a map of nodes, as `of` does of one."""
        if not nodes:
            return _EMPTY_MAP
        before, self._has_written = self._marks, False
        data = {key: self._data(node) for key, node in nodes.items()}
        return self._compiled(data, before, nodes.values(), findings)

    def _data(self, node: Node) -> Any:
        """Return the node as data, and count what may be an expression: aliases repeat long strings at no cost."""
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str) and len(node.value) > 1:
                self._marks += sum(map(node.value.count, _MARKS))
                if DOUBLED_ROOT in node.value:
                    self._doubled.append(node)
            elif node.value.__class__ is float or node.value.__class__ is int:
                value = written(node.value, node.text)
                self._has_written |= value is not node.value
                return value
            return node.value
        if isinstance(node, MappingNode):
            return {key: self._data(child) for key, child in node.children.items()}
        return [self._data(child) for child in node.children]

    def _compiled(self, value: Any, marks_before: int, nodes: Iterable[Node], findings: Findings) -> Template:
        if self._marks == marks_before and not self._is_full:
            return Template(_Static(value), frozenset(), self._has_written)
        if self._marks > self._expressions_max:
            if not self._is_full:
                message = f"With this, the manifest has more than {self._expressions_max} expressions. Use fewer."
                findings.error("TooManyExpressions", message, next(iter(nodes)))
            self._is_full = True
            return _EMPTY
        doubled, self._doubled = self._doubled, []
        try:
            template = compile_template(value, self._known)
        except MalformedExpression:
            for scalar in _texts(nodes):
                try:
                    _parts(scalar.text)
                except MalformedExpression as error:
                    findings.error("MalformedExpression", str(error), self._source.place(scalar, error.offset))
            return _EMPTY
        if self._has_written:
            template = Template(template.node, template.variables, has_written=True)
        for scalar in doubled:
            for part, offset in _placed(scalar.text):
                if part.text.startswith(DOUBLED_ROOT):
                    meant = part.text.replace("$.", "", 1)
                    message = f"{_shown(part)} has the root twice. Launchbay reads it as {meant}; write that instead."
                    findings.warning("DoubledRoot", message, self._source.place(scalar, offset))
        return template


class Use(NamedTuple):
    """The first use of a variable: its place, and its expression as written."""

    place: Place
    expression: str


def variables_by_use(nodes: Iterable[Node], wanted: Collection[str], source: Source) -> Mapping[str, Use]:
    """Return the first use of each wanted variable. The nodes name them all."""
    uses: dict[str, Use] = {}
    for scalar in _texts(nodes):
        for part, offset in _expressions(scalar.text):
            for variable in sorted(part.variables.intersection(wanted)):
                if variable not in uses:
                    uses[variable] = Use(source.place(scalar, offset), part.text)
    return uses


def _expressions(text: str) -> "Iterable[tuple[_Expression, int]]":
    """Yield the expressions in a string with their offsets.

    A condition is one even without braces.
    """
    if _SPECIAL.search(text):
        return _placed(text)
    with suppress(MalformedExpression):
        return [(parse_condition(text), 0)]
    return ()


def _placed(text: str) -> "Iterable[tuple[_Expression, int]]":
    offsets: list[int] = []
    expressions = [part for part in _parts(text, offsets) if isinstance(part, _EXPRESSION)]
    return zip(expressions, offsets, strict=True)


def _texts(nodes: Iterable[Node]) -> Iterator[ScalarNode]:
    """Yield the strings in the nodes that may contain an expression."""
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str) and "$" in node.value:
                yield node
        else:
            children = node.children.values() if isinstance(node, MappingNode) else node.children
            pending.extend(reversed([*children]))
