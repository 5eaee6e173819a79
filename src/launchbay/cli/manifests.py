"""`launchbay validate` and `launchbay graph`: manifests without a server."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click

from launchbay.actions.registry import Registry
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.files import file_text
from launchbay.errors import InvalidManifest
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.cron import parse
from launchbay.model.findings import Finding, by_place
from launchbay.model.schedule import due_times, local_time, schedule_warnings, zone_of
from launchbay.runtime.components.registry import ComponentTypes


@dataclass(frozen=True)
class Notation:
    """The syntax of a graph language. Formats have {id}, {label}, {source} and {target}."""

    node_format: str
    terminal_format: str
    link_format: str
    composite_format: str
    composite_end: str
    header: Sequence[str]
    footer: Sequence[str]
    line_break: str
    escapes: Mapping[int, str]

    def escape(self, text: str) -> str:
        """Return the text for use in a label."""
        return text.translate(self.escapes)

    def node(self, node_id: str, lines: Sequence[str]) -> str:
        """Return a component with these lines as its label."""
        return self.node_format.format(id=node_id, label=self.line_break.join(self.escape(line) for line in lines))


MERMAID = Notation(
    node_format='{id}["{label}"]',
    terminal_format='{id}(["{id}"])',
    link_format='{source} -- "{label}" --> {target}',
    composite_format='subgraph {id}["{label}"]',
    composite_end="end",
    header=("flowchart LR",),
    footer=(),
    line_break="<br/>",
    escapes=str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"}),
)
DOT = Notation(
    node_format='{id} [label="{label}"];',
    terminal_format="{id} [shape=oval];",
    link_format='{source} -> {target} [label="{label}"];',
    composite_format='subgraph cluster_{id} {{ label="{label}";',
    composite_end="}",
    header=("digraph manifest {", "  rankdir=LR;", "  node [shape=box, style=rounded];"),
    footer=("}",),
    line_break=r"\n",  # as Graphviz reads it
    escapes=str.maketrans({"\\": r"\\", '"': r"\""}),
)
FORMATS: Mapping[str, Notation] = {"mermaid": MERMAID, "dot": DOT}


def diagram(manifest: CompiledManifest, form: str) -> str:
    notation, ids = FORMATS[form], _ids(manifest)
    lines = list(_nested(manifest, notation, "", list(manifest.components), 1))
    ends = {"parameters": manifest.parameters, "results": manifest.results}
    lines += [f"  {notation.terminal_format.format(id=name)}" for name, pins in ends.items() if pins]
    for source, target, pins in _links(manifest):
        lines.append(
            "  "
            + notation.link_format.format(
                source=ids.get(source, source), target=ids.get(target, target), label=notation.escape(pins)
            )
        )
    return "\n".join([*notation.header, *lines, *notation.footer]) + "\n"


def _ids(manifest: CompiledManifest) -> dict[str, str]:
    return {path: f"c{number}" for number, path in enumerate(manifest.components)}


def _nested(
    manifest: CompiledManifest, notation: Notation, inside: str, paths: Sequence[str], depth: int
) -> Iterator[str]:
    """Yield the lines of the components inside a composite; nested composites contain theirs."""
    ids = _ids(manifest)
    groups: dict[str, list[str]] = {}
    for path in paths:
        head, dot, _ = path[len(inside) :].partition(".")
        groups.setdefault(f"{inside}{head}" if dot else path, []).append(path)
    for group, members in groups.items():
        if members == [group]:
            yield "  " * depth + notation.node(ids[group], _label(manifest.components[group]))
        else:
            yield "  " * depth + notation.composite_format.format(id=_name(group), label=notation.escape(group))
            yield from _nested(manifest, notation, f"{group}.", members, depth + 1)
            yield "  " * depth + notation.composite_end


def _links(manifest: CompiledManifest) -> Iterator[tuple[str, str, str]]:
    """Yield links as source, target and names of the pins, in the direction of values and commands."""
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
    """Return a path as a name that both notations accept."""
    return "g_" + "".join(letter if letter.isalnum() and letter.isascii() else f"_{ord(letter):x}_" for letter in path)


_AROUND_CHARS = 80
_NEXT_TIMES = 5  # of a schedule
_UTC = zone_of("UTC")


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
def validate(files: tuple[str, ...], output: str, strict: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Check manifests without a server. Print findings with line and column.

    A FILE of - reads standard input. Exit with 1 if a manifest has an error. Schedules show their next times.
    """
    actions, types = Registry.load().by_name, ComponentTypes.load().definitions
    texts = {name: file_text(name) for name in files}
    found = {
        name: by_place(check(text.encode(), known_actions=actions, known_types=types)) for name, text in texts.items()
    }
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
                click.echo(f"{name}: valid")
            if not any(finding.severity == "error" for finding in findings):
                manifest = compile_manifest(texts[name].encode(), known_actions=actions, known_types=types)
                for line in _schedules(manifest, datetime.now(UTC)):
                    click.echo(f"{name}: {line}")
        codes = {finding.code for findings in found.values() for finding in findings}
        if codes:
            click.echo(f"To read more, run: launchbay explain {min(codes) if len(codes) == 1 else 'CODE'}", err=True)
    bad = [each for findings in found.values() for each in findings if strict or each.severity == "error"]
    if bad:
        sys.exit(ExitCode.FAILED)


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format", "form", type=click.Choice(tuple(FORMATS)), default="mermaid", show_default=True, help="Graph format."
)
@click.option(
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the graph to this file. Default: standard output.",
)
def graph(file: str, form: str, output_file: Path | None) -> None:
    """Draw the components of a manifest and their links, as a Mermaid or Graphviz (DOT) graph."""
    actions, types = Registry.load().by_name, ComponentTypes.load().definitions
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


def _schedules(manifest: CompiledManifest, now: datetime) -> Iterator[str]:
    """Yield a line for each schedule: its next times in UTC, and its warnings."""
    for path, component in manifest.components.items():
        for workflow, cron in component.schedule.items():
            times = [local_time(each, _UTC) for each in islice(due_times(cron, now), _NEXT_TIMES)]
            # Days and steps are findings of their own, with line and column.
            told = {*parse(cron).warnings}
            notes = [each for each in schedule_warnings(cron, _UTC, now) if each not in told]
            yield f"{path}.{workflow} at {cron}: {' · '.join([*times, *notes])}"


def _line(name: str, finding: Finding) -> str:
    colour = "red" if finding.severity == "error" else "yellow"
    severity = click.style(finding.severity, fg=colour)
    return f"{name}:{finding.line}:{finding.column}: {severity}: {finding.message} [{finding.code}]"


def _point(text: str, finding: Finding) -> None:
    """Print the line of a finding, shortened around its column, with a mark below."""
    lines = text.splitlines()
    if not 1 <= finding.line <= len(lines):
        return
    column = finding.column - 1
    begin = max(0, column - _AROUND_CHARS)
    shown = lines[finding.line - 1][begin : column + _AROUND_CHARS].expandtabs(1)
    number = str(finding.line)
    click.secho(f"    {number} | {shown}", dim=True)
    click.secho(f"    {' ' * len(number)} | {' ' * (column - begin)}^", dim=True)
