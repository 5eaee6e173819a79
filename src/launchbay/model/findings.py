"""What the manifest compiler has to say about a manifest (manifest-language §1, "Every finding")."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Literal, NoReturn, Protocol

from launchbay.errors import InvalidManifest
from launchbay.limits import FINDING_CHARS, MANIFEST_ERRORS, MANIFEST_FINDINGS

Severity = Literal["error", "warning"]


class Place(Protocol):
    """Anything that knows where in the text it stands; both numbers start at 1."""

    @property
    def line(self) -> int:
        """The line, the first one is 1."""
        ...

    @property
    def column(self) -> int:
        """The column in characters, the first one is 1."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One error (refuses the upload) or warning (does not), with a sentence and a place in the text."""

    severity: Severity
    code: str
    message: str
    line: int
    column: int

    def to_document(self) -> dict[str, str | int]:
        """Return the form in which the API shows a finding."""
        return {"message": self.message, "line": self.line, "column": self.column, "code": self.code}


class Findings:
    """Collects findings in the order they are met; of a severity beyond `MANIFEST_FINDINGS` the rest is counted.

    With the `MANIFEST_ERRORS`-th error the counting ends, and `InvalidManifest` is raised: nobody mends so many.
    """

    def __init__(self) -> None:
        self._kept: dict[Severity, list[Finding]] = {"error": [], "warning": []}
        self._counts: dict[Severity, int] = {"error": 0, "warning": 0}

    def error(self, code: str, message: str, place: Place) -> None:
        """Note something that refuses the manifest."""
        self.add(Finding("error", code, _clipped(message), place.line, place.column))

    def warning(self, code: str, message: str, place: Place) -> None:
        """Note something that the author should know and that refuses nothing."""
        self.add(Finding("warning", code, _clipped(message), place.line, place.column))

    def add(self, finding: Finding) -> None:
        """Take a finding that was made elsewhere."""
        self._counts[finding.severity] += 1
        if len(self._kept[finding.severity]) < MANIFEST_FINDINGS:
            self._kept[finding.severity].append(finding)
        if self._counts["error"] >= MANIFEST_ERRORS:
            self.raise_errors()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The errors, the last one telling how many more there were."""
        return self._shown("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings, the last one telling how many more there were."""
        return self._shown("warning")

    def raise_errors(self) -> None:
        """Raise `InvalidManifest` with all errors, if there are any."""
        if self._counts["error"]:
            raise_invalid_manifest(*self.errors)

    def _shown(self, severity: Severity) -> tuple[Finding, ...]:
        kept = self._kept[severity]
        more = self._counts[severity] - len(kept)
        if not more:
            return tuple(kept)
        last = kept[-1]
        told = f"There are {more} more {severity}s like these."
        if self._counts["error"] >= MANIFEST_ERRORS:
            told = f"There are {more} more {severity}s like these up to here, where the reading was given up."
        rest = Finding(severity, "MoreFindings", told, last.line, last.column)
        return (*kept, rest)


def _clipped(message: str) -> str:
    """Return the sentence within its bound: it may quote texts of the author, which can be of any length."""
    return message if len(message) <= FINDING_CHARS else f"{message[:FINDING_CHARS]}…"


def raise_invalid_manifest(*findings: Finding) -> NoReturn:
    """Raise `InvalidManifest` that carries these findings."""
    raise InvalidManifest([finding.to_document() for finding in findings])


_HINTS_MAX = 20  # comparing texts is slow: a manifest with more mistakes than this gets the rest without hints
_CANDIDATES_MAX = 200
_NAME_CHARS = 80
_NAMES_SHOWN = 10


def shorten_names(names: Iterable[str]) -> str:
    """Return the first names for a sentence, or "none"."""
    return ", ".join(islice(names, _NAMES_SHOWN)) or "none"


class Hints:
    """Gives the first few mistakes of one manifest a hint each."""

    def __init__(self) -> None:
        self._left = _HINTS_MAX

    def nearest(self, name: str, candidates: Iterable[str]) -> str:
        """Return a sentence, with a space before it, that names the most similar candidate, if one is similar."""
        if self._left == 0 or len(name) > _NAME_CHARS:
            return ""
        self._left -= 1
        known = [candidate for candidate in islice(candidates, _CANDIDATES_MAX) if len(candidate) <= _NAME_CHARS]
        close = get_close_matches(name, known, n=1)
        return f" Did you mean '{close[0]}'?" if close else ""
