"""Which files a marker expression can't select anything from: nobody imports or collects those.

Each of four processes collects all tests. For `-m "slow and …"` most files have nothing, and others are slow as a
whole: importing those cost more than many tests.
"""

import re
from functools import cache
from pathlib import Path

# What only the marked tests have, by the text of their file or of the conftest.py next to it.
MARKS = ("slow", "packages", "faults", "load")
_WHOLE = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)


def nothing_in(file: Path, expression: str) -> bool:
    """Return whether no test of a file can match, such as `slow and not load` or `not slow`.

    Expressions with other operators could match anywhere. A file has a mark if it spells `mark.slow`.
    """
    if re.search(r"[()]|\bor\b", expression) or file.suffix != ".py" or not file.name.startswith("test_"):
        return False
    terms = [term.split() for term in expression.split(" and ")]
    wanted = {words[0] for words in terms if len(words) == 1}.intersection(MARKS)
    unwanted = {words[1] for words in terms if len(words) == 2 and words[0] == "not"}.intersection(MARKS)
    if not wanted and not unwanted:
        return False
    text = file.read_text("utf-8")
    if any(not _says(mark, text) and not _says(mark, _conftest(file.parent)) for mark in wanted):
        return True
    whole = " ".join(_WHOLE.findall(text))
    return any(_says(mark, whole) for mark in unwanted)


def _says(mark: str, text: str) -> bool:
    return re.search(rf"\bmark\.{mark}\b", text) is not None


@cache
def _conftest(folder: Path) -> str:
    file = folder / "conftest.py"
    return file.read_text("utf-8") if file.exists() else ""
