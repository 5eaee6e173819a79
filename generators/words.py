"""Names and texts of the API, in the words and the layout of Python."""

import builtins
import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from launchbay.web.endpoints import ENDPOINTS
from launchbay.web.openapi import document

Schema = Mapping[str, Any]
ROOT = Path(__file__).parents[1]
WIDTH = 110  # the formatter does not break texts, so they are broken here


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


def path_arguments(path: str) -> Mapping[str, str]:
    """Return parameters of a path with what Python calls them: `{id}` of an environment is environment_id."""
    found: dict[str, str] = {}
    segments = path.split("/")
    for before, segment in pairwise(segments):
        if segment.startswith("{"):
            name = segment[1:-1]
            is_id = name == "id" or name.endswith("Id")
            found[name] = (
                f"{snake(singular(before))}_id" if is_id else {"commandname": "command"}.get(name, snake(name))
            )
    return found


def text_literal(text: str, indent: str = "") -> str:
    """Return a text as a literal, broken into pieces where it is long."""
    pieces = textwrap.wrap(text, WIDTH - len(indent) - 12, drop_whitespace=False, break_long_words=False) or [""]
    if len(pieces) == 1:
        return literal(text)
    return "(" + " ".join(literal(piece) for piece in pieces) + ")"


def literal(text: str) -> str:
    """Return a text in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def docstring(paragraphs: Sequence[str], indent: str) -> str:
    """Return a docstring of these paragraphs."""
    cleaned = [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()]
    if len(cleaned) == 1 and len(cleaned[0]) + len(indent) + 6 <= 119:
        return f'{indent}"""{cleaned[0]}"""'
    width = 118 - len(indent)
    wrapped = ["\n".join(textwrap.wrap(paragraph, width)) for paragraph in cleaned]
    first = textwrap.wrap('"""' + cleaned[0], width)
    wrapped[0] = "\n".join(first)
    return textwrap.indent("\n\n".join(wrapped) + '\n"""', indent)
