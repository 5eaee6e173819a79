"""Findings of the manifest compiler: what is wrong, and where (manifest-language §1, "Every finding")."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Literal, NoReturn, Protocol, TypeAlias

from launchbay.errors import InvalidManifest
from launchbay.limits import FINDING_CHARS, MANIFEST_ERRORS, MANIFEST_FINDINGS

Severity = Literal["error", "warning"]


class Place(Protocol):
    """Anything with a place in the text; both numbers start at 1."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int:
        """The column, in characters."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, which rejects the upload, or warning, which doesn't."""

    severity: Severity
    code: str
    message: str
    line: int
    column: int

    def to_document(self) -> dict[str, str | int]:
        """Return the finding as the API shows it."""
        return {"message": self.message, "line": self.line, "column": self.column, "code": self.code}


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the text."""
    return sorted(findings, key=lambda finding: (finding.line, finding.column))


class _Collection:
    """Findings by severity in the order they are met; beyond `MANIFEST_FINDINGS` of one severity, only their number."""

    def __init__(self) -> None:
        self._stored: dict[Severity, list[Finding]] = {"error": [], "warning": []}
        self._counts: dict[Severity, int] = {"error": 0, "warning": 0}
        self._causes: set[tuple[str, int, int, str]] = set()
        self.hints = Hints()

    def add(self, finding: Finding) -> None:
        self._counts[finding.severity] += 1
        if len(self._stored[finding.severity]) < MANIFEST_FINDINGS:
            self._stored[finding.severity].append(finding)
        if self._counts["error"] >= MANIFEST_ERRORS:
            raise_invalid_manifest(*self.shown("error"))

    def is_new(self, code: str, message: str, place: Place) -> bool:
        """Return whether this value has no such finding yet.

        Aliases bring one value into many parts.
        """
        cause = (code, place.line, place.column, message.partition(_HINT)[0])
        if cause in self._causes:
            return False
        self._causes.add(cause)
        return True

    def shown(self, severity: Severity) -> tuple[Finding, ...]:
        stored = self._stored[severity]
        more = self._counts[severity] - len(stored)
        if not more:
            return tuple(stored)
        message = f"{more} more {severity}s aren't shown."
        if self._counts["error"] >= MANIFEST_ERRORS:
            message = f"{more} more {severity}s aren't shown. Checking stopped after {MANIFEST_ERRORS} errors."
        return (*stored, Finding(severity, "MoreFindings", message, stored[-1].line, stored[-1].column))


# The path of what contains a part, and the names of the part. Most parts have no finding, so their path isn't joined.
_Path: TypeAlias = "tuple[_Path, tuple[str, ...]] | None"


def _names(path: _Path) -> Iterator[str]:
    if path is not None:
        yield from _names(path[0])
        yield from filter(None, path[1])


class Findings:
    """Collects the findings of one manifest.

    A message starts with the path of the part that it is about: `ferry › launch › ask-office: Unknown action …`.
    One value gets one finding for one cause, though aliases repeat it.

    The `MANIFEST_ERRORS`-th error raises `InvalidManifest`: no one fixes that many at a time.
    """

    __slots__ = ("_collection", "_path")

    def __init__(self, path: _Path = None, collection: _Collection | None = None) -> None:
        self._path = path
        self._collection = _Collection() if collection is None else collection

    def at(self, *names: str) -> "Findings":
        """Return the same collection for a part, under these names, of what this one is about; "" adds no name."""
        return Findings((self._path, names), self._collection)

    @property
    def hints(self) -> "Hints":
        """The suggestions for the manifest."""
        return self._collection.hints

    def error(self, code: str, message: str, place: Place) -> None:
        """Add a finding that rejects the manifest."""
        if self._collection.is_new(code, message, place):
            self.add(Finding("error", code, self._located(message), place.line, place.column))

    def warning(self, code: str, message: str, place: Place) -> None:
        """Add a finding that the author should know and that rejects nothing."""
        if self._collection.is_new(code, message, place):
            self.add(Finding("warning", code, self._located(message), place.line, place.column))

    def add(self, finding: Finding) -> None:
        """Add a finding as it is, without the path."""
        self._collection.add(finding)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The errors; if there are too many to show, the last one says how many more."""
        return self._collection.shown("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings; if there are too many to show, the last one says how many more."""
        return self._collection.shown("warning")

    def raise_errors(self) -> None:
        """Raise `InvalidManifest` with all errors, if there are any."""
        if self.errors:
            raise_invalid_manifest(*self.errors)

    def _located(self, message: str) -> str:
        """Return the message after the path, clipped: both may quote the author's strings, which have any length."""
        path = " › ".join(_names(self._path))
        located = f"{path}: {message}" if path else message
        return located if len(located) <= FINDING_CHARS else f"{located[:FINDING_CHARS]}…"


def raise_invalid_manifest(*findings: Finding) -> NoReturn:
    raise InvalidManifest([finding.to_document() for finding in findings])


_HINT = " Did you mean '"
_HINTS_MAX = 20  # comparing strings is slow: a manifest with more typos than this gets the rest without hints
_CANDIDATES_MAX = 200
_NAME_CHARS = 80
_NAMES_SHOWN = 10


def shorten_names(names: Iterable[str]) -> str:
    """Return the first names, comma-separated, or "none"."""
    return ", ".join(islice(names, _NAMES_SHOWN)) or "none"


class Hints:
    """Suggests a similar name for each of the first typos of one manifest."""

    def __init__(self) -> None:
        self._left = _HINTS_MAX

    def nearest(self, name: str, candidates: Iterable[str]) -> str:
        """Return " Did you mean 'x'?" with the most similar candidate, or "" if none is similar."""
        if self._left == 0 or len(name) > _NAME_CHARS:
            return ""
        self._left -= 1
        known = [candidate for candidate in islice(candidates, _CANDIDATES_MAX) if len(candidate) <= _NAME_CHARS]
        close = get_close_matches(name, known, n=1)
        return f"{_HINT}{close[0]}'?" if close else ""
