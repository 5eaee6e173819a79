"""Which values differ, and which may, since they are masked or cut. Pure.

How much of a value is kept depends on the others (`redaction.Redactor.bounded`). So equal values can be cut at
different places, and only what both show is compared.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from launchbay.model.redaction import CUT, REDACTED, MaskedValues
from launchbay.model.scalars import same


class ValueDifference(NamedTuple):
    """A value that differs. A missing one is None."""

    name: str
    one: Any
    other: Any


class ValueComparison(NamedTuple):
    """Values that differ, and names of those that may.

    What both show of these is equal, and the rest is masked or cut. They are in the order of the first map. Names in
    maps follow those of the maps, after a period; `…` stands for the names that aren't shown. `equal` counts the equal
    values, without those in maps.
    """

    differences: list[ValueDifference]
    uncertain: list[str]
    equal: int = 0


class _Verdict(Enum):
    EQUAL = auto()
    DIFFERENT = auto()
    UNCERTAIN = auto()


def compare_masked(one: MaskedValues, other: MaskedValues) -> ValueComparison:
    """Return which values differ, and which may."""
    return _Comparison((one.is_cut, other.is_cut)).maps(one.values, other.values)


class _Comparison:
    """A comparison of two sides, with whether each is cut.

    A `…` in one that isn't cut is just text.
    """

    def __init__(self, are_cut: tuple[bool, bool]) -> None:
        self._are_cut = are_cut

    def maps(self, one: Mapping[str, Any], other: Mapping[str, Any], outer: str = "") -> ValueComparison:
        sides = one, other
        ends_early = [is_cut and CUT in side for side, is_cut in zip(sides, self._are_cut, strict=True)]
        open_names = [[name for name in side if self._is_open(name)] for side in sides]
        found = ValueComparison([], [])
        equal = 0
        for name in dict.fromkeys([*one, *other]):
            if name == CUT and any(ends_early):
                continue
            shown = f"{outer}{name}"
            if name not in one or name not in other:
                lacking = 0 if name not in one else 1
                may_be_there = any(self._may_be(name, each, lacking) for each in open_names[lacking])
                if ends_early[lacking] or may_be_there or self._is_open(name):
                    found.uncertain.append(shown)
                else:
                    found.differences.append(ValueDifference(shown, one.get(name), other.get(name)))
                continue
            if self._is_open(name):  # which two names may be shown as, so nobody knows whose values these are
                found.uncertain.append(shown)
                continue
            old, new = one[name], other[name]
            if isinstance(old, Mapping) and isinstance(new, Mapping):
                inside = self.maps(old, new, f"{shown}.")
                found.differences.extend(inside.differences)
                found.uncertain.extend(inside.uncertain)
                equal += not inside.differences and not inside.uncertain
            else:
                verdict = self._verdict(old, new)
                if verdict is _Verdict.DIFFERENT:
                    found.differences.append(ValueDifference(shown, old, new))
                elif verdict is _Verdict.UNCERTAIN:
                    found.uncertain.append(shown)
                equal += verdict is _Verdict.EQUAL
        if any(ends_early):
            found.uncertain.append(f"{outer}{CUT}")
        return found._replace(equal=equal)

    def _is_open(self, name: str) -> bool:
        """Return whether a name may be that of another one: it is masked or cut itself."""
        return REDACTED in name or (any(self._are_cut) and name.endswith(CUT))

    def _may_be(self, name: str, other: str, lacking: int) -> bool:
        """Return whether the side that lacks a name may have it, as another one that is masked or cut."""
        pair = (other, name) if lacking == 0 else (name, other)
        return self._texts(*pair) is not _Verdict.DIFFERENT

    def _verdict(self, one: Any, other: Any) -> _Verdict:
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            inside = self.maps(one, other)
            if inside.differences:
                return _Verdict.DIFFERENT
            return _Verdict.UNCERTAIN if inside.uncertain else _Verdict.EQUAL
        if isinstance(one, list) and isinstance(other, list):
            return self._lists(one, other)
        if isinstance(one, str) and isinstance(other, str):
            return self._texts(one, other)
        for masked, value in ((one, other), (other, one)):
            # Null, booleans and empty values are never masked.
            if masked == REDACTED and value is not None and not isinstance(value, bool) and value not in ([], {}):
                return _Verdict.UNCERTAIN
        return _Verdict.EQUAL if same(one, other) else _Verdict.DIFFERENT

    def _lists(self, one: Sequence[Any], other: Sequence[Any]) -> _Verdict:
        ends_early = [
            is_cut and bool(side) and isinstance(side[-1], str) and side[-1].startswith(f"{CUT} (")
            for side, is_cut in zip((one, other), self._are_cut, strict=True)
        ]
        shown = [side[:-1] if ends else side for side, ends in zip((one, other), ends_early, strict=True)]
        lengths = [len(side) for side in shown]
        for place in (0, 1):
            if not ends_early[place] and lengths[place] < lengths[1 - place]:
                return _Verdict.DIFFERENT
        verdicts = {self._verdict(old, new) for old, new in zip(*shown, strict=False)}
        if _Verdict.DIFFERENT in verdicts:
            return _Verdict.DIFFERENT
        return _Verdict.UNCERTAIN if any(ends_early) or _Verdict.UNCERTAIN in verdicts else _Verdict.EQUAL

    def _texts(self, one: str, other: str) -> _Verdict:
        ends_early = [is_cut and side.endswith(CUT) for side, is_cut in zip((one, other), self._are_cut, strict=True)]
        texts = [side.removesuffix(CUT) if ends else side for side, ends in zip((one, other), ends_early, strict=True)]
        if not any(ends_early) and REDACTED not in one and REDACTED not in other:
            return _Verdict.EQUAL if one == other else _Verdict.DIFFERENT
        are_whole = [not ends and REDACTED not in text for text, ends in zip(texts, ends_early, strict=True)]
        beginnings = [text.partition(REDACTED)[0] for text in texts]
        if not _may_begin_equal(beginnings[0], beginnings[1], are_whole):
            return _Verdict.DIFFERENT
        ends = [text.rpartition(REDACTED)[2][::-1] for text in texts]
        if not any(ends_early) and not _may_begin_equal(ends[0], ends[1], are_whole):
            return _Verdict.DIFFERENT
        return _Verdict.UNCERTAIN


def _may_begin_equal(one: str, other: str, are_whole: Sequence[bool]) -> bool:
    """Return whether two texts may be equal of which these are the beginnings, or all."""
    common = min(len(one), len(other))
    if (are_whole[0] and len(other) > len(one)) or (are_whole[1] and len(one) > len(other)):
        return False
    return one[:common] == other[:common]
