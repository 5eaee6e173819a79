"""Nodes to templates, and the places where their expressions stand (manifest-language §6)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from launchbay.manifest.expressions import MalformedExpression, Template, compile_template, syntax_error
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, plain
from launchbay.model.findings import Findings, Place


def template_of(node: Node, what: str, findings: Findings) -> Template:
    """Return the template of a node; each malformed expression in it becomes an error, and the template is empty."""
    return _compiled(plain(node), (node,), what, findings)


def template_of_map(nodes: Mapping[str, Node], what: str, findings: Findings) -> Template:
    """Return the template of a map of nodes, as `template_of` does of one."""
    return _compiled({key: plain(node) for key, node in nodes.items()}, nodes.values(), what, findings)


def variables_by_place(nodes: Iterable[Node], wanted: Collection[str]) -> Mapping[str, Place]:
    """Return the first place of each of the wanted variables in the nodes, which name them all."""
    places: dict[str, Place] = {}
    for scalar in _texts(nodes):
        for variable in sorted(compile_template(scalar.value).variables().intersection(wanted)):
            places.setdefault(variable, scalar)
    return places


def _compiled(value: Any, nodes: Iterable[Node], what: str, findings: Findings) -> Template:
    try:
        return compile_template(value)
    except MalformedExpression:
        for scalar in _texts(nodes):
            error = syntax_error(scalar.text)
            if error is not None:
                findings.error("MalformedExpression", f"{what}: {error}", scalar)
        return compile_template(None)


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
