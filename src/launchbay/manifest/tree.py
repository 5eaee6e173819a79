"""The tree of a YAML text: frozen nodes, each with its place, and the one set of functions that takes them apart.

A node that an alias repeats is the same object, with the place of its anchor: never change what a node contains, take
`plain` for your own data.

The functions with `findings` return what they can and report the rest. Null counts as absent: a section whose entries
are all commented out reads as null. `what` names the node at the start of a message, such as "'steps'".
"""

from collections.abc import Collection, ItemsView, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from launchbay.limits import NAME_CHARS
from launchbay.model.findings import Findings, Place
from launchbay.model.scalars import ScalarValue, written
from launchbay.model.scalars import text_of as scalar_text

_NO_CHILDREN: "Mapping[str, Node]" = {}


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A value of the core schema; `text` is its source, such as `1.10` if the value is 1.1."""

    value: ScalarValue
    text: str
    line: int
    column: int


class SequenceNode(msgspec.Struct, frozen=True, gc=False):
    """A list."""

    children: "tuple[Node, ...]"
    line: int
    column: int


class MappingNode(msgspec.Struct, frozen=True, gc=False):
    """A map in source order. `keys` holds the key nodes, for their places; a key is its source text."""

    children: "Mapping[str, Node]"
    keys: Mapping[str, ScalarNode]
    line: int
    column: int

    def __contains__(self, key: object) -> bool:
        return key in self.children

    def get(self, key: str) -> "Node | None":
        """Return the child, or None if the key is absent; a child that is YAML's null is a `ScalarNode`."""
        return self.children.get(key)

    def items(self) -> "ItemsView[str, Node]":
        """Return keys and children in source order."""
        return self.children.items()

    def place_of(self, key: str) -> Place:
        """Return the place of a key, or of the map if the key is absent."""
        return self.keys.get(key, self)


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def plain(node: Node) -> Any:  # Any: the shape of the data is the author's
    """Return the node as new Python data; two calls share nothing that can be changed."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, MappingNode):
        return {
            key: child.value if isinstance(child, ScalarNode) else plain(child) for key, child in node.children.items()
        }
    return [child.value if isinstance(child, ScalarNode) else plain(child) for child in node.children]


def written_data(node: Node) -> Any:
    """Return the node as new Python data whose numbers remember their text."""
    if isinstance(node, ScalarNode):
        return written(node.value, node.text)
    if isinstance(node, MappingNode):
        return {key: written_data(child) for key, child in node.children.items()}
    return [written_data(child) for child in node.children]


def kubernetes_data(node: Node) -> Any:
    """Return a node of `read_kubernetes` as data; the key `on` is `true`."""
    if isinstance(node, ScalarNode):
        return written(node.value, node.text)
    if isinstance(node, MappingNode):
        return {_kubernetes_key(node.keys[key]): kubernetes_data(child) for key, child in node.children.items()}
    return [kubernetes_data(child) for child in node.children]


def _kubernetes_key(key: ScalarNode) -> str:
    return scalar_text(key.value) or ("null" if key.value is None else "")


def is_null(node: Node | None) -> bool:
    """Return whether there is no node, or only YAML's null: nothing, `~` or `null`."""
    return node is None or (isinstance(node, ScalarNode) and node.value is None)


def kind_of(node: Node) -> str:
    """Name the kind of a node for a message: "a map", "a list", "null", "the number 3", "the string 'x'"."""
    if isinstance(node, MappingNode):
        expression = unquoted_expression(node)
        return "a map" if expression is None else f"a map: quote {_clipped(expression)}"
    if isinstance(node, SequenceNode):
        return "a list"
    if node.value is None:
        return "null"
    shown = _clipped(node.text)
    if isinstance(node.value, str):
        return f"the string {shown!r}"
    return f"the boolean {shown}" if isinstance(node.value, bool) else f"the number {shown}"


