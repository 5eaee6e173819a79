"""The tree that the reader makes of a YAML text: frozen nodes, each with the place where its text stands.

A node that an alias repeats is the same object, with the place of its anchor: never change what a node holds, take
`plain` for data of your own.
"""

from collections.abc import ItemsView, Mapping
from typing import Any, NoReturn, TypeAlias

import msgspec

from launchbay.model.findings import Finding, Place, refuse

ScalarValue: TypeAlias = str | int | float | bool | None


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A value of the core schema; `text` is what stood in the source, such as `1.10` where the value is 1.1."""

    value: ScalarValue
    text: str
    line: int
    column: int


class SequenceNode(msgspec.Struct, frozen=True):
    """A list."""

    children: "tuple[Node, ...]"
    line: int
    column: int


class MappingNode(msgspec.Struct, frozen=True):
    """A map in source order. `keys` holds the key nodes, for their places; a key is its text in the source."""

    children: "Mapping[str, Node]"
    keys: Mapping[str, ScalarNode]
    line: int
    column: int

    def __contains__(self, key: object) -> bool:
        return key in self.children

    def get(self, key: str) -> "Node | None":
        """Return the child, or None where the key is absent; a child that is YAML's null is a `ScalarNode`."""
        return self.children.get(key)

    def items(self) -> "ItemsView[str, Node]":
        """Iterate over keys and children in source order."""
        return self.children.items()

    def place_of(self, key: str) -> Place:
        """Return the place of a key, or of the whole map where the key is absent."""
        return self.keys.get(key, self)


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def plain(node: Node) -> Any:  # Any: the shape of the data is the author's
    """Return the node as fresh Python data; two calls share nothing that can be changed."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, MappingNode):
        return {
            key: child.value if isinstance(child, ScalarNode) else plain(child) for key, child in node.children.items()
        }
    return [child.value if isinstance(child, ScalarNode) else plain(child) for child in node.children]


def is_null(node: Node) -> bool:
    """Tell whether the node is YAML's null: nothing, `~` or `null`."""
    return isinstance(node, ScalarNode) and node.value is None


def kind_of(node: Node) -> str:
    """Name the kind of a node for a sentence: "a map", "a list", "null", "the number 3", "the text 'x'"."""
    if isinstance(node, MappingNode):
        return "a map"
    if isinstance(node, SequenceNode):
        return "a list"
    if node.value is None:
        return "null"
    shown = node.text if len(node.text) <= 40 else f"{node.text[:40]}…"
    if isinstance(node.value, str):
        return f"the text {shown!r}"
    return f"the truth value {shown}" if isinstance(node.value, bool) else f"the number {shown}"


def expect_mapping(node: Node, what: str) -> MappingNode:
    """Return the node as a map. Raises `InvalidManifest`, naming the thing as `what`, where it is something else."""
    return node if isinstance(node, MappingNode) else _misfit(node, what, "a map")


def expect_sequence(node: Node, what: str) -> SequenceNode:
    """Return the node as a list. Raises `InvalidManifest`, naming the thing as `what`, where it is something else."""
    return node if isinstance(node, SequenceNode) else _misfit(node, what, "a list")


def expect_text(node: Node, what: str) -> str:
    """Return a scalar's text as in the source (`1.10`, `true`). Raises `InvalidManifest` on null, maps and lists."""
    return node.text if isinstance(node, ScalarNode) and node.value is not None else _misfit(node, what, "a text")


def _misfit(node: Node, what: str, expected: str) -> NoReturn:
    message = f"{what} must be {expected}, but it is {kind_of(node)}."
    refuse(Finding("error", "UnexpectedKind", message, node.line, node.column))
