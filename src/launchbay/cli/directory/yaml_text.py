"""Values as YAML that reads back as the same values."""

from typing import Any

import yaml

from launchbay.manifest.reader import resolve


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.2 reads them as texts: the library quotes only what 1.1 would read otherwise."""

    def ignore_aliases(self, _: Any) -> bool:
        """Write everything out."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # Block style keeps only line feeds, and no spaces at the end of lines.
    is_block = "\n" in text and all(line == line.rstrip() and line.isprintable() for line in text.split("\n"))
    style = "|" if is_block and text[:1] not in {" ", "\n"} else None if _is_plain(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    try:
        return isinstance(resolve(text), str) and text.isprintable()
    except ValueError:
        return False


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """Return a value of JSON's kinds as a YAML document."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text
