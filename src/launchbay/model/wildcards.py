"""Wildcards as people write them in answers and expectations: `*` is any text, `?` one character, all else itself."""

import re
from functools import lru_cache


def fits(pattern: str, text: str) -> bool:
    """Tell whether a text is as the pattern says."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+|\?)", pattern)
    return re.compile("".join(_PART.get(part[:1], re.escape(part)) for part in parts), re.DOTALL)


_PART = {"*": ".*", "?": "."}
