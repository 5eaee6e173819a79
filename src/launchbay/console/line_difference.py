"""The lines in which two texts differ, as pages show them."""

from difflib import SequenceMatcher
from typing import NamedTuple

_CONTEXT = 3  # lines around a change
_MOST_LINES = 6_000  # of both texts together


class Line(NamedTuple):
    """A line of a difference; `sign` is "+", "-", or "".

    A gap has no number.
    """

    number: int | None
    sign: str
    text: str


def compare(old: str, new: str) -> list[Line] | None:
    """Return the lines that differ, with some around them.

    None: the texts are too long.
    """
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_LINES:
        return None
    found: list[Line] = []
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        if found:
            found.append(Line(None, "", "…"))
        for tag, first, end, new_first, new_end in group:
            if tag == "equal":
                found += [Line(new_first + at + 1, "", text) for at, text in enumerate(before[first:end])]
                continue
            found += [Line(first + at + 1, "-", text) for at, text in enumerate(before[first:end])]
            found += [Line(new_first + at + 1, "+", text) for at, text in enumerate(after[new_first:new_end])]
    return found
