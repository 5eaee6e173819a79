"""Boards of promotion in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from launchbay.cli.output import printable, show
from launchbay.clock import from_ms, iso_time


def show_board(found: Mapping[str, Any], output: str) -> None:
    """Show a board, as a table with the gates of each environment."""
    if output != "table":
        show(found, output)
        return
    if not found["environments"]:
        click.echo("No order of environments.", err=True)
    for line in (line for each in found["environments"] for line in board_lines(each)):
        click.echo(printable(line))


def board_lines(column: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is in an environment, and what keeps the next version from it."""
    name = column["name"] or f"{column['environmentId']}  (deleted, or you may not read it)"
    version = f"  version {column['version']}" if column["version"] else ""
    yield f"{name}{version}"
    for each in column["instances"]:
        since = f", since {iso_time(from_ms(each['since']))}" if each["since"] else ""
        by = f" by {each['byEmail']}" if each["byEmail"] else ""
        change_set = f", change set {each['changeSetId']}" if each["changeSetId"] else ""
        yield f"    {each['name']}: version {each['version']}, {each['status']}{since}{by}{change_set}"
    if column["moreInstances"]:
        yield f"    and {column['moreInstances']} more"
    if column["candidate"]:
        state = "can be promoted" if column["open"] else "is waiting"
        yield f"    Version {column['candidate']} {state}."
    for gate in column["gates"]:
        yield f"    {'open  ' if gate['open'] else 'closed'}  {gate['kind']}: {gate['sentence']}"
    if column["changeSetId"]:
        yield f"    Change set {column['changeSetId']}: {column['changeSetStatus']}"
    if column["message"]:
        yield f"    {column['message']}"
    yield from _difference_lines(column["differences"])


def _difference_lines(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    differing = {name: found[name] for name in ("parameters", "properties", "policies", "markers") if found[name]}
    manifest = found["manifest"] or {}
    for name in ("components", "parameters", "commands"):
        kinds = manifest.get(name) or {}
        if names := [each for kind in ("added", "removed", "changed") for each in kinds.get(kind, ())]:
            differing[f"{name} of the manifest"] = names
    for what, names in differing.items():
        yield f"    differs in {what}: {', '.join(names)}"
