"""Manifests without a server: `validate` and `graph`."""

import json
import sys
from pathlib import Path

import click

from launchbay.actions.registry import Registry
from launchbay.cli.diagrams import FORMATS, diagram
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.values import file_text
from launchbay.errors import InvalidManifest
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.model.findings import Finding
from launchbay.runtime.components.registry import ComponentTypes

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
