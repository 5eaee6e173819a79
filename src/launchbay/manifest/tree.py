"""The tree that the reader makes of a YAML text: frozen nodes, each with the place where its text stands.

A node that an alias repeats is the same object, with the place of its anchor: never change what a node holds, take
`plain` for data of your own.
"""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

import msgspec

from launchbay.limits import NAME_CHARS
from launchbay.model.findings import Finding, Findings, Place, raise_invalid_manifest

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
    return node if isinstance(node, MappingNode) else _raise_wrong_kind(node, what, "a map")


def expect_sequence(node: Node, what: str) -> SequenceNode:
    """Return the node as a list. Raises `InvalidManifest`, naming the thing as `what`, where it is something else."""
    return node if isinstance(node, SequenceNode) else _raise_wrong_kind(node, what, "a list")


def expect_text(node: Node, what: str) -> str:
    """Return a scalar's text as in the source (`1.10`, `true`). Raises `InvalidManifest` on null, maps and lists."""
    return (
        node.text
        if isinstance(node, ScalarNode) and node.value is not None
        else _raise_wrong_kind(node, what, "a text")
    )


def _raise_wrong_kind(node: Node, what: str, expected: str) -> NoReturn:
    message = f"{what} must be {expected}, but it is {kind_of(node)}."
    raise_invalid_manifest(Finding("error", "UnexpectedKind", message, node.line, node.column))


_NOTHING: Mapping[str, Node] = {}


def is_absent(node: Node | None) -> bool:
    """Tell whether there is no node, or only YAML's null."""
    return node is None or is_null(node)


def is_name(name: str, what: str, place: Place, findings: Findings) -> bool:
    """Tell whether a name is within its bounds, and report it where it is not."""
    if 0 < len(name) <= NAME_CHARS:
        return True
    problem = f"has {len(name)} characters; use at most {NAME_CHARS}" if name else "is empty"
    findings.error("BadName", f"{what}: the name {name[:20]!r} {problem}.", place)
    return False


def mapping_or_none(node: Node | None, what: str, findings: Findings) -> MappingNode | None:
    """Return the node as a map; None where it is absent or null, and, with an error, where it is something else.

    Null counts as absent: a section whose entries are all commented out reads as null.
    """
    if isinstance(node, MappingNode):
        return node
    if node is not None and not is_null(node):
        _report_wrong_kind(node, what, "a map", findings)
    return None


def children_of(node: Node | None, what: str, findings: Findings) -> Mapping[str, Node]:
    """Return the children of a map; none where `mapping_or_none` finds no map."""
    mapping = mapping_or_none(node, what, findings)
    return _NOTHING if mapping is None else mapping.children


def items_of(node: Node | None, what: str, findings: Findings) -> tuple[Node, ...]:
    """Return the items of a list; none where the node is absent or null, and, with an error, where it is no list."""
    if isinstance(node, SequenceNode):
        return node.children
    if node is not None and not is_null(node):
        _report_wrong_kind(node, what, "a list", findings)
    return ()


def text_or_none(node: Node | None, what: str, findings: Findings) -> str | None:
    """Return a scalar's text as written; None where it is absent or null, and, with an error, where it is no scalar."""
    if isinstance(node, ScalarNode):
        return None if node.value is None else node.text
    if node is not None:
        _report_wrong_kind(node, what, "a text", findings)
    return None


def names_of(node: Node | None, what: str, findings: Findings) -> Iterator[ScalarNode]:
    """Yield the scalars of a list of names; a single name may stand without the list."""
    if isinstance(node, ScalarNode):
        if node.value is not None:
            yield node
        return
    for item in items_of(node, what, findings):
        if isinstance(item, ScalarNode) and item.value is not None:
            yield item
        else:
            _report_wrong_kind(item, f"An entry of {what[0].lower()}{what[1:]}", "a name", findings)


def entries_of(node: Node | None, what: str, findings: Findings) -> Iterator[tuple[str, Node, Place]]:
    """Yield `(name, child, place of the name)` of a map, or of a list of one-key maps (manifest-language §5, "Steps").

    In the list form a bare name stands for a name with nothing under it.
    """
    if isinstance(node, MappingNode):
        for name, child in node.items():
            yield name, child, node.keys[name]
        return
    if node is not None and not isinstance(node, SequenceNode) and not is_null(node):
        _report_wrong_kind(node, what, "a map or a list of one-key maps", findings)
        return
    for item in items_of(node, what, findings):
        if isinstance(item, MappingNode) and len(item.children) == 1:
            name, child = next(iter(item.items()))
            yield name, child, item.keys[name]
        elif isinstance(item, ScalarNode) and item.value is not None:
            yield item.text, ScalarNode(None, "", item.line, item.column), item
        else:
            shown = f"a map with {len(item.children)} keys" if isinstance(item, MappingNode) else kind_of(item)
            message = f"Each entry of the list must be a map with one key, its name, but here is {shown}: {what}."
            findings.error("UnexpectedKind", f"{message} Check the indentation below the name.", item)


def _report_wrong_kind(node: Node, what: str, expected: str, findings: Findings) -> None:
    findings.error("UnexpectedKind", f"{what} must be {expected}, but it is {kind_of(node)}.", node)
