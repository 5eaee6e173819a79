"""Nodes to templates, and the places where their expressions stand (manifest-language §6)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from launchbay.limits import MANIFEST_EXPRESSIONS
from launchbay.manifest.expressions import MalformedExpression, Template, compile_template, syntax_error
from launchbay.manifest.tree import MappingNode, Node, ScalarNode
from launchbay.model.findings import Findings, Place

_EMPTY = compile_template(None)
_MARKS = ("$", "{{", "}}")


class Templates:
    """Compiles the templates of one manifest, within a bound on all its expressions together."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._marks = 0
        self._is_full = False
        self._known: dict[str, Any] = {}

    def of(self, node: Node, what: str) -> Template:
        """Return the template of a node; where an expression is malformed, that is an error and the template empty."""
        return self._compiled(self._data(node), (node,), what)

    def of_map(self, nodes: Mapping[str, Node], what: str) -> Template:
        """Return the template of a map of nodes, as `of` does of one."""
        return self._compiled({key: self._data(node) for key, node in nodes.items()}, nodes.values(), what)

    def _data(self, node: Node) -> Any:
        """Return the node as data, and count what may be an expression: aliases repeat long texts at no cost."""
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str) and len(node.value) > 1:
                self._marks += sum(map(node.value.count, _MARKS))
            return node.value
        if isinstance(node, MappingNode):
            return {key: self._data(child) for key, child in node.children.items()}
        return [self._data(child) for child in node.children]

    def _compiled(self, value: Any, nodes: Iterable[Node], what: str) -> Template:
        if self._marks > MANIFEST_EXPRESSIONS:
            self._refuse(nodes, what)
            return _EMPTY
        try:
            return compile_template(value, self._known)
        except MalformedExpression:
            for scalar in _texts(nodes):
                error = syntax_error(scalar.text)
                if error is not None:
                    self._findings.error("MalformedExpression", f"{what}: {error}", scalar)
            return _EMPTY

    def _refuse(self, nodes: Iterable[Node], what: str) -> None:
        if not self._is_full:
            message = f"{what}: with it the manifest has more than {MANIFEST_EXPRESSIONS} of $, {{{{ and }}}} in"
            place = next(iter(nodes))
            self._findings.error("TooManyExpressions", f"{message} parameters and return values. Use less.", place)
        self._is_full = True


def variables_by_place(nodes: Iterable[Node], wanted: Collection[str]) -> Mapping[str, Place]:
    """Return the first place of each of the wanted variables in the nodes, which name them all."""
    places: dict[str, Place] = {}
    for scalar in _texts(nodes):
        for variable in sorted(compile_template(scalar.value).variables().intersection(wanted)):
            places.setdefault(variable, scalar)
    return places


def _texts(nodes: Iterable[Node]) -> Iterator[ScalarNode]:
    """Yield the texts in the nodes that may hold an expression."""
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str) and "$" in node.value:
                yield node
        else:
            children = node.children.values() if isinstance(node, MappingNode) else node.children
            pending.extend(reversed([*children]))
