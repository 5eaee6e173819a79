"""Names and texts of the API, in the words and the layout of Python."""

import builtins
import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from launchbay.app.features import ENDPOINTS
from launchbay.web.openapi import document

Schema = Mapping[str, Any]
ROOT = Path(__file__).parents[1]


def described() -> Schema:
    """Return the OpenAPI document of the endpoint table."""
    return document(ENDPOINTS)


def snake(name: str) -> str:
    """Return a camel-case name of the API as Python writes it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def safe(name: str) -> str:
    """Return a name that hides nothing of Python's own."""
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) else name


def singular(noun: str) -> str:
    """Return the singular of a plural in a path."""
    if noun.endswith("ies"):
        return f"{noun[:-3]}y"
    return noun[:-2] if noun.endswith("sses") else noun.removesuffix("s")


_ARGUMENTS = {"commandname": "command", "otherJobId": "other_job_id"}  # whose names don't follow from the path


def path_arguments(path: str) -> Mapping[str, str]:
    """Return parameters of a path with what Python calls them: `{id}` of an environment is environment_id."""
    found: dict[str, str] = {}
    segments = path.split("/")
    for before, segment in pairwise(segments):
        if segment.startswith("{"):
            name = segment[1:-1]
            is_id = name == "id" or name.endswith("Id")
            found[name] = _ARGUMENTS.get(name) or (
                f"{snake(singular(before)).replace('-', '_')}_id" if is_id else snake(name)
            )
    return found


def literal(text: str) -> str:
    """Return a text in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def docstring(paragraphs: Sequence[str], indent: str) -> str:
    """Return a docstring of these paragraphs; the first is the summary, and each of the others begins a line."""
    cleaned = [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()]
    if len(cleaned) == 1 and len(cleaned[0]) + len(indent) + 6 <= 120:
        return f'{indent}"""{cleaned[0]}"""'
    width = 117 - len(indent)  # the formatter may put the closing quotes on the same line
    summary, *rest = (
        "\n".join(textwrap.wrap(paragraph, width, break_on_hyphens=False))
        for paragraph in [f'"""{cleaned[0]}', *cleaned[1:]]
    )
    return textwrap.indent("\n".join([summary, "", *rest, '"""'] if rest else [summary, '"""']), indent)


def table_row(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
