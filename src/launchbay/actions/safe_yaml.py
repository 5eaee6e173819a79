"""YAML from outside as data: any number of documents, within bounds, with the scalars of YAML 1.2's core schema.

The text is looked at as events before anything is made of it: the loader of the library recurses in C and would die of
deep nesting, and what aliases share would be written out later (quality.md §3).
"""

import re
from typing import Any

import yaml

from launchbay import limits


class _Loader(yaml.CSafeLoader):
    """Without the dates, base-60 numbers, `yes` and `on` of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the library's attribute


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    # A leading zero is no octal number in YAML 1.2.
    text = str(loader.construct_scalar(node))
    return int(text, 16 if "x" in text else 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def read_documents(text: str) -> list[Any]:
    """Return the documents that are not empty. Raises ValueError with what is wrong and where."""
    try:
        _check(text)
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None


def _check(text: str) -> None:
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent):
            problem = f"line {line}: write out what the alias stands for"
            raise ValueError(problem)  # noqa: TRY004 - it is the text that is wrong, and no type
        if depth > limits.MANIFEST_DEPTH:
            raise ValueError(f"line {line}: nested more than {limits.MANIFEST_DEPTH} deep")
        if nodes > limits.KUBERNETES_NODES:
            raise ValueError(f"line {line}: more than {limits.KUBERNETES_NODES} values")
