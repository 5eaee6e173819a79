"""Reads a role's `permissions` text: YAML holding a list of entries, each a permission name with a list of patterns.

The text is read as events, with bounds; nothing is composed or constructed, so no document costs more than its length.
"""

from collections.abc import Iterator
from typing import NoReturn, Protocol

import yaml

from launchbay.access.grants import Entry
from launchbay.access.patterns import Pattern, PatternError, parse_pattern
from launchbay.access.permissions import Permission, permission_named
from launchbay.errors import BadRequest
from launchbay.limits import ROLE_PATTERNS, ROLE_TEXT_BYTES

_FINDINGS_SHOWN = 20
_SHAPE = "a role is a list such as '- CreateInstance: [/applications/*]'"


def read_role_text(text: str) -> tuple[Entry, ...]:
    """Return the entries of a role in their order; an empty text has none.

    Raises BadRequest with line and column for bad YAML, another shape, an unknown permission name or a bad pattern.
    """
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        _refuse_at_index(text, error.start, "half of a surrogate pair is not a character")
    if size > ROLE_TEXT_BYTES:
        raise BadRequest(f"The permissions of a role have at most {ROLE_TEXT_BYTES} bytes, these have {size}.")
    reader = _Reader(text)
    try:
        entries = reader.document()
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(text, error)
    except yaml.reader.ReaderError:
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        _refuse_at_index(text, found.start() if found else 0, "this character cannot stand in YAML text")
    if reader.findings:
        more = len(reader.findings) - _FINDINGS_SHOWN
        rest = [f"There are {more} more errors like these."] if more > 0 else []
        raise BadRequest(*reader.findings[:_FINDINGS_SHOWN], *rest, code="InvalidRole")
    return entries


class _Mark(Protocol):
    """A place as PyYAML's C parser and its Python parser both give it; the numbers start at 0."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class _Reader:
    """Goes through the events once. What is wrong in meaning is collected, what is wrong in shape is raised."""

    def __init__(self, text: str) -> None:
        self.findings: list[str] = []
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._patterns = 0

    def document(self) -> tuple[Entry, ...]:
        self._next()  # the start of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return ()
        event = self._next()
        entries: list[Entry] = []
        if isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                entries += self._entry(event)
        elif not (isinstance(event, yaml.ScalarEvent) and event.value == ""):
            _refuse(event.start_mark, _SHAPE)
        self._next()  # the end of the document
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            _refuse(event.start_mark, "a role is one YAML document, here begins another one")
        return tuple(entries)

    def _entry(self, event: yaml.Event) -> list[Entry]:
        if not isinstance(event, yaml.MappingStartEvent):
            _refuse(event.start_mark, f"an entry is a permission name with a list of patterns; {_SHAPE}")
        entries = []
        names: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                _refuse(event.start_mark, "a permission name must stand here")
            permission = self._permission(event, names)
            patterns = self._pattern_list(event.value)
            if permission is not None:
                entries.append(Entry(permission, patterns))
        return entries

    def _permission(self, event: yaml.ScalarEvent, names: set[str]) -> Permission | None:
        if event.value in names:
            self._find(event.start_mark, f"{event.value!r} stands twice in one entry; begin another entry with '-'")
        names.add(event.value)
        permission = permission_named(event.value)
        if permission is None:
            known = ", ".join(Permission)
            self._find(event.start_mark, f"{event.value[:80]!r} is not a permission. Permissions: {known}")
        return permission

    def _pattern_list(self, name: str) -> tuple[Pattern, ...]:
        event = self._next()
        if not isinstance(event, yaml.SequenceStartEvent):
            _refuse(
                event.start_mark, f"{name[:80]!r} needs a list of resource path patterns, such as [/applications/*]"
            )
        patterns = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                _refuse(event.start_mark, "a resource path pattern is a text, such as /applications/*")
            self._patterns += 1
            if self._patterns > ROLE_PATTERNS:
                _refuse(event.start_mark, f"a role has at most {ROLE_PATTERNS} patterns; the rest begins here")
            try:
                patterns.append(parse_pattern(event.value))
            except PatternError as error:
                self._find(event.start_mark, str(error))
        return tuple(patterns)

    def _next(self) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _refuse(event.start_mark, "anchors and aliases have no place in a role; write the patterns out")
        if getattr(event, "tag", None) is not None:
            _refuse(event.start_mark, "tags have no place in a role; leave out what begins with '!'")
        return event

    def _find(self, mark: _Mark | None, problem: str) -> None:
        self.findings.append(_sentence(mark, problem))


def _sentence(mark: _Mark | None, problem: str) -> str:
    assert mark is not None, "the parser gives every event a place"
    return f"Line {mark.line + 1}, column {mark.column + 1}: {problem}."


def _refuse(mark: _Mark | None, problem: str) -> NoReturn:
    raise BadRequest(_sentence(mark, problem), code="InvalidRole")


def _refuse_syntax(text: str, error: yaml.MarkedYAMLError) -> NoReturn:
    problem = error.problem or "this is not YAML"
    mark = error.problem_mark or error.context_mark
    # The parser may see the end of the text on a line that the text does not have.
    if mark is None or mark.line > text.rstrip("\n").count("\n"):
        _refuse_at_index(text, len(text.rstrip("\n")), problem)
    _refuse(mark, problem)


def _refuse_at_index(text: str, index: int, problem: str) -> NoReturn:
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    raise BadRequest(f"Line {line}, column {column}: {problem}.", code="InvalidRole")
