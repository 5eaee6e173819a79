"""The authorization matrix as text that people read and review.

A section is a row of the endpoint table, a line an object. `200 a, b · 403 everybody else` says who got what. Callers
without good credentials get 401 and are not named then.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.access.matrix_world import UNKNOWN_CALLERS

FILE = Path(__file__).with_name("matrix.golden")
# LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/access/test_matrix.py
WRITES = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
HEAD = """\
Who may do what: every endpoint, every kind of caller, every kind of object. Written by tests/access/test_matrix.py;
after a change that is meant: LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/access/test_matrix.py, and read the diff.

Callers: anonymous, with an expired token, and for the first line also with a wrong password, and of a disabled account:
401 unless a line says more.
The administrator of the organization `home`, by password and by token; members of it without a role, and with a role
of one permission for everything (`- Read: [/*]` and so on), or of two; the administrator of the organization `away`.
Objects: of `home`, of `away`, and `missing`; `home/away` is one of away addressed below one of home.
Lists: all, some or none of what the administrator sees.
"""
Outcomes = Mapping[str, str]  # caller → "403", or "200 all"


def line(outcomes: Outcomes) -> str:
    """Return one line: who got what."""
    groups: dict[str, list[str]] = {}
    for actor, outcome in outcomes.items():
        groups.setdefault(outcome, []).append(actor)
    unknown = [actor for actor in outcomes if actor in UNKNOWN_CALLERS]
    if groups.get("401") == unknown:
        del groups["401"]
    rest = max(groups, key=lambda outcome: len(groups[outcome]))
    everybody = "anybody, with credentials or without" if "anonymous" in groups[rest] else "everybody"
    shown = [f"{outcome} {', '.join(actors)}" for outcome, actors in sorted(groups.items()) if outcome != rest]
    return " · ".join([*shown, f"{rest} {everybody}{' else' if shown else ''}"])


def section(title: str, lines: Mapping[str, Outcomes]) -> str:
    """Return the text of one row of the table."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:{width}}  {line(outcomes)}" for name, outcomes in lines.items())])


def stored() -> dict[str, str]:
    """Return the sections of the file by their title."""
    parts = FILE.read_text("utf-8").split("\n\n")[2:] if FILE.exists() else []
    return {part.partition("\n")[0]: part.rstrip("\n") for part in parts}


def write(sections: Mapping[str, str], titles: Sequence[str]) -> None:
    """Write the file in the order of the titles: sections that were not computed this time stay as they are."""
    known = stored() | dict(sections)
    texts = [HEAD.rstrip("\n"), *(known[title] for title in titles if title in known)]
    FILE.write_text("\n\n".join(texts) + "\n", "utf-8")
