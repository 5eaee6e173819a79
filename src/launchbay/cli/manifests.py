"""Manifests without a server: `validate` and `graph`."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import click

from launchbay.actions.registry import Registry
from launchbay.cli.inputs import file_text
from launchbay.cli.output import ExitCode
from launchbay.errors import InvalidManifest
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.findings import Finding
from launchbay.runtime.components.registry import ComponentTypes

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


_AROUND_CHARS = 80


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Let warnings count as errors.")
def validate(files: tuple[str, ...], output: str, strict: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Check manifests offline, with line and column of everything that is wrong."""
    actions, types = Registry.load().names(), ComponentTypes.load().definitions
    texts = {name: file_text(name) for name in files}
    found = {name: check(text.encode(), known_actions=actions, known_types=types) for name, text in texts.items()}
    if output == "json":
        documents = {
            name: [{"severity": each.severity, **each.to_document()} for each in findings]
            for name, findings in found.items()
        }
        click.echo(json.dumps(documents, indent=2, ensure_ascii=False))
    else:
        for name, findings in found.items():
            for finding in findings:
                click.echo(_line(name, finding))
                _point(texts[name], finding)
            if not findings:
                click.echo(f"{name}: good")
    bad = [each for findings in found.values() for each in findings if strict or each.severity == "error"]
    if bad:
        sys.exit(ExitCode.FAILED)


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--format", "form", type=click.Choice(tuple(FORMATS)), default="mermaid", show_default=True)
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write it there.")
def graph(file: str, form: str, output_file: Path | None) -> None:
    """Draw the components of a manifest and their links, as Mermaid or as DOT of Graphviz; offline."""
    actions, types = Registry.load().names(), ComponentTypes.load().definitions
    try:
        compiled = compile_manifest(file_text(file).encode(), known_actions=actions, known_types=types)
    except InvalidManifest as error:
        for found in error.findings:
            click.echo(f"{file}:{found['line']}:{found['column']}: {found['message']} [{found['code']}]", err=True)
        sys.exit(ExitCode.FAILED)
    text = diagram(compiled, form)
    if output_file is None:
        click.echo(text, nl=False)
    else:
        output_file.write_text(text, "utf-8")


def _line(name: str, finding: Finding) -> str:
    colour = "red" if finding.severity == "error" else "yellow"
    severity = click.style(finding.severity, fg=colour)
    return f"{name}:{finding.line}:{finding.column}: {severity}: {finding.message} [{finding.code}]"


def _point(text: str, finding: Finding) -> None:
    """Show the line of a finding, with a mark under its column; of a long line only what is around it."""
    lines = text.splitlines()
    if not 1 <= finding.line <= len(lines):
        return
    column = finding.column - 1
    begin = max(0, column - _AROUND_CHARS)
    shown = lines[finding.line - 1][begin : column + _AROUND_CHARS].expandtabs(1)
    number = str(finding.line)
    click.secho(f"    {number} | {shown}", dim=True)
    click.secho(f"    {' ' * len(number)} | {' ' * (column - begin)}^", dim=True)
