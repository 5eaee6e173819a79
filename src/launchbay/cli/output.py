"""Results on the standard output: JSON and YAML as the API has them, or tables for people."""

import json
from collections.abc import Sequence
from typing import Any

import click
import yaml

from launchbay.cli.lazy import load


def show_one_of_many(value: Any, output: str) -> None:
    """Print one of the documents of a stream: JSON in one line, YAML as a document of its own."""
    if output == "json":
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=True), nl=False)


def show(value: Any, output: str, columns: Sequence[str] = ()) -> None:
    """Print a result: a text as it is, a document in the chosen form. `columns` are those of a table of its items."""
    if isinstance(value, str):
        click.echo(value, nl=not value.endswith("\n"))
    elif output == "json":
        click.echo(json.dumps({} if value is None else value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        click.echo(yaml.safe_dump({} if value is None else value, sort_keys=False, allow_unicode=True), nl=False)
    elif value is None or value == {}:
        click.echo("Done.", err=True)
    elif isinstance(value, dict) and set(value) == {"id"}:
        click.echo(value["id"])
    else:
        # Tables need a library that takes as long to load as all the rest; documents do not.
        load("launchbay.cli.tables:show_table")(value, columns)
