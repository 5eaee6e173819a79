"""A compiled manifest as a diagram: components by their composites, links with the pins that they carry."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from launchbay.manifest.graph import CompiledManifest, Component

_NEW_LINE = r"\n"  # as Graphviz reads it in a label


class _Notation(Protocol):
    """How a kind of diagram is written."""

    def node(self, number: str, parts: Sequence[str]) -> str:
        """Write a component of these lines."""
        ...

    def opening(self, name: str, path: str) -> str:
        """Write the beginning of a composite."""
        ...

    def closing(self) -> str:
        """Write its end."""
        ...

    def terminal(self, name: str) -> str:
        """Write one end of the application."""
        ...

    def link(self, begin: str, end: str, text: str) -> str:
        """Write a link."""
        ...

    def whole(self, lines: Sequence[str]) -> str:
        """Return the diagram of these lines."""
        ...


class Mermaid:
    """A flow chart of Mermaid."""

    def node(self, number: str, parts: Sequence[str]) -> str:
        """Write a component."""
        return f'{number}["{"<br/>".join(_html(part) for part in parts)}"]'

    def opening(self, name: str, path: str) -> str:
        """Write the beginning of a composite."""
        return f'subgraph {name}["{_html(path)}"]'

    def closing(self) -> str:
        """Write its end."""
        return "end"

    def terminal(self, name: str) -> str:
        """Write one end of the application."""
        return f'{name}(["{name}"])'

    def link(self, begin: str, end: str, text: str) -> str:
        """Write a link."""
        return f'{begin} -- "{_html(text)}" --> {end}'

    def whole(self, lines: Sequence[str]) -> str:
        """Return the diagram."""
        return "\n".join(["flowchart LR", *lines]) + "\n"


class Dot:
    """A graph of Graphviz."""

    def node(self, number: str, parts: Sequence[str]) -> str:
        """Write a component."""
        return f'{number} [label="{_NEW_LINE.join(_quoted(part) for part in parts)}"];'

    def opening(self, name: str, path: str) -> str:
        """Write the beginning of a composite."""
        return f'subgraph cluster_{name} {{ label="{_quoted(path)}";'

    def closing(self) -> str:
        """Write its end."""
        return "}"

    def terminal(self, name: str) -> str:
        """Write one end of the application."""
        return f"{name} [shape=oval];"

    def link(self, begin: str, end: str, text: str) -> str:
        """Write a link."""
        return f'{begin} -> {end} [label="{_quoted(text)}"];'

    def whole(self, lines: Sequence[str]) -> str:
        """Return the diagram."""
        head = ["digraph manifest {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
        return "\n".join([*head, *lines, "}"]) + "\n"


FORMATS: Mapping[str, _Notation] = {"mermaid": Mermaid(), "dot": Dot()}


def diagram(manifest: CompiledManifest, form: str) -> str:
    """Return the diagram of a manifest in one of `FORMATS`."""
    notation, numbers = FORMATS[form], _numbers(manifest)
    lines = list(_nested(manifest, notation, "", list(manifest.components), 1))
    ends = {"parameters": manifest.parameters, "results": manifest.results}
    lines += [f"  {notation.terminal(name)}" for name, pins in ends.items() if pins]
    for begin, end, text in _links(manifest):
        lines.append(f"  {notation.link(numbers.get(begin, begin), numbers.get(end, end), text)}")
    return notation.whole(lines)


def _numbers(manifest: CompiledManifest) -> dict[str, str]:
    return {path: f"c{number}" for number, path in enumerate(manifest.components)}


def _nested(
    manifest: CompiledManifest, notation: _Notation, inside: str, paths: Sequence[str], depth: int
) -> Iterator[str]:
    """Yield the lines of components below a composite, each inside of composites of its own."""
    numbers = _numbers(manifest)
    groups: dict[str, list[str]] = {}
    for path in paths:
        head, dot, _ = path[len(inside) :].partition(".")
        groups.setdefault(f"{inside}{head}" if dot else path, []).append(path)
    for group, members in groups.items():
        if members == [group]:
            yield "  " * depth + notation.node(numbers[group], _label(manifest.components[group]))
        else:
            yield "  " * depth + notation.opening(_name(group), group)
            yield from _nested(manifest, notation, f"{group}.", members, depth + 1)
            yield "  " * depth + notation.closing()


def _links(manifest: CompiledManifest) -> Iterator[tuple[str, str, str]]:
    """Yield the links from where a value or a command comes to where it goes, with the names of the pins."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, pin in manifest.parameters.items():
        for target in pin.targets:
            found.setdefault(("parameters", target.component), []).append(name)
    for path, component in manifest.components.items():
        for peers in component.peers.values():
            for peer in peers:
                for pin_name, target in peer.pins.items():
                    found.setdefault((target.component, path), []).append(pin_name)
    for name, pin in manifest.results.items():
        for target in pin.targets:
            found.setdefault((target.component, "results"), []).append(name)
    for (begin, end), names in found.items():
        shown = list(dict.fromkeys(names))
        yield begin, end, ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _label(component: Component) -> list[str]:
    workflows = sorted(name for name in component.workflows if not name.startswith("."))
    name = component.path.rpartition(".")[2]
    return [name, component.type, *([", ".join(workflows)] if workflows else [])]


def _name(path: str) -> str:
    """Return a path as a name that both notations take."""
    return "g_" + "".join(letter if letter.isalnum() and letter.isascii() else f"_{ord(letter):x}_" for letter in path)


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