def _clipped(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


_EXPRESSION_STARTS = ("$.", "$=")


def unquoted_expression(node: Node) -> str | None:
    """Return the expression that its author forgot to quote, or None.

    YAML reads `{$.name}` as the map `$.name: `. Its commas make further keys without a value, and the colon of
    `{$.a ? 1 : 2}` makes a value.
    """
    if not isinstance(node, MappingNode) or not node.children:
        return None
    first, *_ = node.children
    if not first.startswith(_EXPRESSION_STARTS):
        return None
    written = [(key, child.text if isinstance(child, ScalarNode) else None) for key, child in node.items()]
    if any(text != "" for _, text in written[" ? " in first :]):  # of a choice, the first value belongs to it
        return None
    return f"{{{', '.join(f'{key} : {text}' if text else key for key, text in written)}}}"


# What to say of keys that have a meaning elsewhere, instead of the known ones.
_ADVICE = {"onDifference": " Write it at a component or the application, or in the header of a workflow manifest."}


def children_of(
    node: Node | None, what: str, findings: Findings, known: Collection[str] | None = None, *, strict: bool = False
) -> Mapping[str, Node]:
    """Return the children of a map, none if the node isn't one.

    Keys other than `known` are a warning, or an error if `strict`.
    """
    if not isinstance(node, MappingNode):
        if node is not None and not is_null(node):
            report_kind(node, what, "a map", findings)
        return _NO_CHILDREN
    if known is not None:
        report, ignored = (findings.error, "") if strict else (findings.warning, " (ignored)")
        for key in node.children:
            if key not in known:
                hint = findings.hints.nearest(key, known)
                advice = _ADVICE.get(key, f"{hint} Valid keys: {', '.join(known)}.")
                message = f"Unknown key {key[:80]!r}{ignored}.{advice}"
                report("UnknownKey", message, node.place_of(key))
    return node.children


def items_of(node: Node | None, what: str, findings: Findings) -> tuple[Node, ...]:
    """Return the items of a list, none if the node isn't one."""
    if isinstance(node, SequenceNode):
        return node.children
    if node is not None and not is_null(node):
        report_kind(node, what, "a list", findings)
    return ()


def text_of(node: Node | None, what: str, findings: Findings) -> str | None:
    """Return a scalar's source text (`1.10`, `true`), None if the node isn't a scalar."""
    if isinstance(node, ScalarNode):
        return None if node.value is None else node.text
    if node is not None:
        report_kind(node, what, "a string", findings)
    return None


def names_of(node: Node | None, what: str, findings: Findings) -> Iterator[ScalarNode]:
    """Yield the scalars of a list of names; a single name needs no list."""
    if isinstance(node, ScalarNode):
        if node.value is not None:
            yield node
        return
    for item in items_of(node, what, findings):
        if isinstance(item, ScalarNode) and item.value is not None:
            yield item
        else:
            report_kind(item, f"An entry of {what}", "a name", findings)


def entries_of(node: Node | None, what: str, findings: Findings) -> Iterator[tuple[str, Node, Place]]:
    """Yield `(name, child, place of the name)` of a map, or of a list of one-key maps (manifest-language §5, "Steps").

    In the list form a bare name is a name without content.
    """
    if isinstance(node, MappingNode):
        for name, child in node.items():
            yield name, child, node.keys[name]
        return
    if node is not None and not isinstance(node, SequenceNode) and not is_null(node):
        report_kind(node, what, "a map or a list of one-key maps", findings)
        return
    for item in items_of(node, what, findings):
        if isinstance(item, MappingNode) and len(item.children) == 1:
            name, child = next(iter(item.items()))
            yield name, child, item.keys[name]
        elif isinstance(item, ScalarNode) and item.value is not None:
            yield item.text, ScalarNode(None, "", item.line, item.column), item
        else:
            shown = f"a map with {len(item.children)} keys" if isinstance(item, MappingNode) else kind_of(item)
            message = f"An entry of {what} must be a map with one key, its name, not {shown}. Check the indentation."
            findings.error("UnexpectedKind", message, item)


def is_name(name: str, what: str, place: Place, findings: Findings) -> bool:
    """Return whether a name of `what` has a valid length; report it if not."""
    if 0 < len(name) <= NAME_CHARS:
        return True
    problem = f"has {len(name)} characters. Use at most {NAME_CHARS}." if name else "is empty."
    findings.error("BadName", f"The name {name[:20]!r} in {what} {problem}", place)
    return False


def report_kind(node: Node, what: str, expected: str, findings: Findings) -> None:
    findings.error("UnexpectedKind", f"{what} must be {expected}, not {kind_of(node)}.", node)
