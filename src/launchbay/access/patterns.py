"""Resource path patterns of a role: `*` inside a segment, and as the last segment everything below."""

from dataclasses import dataclass
from functools import cached_property

from launchbay.access.resources import Resource
from launchbay.limits import ROLE_PATTERN_CHARS


class PatternError(ValueError):
    """The text is not a pattern; the sentence says why."""


@dataclass(frozen=True)
class Pattern:
    """One pattern as written, compared case-sensitively. Make it with `parse_pattern`."""

    text: str

    @cached_property
    def _segments(self) -> tuple[str, ...]:
        return tuple(self.text.split("/")[1:])

    @cached_property
    def _below(self) -> bool:
        return self._segments[-1].strip("*") == ""

    def concerns(self, kind: str) -> bool:
        """Tell whether the pattern says anything about resources of this kind."""
        return segment_matches(self._segments[0], kind)

    def covers(self, resource: Resource) -> bool:
        """Tell whether the resource is one of those that the pattern describes."""
        mine, theirs = self._segments, resource.segments
        if self._below:
            # At least one segment has to be there for the last `*`; the ones before it are compared one by one.
            return len(theirs) >= len(mine) and all(map(segment_matches, mine[:-1], theirs))
        return len(theirs) == len(mine) and all(map(segment_matches, mine, theirs))


def parse_pattern(text: str) -> Pattern:
    """Return the pattern. Raises PatternError when it is too long, does not start with `/` or has an empty segment."""
    if len(text) > ROLE_PATTERN_CHARS:
        raise PatternError(
            f"a resource path pattern has at most {ROLE_PATTERN_CHARS} characters, this one has {len(text)}"
        )
    if not text.startswith("/"):
        raise PatternError(f"the resource path pattern {text!r} must start with '/', such as /applications/*")
    if "" in text.split("/")[1:]:
        raise PatternError(
            f"the resource path pattern {text!r} has an empty segment; write /applications/*, for example"
        )
    return Pattern(text)


def segment_matches(pattern: str, segment: str) -> bool:
    """Match one segment; every `*` stands for any number of characters.

    The pieces between the stars are found from left to right, so that no pattern takes more than linear passes:
    a regular expression made from a pattern would backtrack without a bound.
    """
    if "*" not in pattern:
        return pattern == segment
    first, *middle, last = pattern.split("*")
    if len(segment) < len(first) + len(last) or not segment.startswith(first) or not segment.endswith(last):
        return False
    position, end = len(first), len(segment) - len(last)
    for piece in middle:
        found = segment.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
