"""Statements as PostgreSQL's own PREPARE takes them."""

import re


def numbered(text: str) -> str:
    """Return a statement with `$1` in the place of `%(name)s`."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    return re.sub(
        r"%(?:%|\((\w+)\)s)", lambda found: "%" if found[1] is None else f"${names.index(found[1]) + 1}", text
    )
