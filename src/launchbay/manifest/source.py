"""Places inside scalars: where a character of a value is in the manifest's text."""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from launchbay.limits import MANIFEST_FINDINGS
from launchbay.manifest.reader import Position, decode
from launchbay.manifest.tree import ScalarNode
from launchbay.model.findings import Place

_SOURCE_CHARS_PER_CHAR = 12  # of a value, with indentation and escapes
_WORD_CHARS = 200


class Source:
    """The text of one manifest, which is decoded when the first place is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lookups_left = 2 * MANIFEST_FINDINGS  # a lookup reads up to the whole text; more findings aren't shown

    def place(self, scalar: ScalarNode, offset: int) -> Place:
        """Return the place of the character at a 0-based offset in a scalar.

        The word at the offset is looked up in the source from the scalar's start on, after as many equal words as come
        before it in the value. That holds for every style of scalars but escapes, for which it is the scalar's place.
        """
        text = scalar.text
        offset = min(offset, len(text.rstrip()) - 1)
        word = text[max(0, offset) : offset + _WORD_CHARS].split(maxsplit=1)
        if not word or self._lookups_left == 0:
            return scalar
        self._lookups_left -= 1
        offset += text[offset:].index(word[0])
        at = self._content_start(scalar)
        end = at + _SOURCE_CHARS_PER_CHAR * (len(text) + 100)
        for _ in range(text.count(word[0], 0, offset) + 1):
            at = self._text.find(word[0], at, end) + 1
            if at == 0:
                return scalar
        line = bisect_right(self._line_starts, at - 1)
        return Position(line, at - self._line_starts[line - 1])

    def _content_start(self, scalar: ScalarNode) -> int:
        """Return the index after the header of a block scalar, else of the scalar itself."""
        start = self._line_starts[scalar.line - 1] + scalar.column - 1
        line_end = self._text.find("\n", start)
        is_block = line_end >= 0 and _is_block_header(self._text[start:line_end])
        return line_end if is_block else start

    @cached_property
    def _text(self) -> str:
        return decode(self._data, len(self._data)).replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._text.split("\n"))]


def _is_block_header(line: str) -> bool:
    """Return whether a scalar's first line has only its style.

    The style is `|-` or `>`, for instance, and may follow an anchor and a tag.
    """
    words = [word for word in line.split(" #", maxsplit=1)[0].split() if word[0] not in "&!"]
    return len(words) == 1 and words[0][0] in "|>" and not words[0][1:].strip("+-123456789")
