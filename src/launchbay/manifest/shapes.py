"""Takes nodes of the shape that the language expects; what has another shape becomes a finding and is left out."""

from collections.abc import Iterator, Mapping

from launchbay.limits import NAME_CHARS
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, is_null, kind_of
from launchbay.model.findings import Findings, Place

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
        _misfit(node, what, "a map", findings)
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
        _misfit(node, what, "a list", findings)
    return ()


def text_or_none(node: Node | None, what: str, findings: Findings) -> str | None:
    """Return a scalar's text as written; None where it is absent or null, and, with an error, where it is no scalar."""
    if isinstance(node, ScalarNode):
        return None if node.value is None else node.text
    if node is not None:
        _misfit(node, what, "a text", findings)
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
            _misfit(item, f"An entry of {what[0].lower()}{what[1:]}", "a name", findings)


def entries_of(node: Node | None, what: str, findings: Findings) -> Iterator[tuple[str, Node, Place]]:
    """Yield `(name, child, place of the name)` of a map, or of a list of one-key maps (manifest-language §5, "Steps").

    In the list form a bare name stands for a name with nothing under it.
    """
    if isinstance(node, MappingNode):
        for name, child in node.items():
            yield name, child, node.keys[name]
        return
    if node is not None and not isinstance(node, SequenceNode) and not is_null(node):
        _misfit(node, what, "a map or a list of one-key maps", findings)
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


def _misfit(node: Node, what: str, expected: str, findings: Findings) -> None:
    findings.error("UnexpectedKind", f"{what} must be {expected}, but it is {kind_of(node)}.", node)
