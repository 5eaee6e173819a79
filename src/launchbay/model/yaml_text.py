"""The one writer of YAML: what it writes, every reader reads as the same values.

Readers follow YAML 1.1 (PyYAML, kubectl, Helm) or 1.2 (Launchbay, ruamel.yaml, npm's `yaml` and `js-yaml`), and each
knows numbers, times and words that others take for strings. A string that any of them would read as something else is
quoted; tests/model/test_yaml_readers.py asks them all.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from launchbay.model.scalars import settled

# Without its sign and underscores, which YAML 1.1 allows in numbers: integers of every base, reals (also those that one
# reader alone accepts, such as `1.e3`), base 60, dates and times. Digits can match in one way only: in two, a long text
# of digits would take quadratic time.
_NUMBER = re.compile(
    r"""0[xX][0-9a-fA-F]*|0[oO][0-7]*|0[bB][01]*|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]*)?|\.[0-9]+(?:[eE][-+]?[0-9]*)?
    |[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?|\.(?:inf|nan)""",
    re.VERBOSE | re.IGNORECASE,
)
_WORDS = frozenset(("", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<"))
_NO_FOLDING = 2**31 - 1  # the longest line that the emitter supports


def yaml_text(value: Any, *, is_one_of_many: bool = False, keeps_numbers: bool = False) -> str:
    """Return JSON data as a YAML document in block style.

    `is_one_of_many` puts `---` before it. With `keeps_numbers`, numbers that remember their text (`msgspec.Raw`) have
    it, because the type that decides about them is unknown yet. Raises `yaml.YAMLError` or
    `RecursionError` for what isn't JSON data.
    """
    text: str = yaml.dump(
        value if keeps_numbers else settled(value),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=_NO_FOLDING,
        explicit_start=is_one_of_many,
    )
    return text.removesuffix("...\n") if text.endswith("\n...\n") else text  # PyYAML's end mark after a bare scalar


def _style(text: str) -> str | None:
    """Return how to write a string; the library knows the syntax."""
    # Block style preserves only line feeds, and no spaces at the end of lines.
    if (
        "\n" in text
        and text[0] not in " \n"
        and all(each == each.rstrip() and each.isprintable() for each in text.split("\n"))
    ):
        return "|"
    if not text.isprintable():
        return '"'
    is_word = text.lower() in _WORDS
    return "'" if is_word or _NUMBER.fullmatch(text.lstrip("+-").replace("_", "")) else None


class _Dumper(yaml.SafeDumper):
    """Quotes what any reader would misread, and writes no anchors."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _map(dumper: _Dumper, value: Mapping[str, Any]) -> yaml.MappingNode:
    return dumper.represent_dict(dict(value))


def _number(dumper: _Dumper, number: msgspec.Raw) -> yaml.ScalarNode:
    text = bytes(number).decode()
    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call] # any other one would be written before the number
    return dumper.represent_scalar(tag, text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(msgspec.Raw, _number)
_Dumper.add_multi_representer(Mapping, _map)  # type: ignore[type-abstract] # any class of maps
