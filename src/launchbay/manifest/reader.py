"""Bytes to a tree with places, within limits (manifest-language §1; docs/reference/limits.md).

Only the *events* of PyYAML's C parser are used. Its loader composes nodes by C recursion and crashes on 60 KB of nested
brackets. Its events don't recurse, and reading stops at the first exceeded limit, which also avoids libyaml's quadratic
time on deep flow nesting.

Merge keys (`<<`) aren't YAML 1.2, but common: the maps they name are merged first, in their order, and the map's own
keys win. Their content counts against the limits like that of any alias.
"""

import re
from typing import Any, NamedTuple, NoReturn, TypeAlias

import yaml
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from launchbay import limits
from launchbay.limits import KIB
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, kind_of, unquoted_expression
from launchbay.model.findings import Finding, Findings, Place, raise_invalid_manifest
from launchbay.model.scalars import (
    CONSTANTS,
    NUMBER_STARTS,
    SCALAR_TAGS,
    TAG_PREFIX,
    ScalarValue,
    resolve,
    resolve_kubernetes,
    resolve_tagged,
    too_large,
)

_ALLOWED_BYTES = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\0\0\xfe\xff", "UTF-32"))
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_TAG_DIRECTIVES = 16  # libyaml compares each one with all others
_UNQUOTED = re.compile(r"""^[^'"#]*(?:[:-][ ]+|[\[{,][ ]*)(?P<value>\{\$[.=]|\$\{)""")  # before any quote
_SHOWN_CHARS = 80
_KEY_CHARS = 1_024  # of a key without `?`, for libyaml as for the YAML specification
_QUOTES = frozenset("'\"")
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class Bounds(NamedTuple):
    """How large one manifest may be; all but `bytes` count aliases as expanded."""

    bytes: int = limits.MANIFEST_BYTES
    nodes: int = limits.MANIFEST_NODES
    expressions: int = limits.MANIFEST_EXPRESSIONS
    bound_pins: int = limits.MANIFEST_BOUND_PINS


DEFAULT_BOUNDS = Bounds()


class Position(NamedTuple):
    """A place without a node; both numbers start at 1."""

    line: int
    column: int


def decode(data: bytes, bytes_max: int = limits.MANIFEST_BYTES) -> str:
    """Return the text without its byte order mark. Raises `InvalidManifest` on size, encoding, forbidden characters."""
    if len(data) > bytes_max:
        message = f"The manifest has {len(data)} bytes. The limit is {bytes_max // KIB} KiB."
        _refuse_bytes("ManifestTooLarge", message, Position(1, 1))
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            _refuse_bytes("NotUtf8", f"The manifest is {encoding}. Save it as UTF-8.", Position(1, 1))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        spot = position_at(data[: error.start].decode("utf-8"))
        _refuse_bytes(
            "NotUtf8", f"The byte 0x{data[error.start]:02x} is not valid UTF-8. Save the manifest as UTF-8.", spot
        )
    text = text.removeprefix("\ufeff")
    if not text.isascii() or data.translate(None, _ALLOWED_BYTES):
        forbidden = _FORBIDDEN.search(text)
        if forbidden:
            message = f"A manifest can't contain the character U+{ord(forbidden[0]):04X}. Remove it."
            _refuse_bytes("ForbiddenCharacter", message, position_at(text[: forbidden.start()]))
    if len(_TAG_DIRECTIVE.findall(text)) > _TAG_DIRECTIVES:
        _refuse_bytes("TooManyDirectives", f"More than {_TAG_DIRECTIVES} %TAG directives. Remove some.", Position(1, 1))
    return _join_surrogates(text)


def position_at(before: str) -> Position:
    """Return the place right after this text."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n")
    return Position(lines.count("\n") + 1, len(lines) - lines.rfind("\n"))


def syntax_finding(error: yaml.YAMLError, text: str) -> Finding:
    """Return PyYAML's error as a finding, with the fix for frequent ones."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return Finding("error", "YamlSyntax", f"Invalid YAML: {error}.", 1, 1)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if mark and (unquoted := _unquoted(text, mark.index)) is not None:
        start, value = unquoted
        place = position_at(text[:start])
        message = f"Invalid YAML: {value} begins a map, because of its brace. Write it in double quotes."
        return Finding("error", "YamlSyntax", message, place.line, place.column)
    message = f"Invalid YAML: {error.problem}"
    if error.context:
        message += f" {error.context}"
        if error.context_mark and error.context_mark.line + 1 != line:
            message += f" that starts in line {error.context_mark.line + 1}"
    remedy = _remedy(text, mark.index) if mark else ""
    return Finding("error", "YamlSyntax", f"{message}.{remedy}", line, column)


def _remedy(text: str, index: int) -> str:
    """Return the sentence that helps with an error of syntax at this index, or ""."""
    character = text[index : index + 1]
    if character == "\t":
        return " Indent with spaces, not tabs."
    if character and character in "@`%":
        return f" Quote a string that starts with {character}."
    if character == ":":
        if index - _key_start(text, index) > _KEY_CHARS:
            return f" Shorten the key before this colon to at most {_KEY_CHARS:,} characters."
        if text[index + 1 : index + 2] in {",", "}", "]"}:
            return " Write a space after the colon."
    return ""


def _unquoted(text: str, index: int) -> tuple[int, str] | None:
    """Return start and text of the value at this index if it is an expression without quotes."""
    line = text.rfind("\n", 0, index) + 1
    found = _UNQUOTED.search(text[line : index + 2])
    if found is None:
        return None
    start, depth = line + found.start("value"), 0
    written = text[start : start + _SHOWN_CHARS].partition("\n")[0].partition(" #")[0]
    for at, character in enumerate(written):
        depth += (character in "[{") - (character in "]}")
        if depth < 0 or (depth == 0 and character == ","):  # it ends with what it is in
            return start, written[:at]
    return start, written.rstrip()


def _key_start(text: str, colon: int) -> int:
    """Return the index of the first character of the key that a colon ends."""
    end = len(text[:colon].rstrip())
    if end == 0 or text[end - 1] not in _QUOTES:
        return max(text.rfind(character, 0, end) for character in "\n{,[") + 1
    start = text.rfind(text[end - 1], 0, end - 1)
    while start > 0 and text[start - 1] in ("\\", text[start]):  # escaped
        start = text.rfind(text[end - 1], 0, start - 1)
    return start


def _join_surrogates(text: str) -> str:
    """Write the escaped surrogate pairs of a JSON document as one YAML escape each, as libyaml requires.

    JSON is recognized by its first character; in it every string is double-quoted. Columns after such a pair are two
    less than in the source.
    """
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return _SURROGATE_PAIR.sub(_joined, text)


def _joined(pair: re.Match[str]) -> str:
    code = 0x10000 + ((int(pair[2], 16) & 0x3FF) << 10) + (int(pair[3], 16) & 0x3FF)
    return f"{pair[1]}\\U{code:08X}"


def _refuse_bytes(code: str, message: str, place: Place) -> NoReturn:
    raise_invalid_manifest(Finding("error", code, message, place.line, place.column))


_MAPPING_TAGS = frozenset((None, "!", f"{TAG_PREFIX}map"))
_SEQUENCE_TAGS = frozenset((None, "!", f"{TAG_PREFIX}seq"))
_Event: TypeAlias = Any  # PyYAML's stubs call every mark, tag and value optional; those of these events are not


def read(
    data: bytes, bounds: Bounds = DEFAULT_BOUNDS, findings: Findings | None = None, *, keeps_numbers: bool = False
) -> Node:
    """Return the one document in `data` as a tree of frozen nodes.

    Its warnings are added to `findings`. With `keeps_numbers`, a plain number that JSON lacks is a `NumberTooLarge`.
    Raises `errors.InvalidManifest`, and nothing else: with every duplicate key, unknown tag and impossible value, and
    with the first error of encoding, syntax or bounds.
    """
    text = decode(data, bounds.bytes)
    findings = Findings() if findings is None else findings
    try:
        node = _read_document(CParser(text), findings, bounds, keeps_numbers=keeps_numbers)
    except yaml.YAMLError as error:
        findings.add(syntax_finding(error, text))
    except _Refused as refused:
        findings.add(refused.finding)
    findings.raise_errors()
    return node


def read_kubernetes(data: bytes, nodes_max: int) -> list[Node]:
    """Return the documents in `data` as kubectl and Helm read them (`model/scalars.py`).

    Raises `errors.InvalidManifest`.
    """
    text = decode(data, len(data))
    findings = Findings()
    documents: list[Node] = []
    parser = CParser(text)
    try:
        parser.get_event()  # the stream starts
        left = nodes_max
        while isinstance(parser.get_event(), DocumentStartEvent):
            builder = _KubernetesBuilder(parser, findings, left)
            documents.append(builder.node(parser.get_event(), 0))
            parser.get_event()  # the document ends
            left -= builder.count
    except yaml.YAMLError as error:
        findings.add(syntax_finding(error, text))
    except _Refused as refused:
        findings.add(refused.finding)
    findings.raise_errors()
    return documents


def _read_document(parser: CParser, findings: Findings, bounds: Bounds, *, keeps_numbers: bool) -> Node:
    """Read the document between the stream's start and end. Raises `_Refused` and PyYAML's errors."""
    parser.get_event()  # the stream starts
    event = parser.get_event()
    if not isinstance(event, DocumentStartEvent):
        _refuse("EmptyManifest", "The manifest is empty. The smallest one is {}.", Position(1, 1))
    node = _Builder(parser, findings, bounds.nodes, keeps_numbers=keeps_numbers).node(parser.get_event(), 0)
    parser.get_event()  # the document ends
    event = parser.get_event()
    if not isinstance(event, StreamEndEvent):
        _refuse("SecondDocument", "A second YAML document starts here. Keep one.", _position(event))
    return node


class _Refused(Exception):
    """An error that ends the reading."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class _Content(NamedTuple):
    """The content of an anchor, with its expanded size."""

    node: Node
    nodes: int
    chars: int
    height: int  # levels of maps and lists in it


class _Builder:
    """Builds nodes from events within the limits. Calls nest at most `MANIFEST_DEPTH` deep."""

    resolver = staticmethod(resolve)

    def __init__(self, parser: CParser, findings: Findings, nodes_max: int, *, keeps_numbers: bool = False) -> None:
        self._keeps_numbers = keeps_numbers
        self._next_event = parser.get_event
        self._nodes_max = nodes_max
        self._findings = findings
        self._anchors: dict[str, _Content | None] = {}  # None while its node is being read
        self._nodes = 0
        self._chars = 0
        self._deepest = 0

    @property
    def count(self) -> int:
        """The number of nodes so far, aliases expanded."""
        return self._nodes

    def node(self, event: _Event, depth: int) -> Node:
        """Return the node that starts with this event, inside `depth` maps and lists."""
        anchor = event.anchor
        if anchor is None:
            return self._scalar(event) if event.__class__ is ScalarEvent else self._content(event, depth)
        if event.__class__ is AliasEvent:
            return self._alias(event, depth)
        self._anchors[anchor] = None
        nodes, chars, deepest = self._nodes, self._chars, self._deepest
        self._deepest = depth
        node = self._content(event, depth)
        if self._anchors[anchor] is None:  # otherwise its content has defined the anchor again, later in the text
            self._anchors[anchor] = _Content(node, self._nodes - nodes, self._chars - chars, self._deepest - depth)
        self._deepest = max(deepest, self._deepest)
        return node

    def _content(self, event: _Event, depth: int) -> Node:
        if event.__class__ is ScalarEvent:
            return self._scalar(event)
        if event.__class__ is MappingStartEvent:
            return self._mapping(event, depth + 1)
        return self._sequence(event, depth + 1)

    def _alias(self, event: _Event, depth: int) -> Node:
        if event.anchor not in self._anchors:
            message = f"Alias *{event.anchor} has no anchor &{event.anchor} before it."
            _refuse("UnknownAnchor", message, _position(event))
        content = self._anchors[event.anchor]
        if content is None:
            message = f"Alias *{event.anchor} is inside its own anchor &{event.anchor}."
            _refuse("SelfReference", message, _position(event))
        self._count(event, content.nodes)
        self._chars += content.chars
        if self._chars > limits.MANIFEST_EXPANDED_CHARS:
            message = f"With aliases expanded, the manifest has more than {limits.MANIFEST_EXPANDED_CHARS} characters."
            _refuse("TooMuchText", f"{message} Use fewer aliases.", _position(event))
        self._enter(event, depth + content.height)
        return content.node

    def _scalar(self, event: _Event) -> ScalarNode:
        mark = event.start_mark
        text: str = event.value
        value: ScalarValue = text
        self._nodes += 1
        if self._nodes > self._nodes_max:
            self._count(event, 0)
        self._chars += len(text)
        if event.tag is not None:
            value = self._valued(event)
        elif event.implicit[0]:
            if text in CONSTANTS:
                value = CONSTANTS[text]
            elif text[0] in NUMBER_STARTS:
                value = self._valued(event)
        if "\0" in text:
            self._findings.error(
                "ForbiddenCharacter", r"A string can't contain the character \0. Remove it.", _position(event)
            )
        return ScalarNode(value, text, mark.line + 1, mark.column + 1)

    def _valued(self, event: _Event) -> ScalarValue:
        """Return the value of a scalar that is tagged or may be a number."""
        text: str = event.value
        try:
            if event.tag is None:
                return self.resolver(text)
            if event.tag in SCALAR_TAGS:
                return resolve_tagged(text, event.tag, self.resolver)
        except ValueError as error:
            if event.tag is None and self._keeps_numbers:
                mark = event.start_mark
                return too_large(text, f"line {mark.line + 1}, column {mark.column + 1}: {error}")
            self._findings.error("ImpossibleValue", str(error), _position(event))
            return text
        if event.tag != "!":  # a bare tag means "string"
            self._report_tag(event)
        return text

    def _sequence(self, event: _Event, depth: int) -> SequenceNode:
        mark = event.start_mark
        self._count(event, 1)
        self._enter(event, depth)
        if event.tag not in _SEQUENCE_TAGS:
            self._report_tag(event)
        children = []
        next_event, node = self._next_event, self.node
        while (child := next_event()).__class__ is not SequenceEndEvent:
            children.append(node(child, depth))
        return SequenceNode(tuple(children), mark.line + 1, mark.column + 1)

    def _mapping(self, event: _Event, depth: int) -> MappingNode:
        mark = event.start_mark
        self._count(event, 1)
        self._enter(event, depth)
        if event.tag not in _MAPPING_TAGS:
            self._report_tag(event)
        children: dict[str, Node] = {}
        keys: dict[str, ScalarNode] = {}
        merge_key = None
        next_event, node = self._next_event, self.node
        while (key_event := next_event()).__class__ is not MappingEndEvent:
            if key_event.__class__ is ScalarEvent and key_event.value and key_event.anchor is None:
                key = self._scalar(key_event)
            else:
                key = self._key(key_event, depth)
            child_event = next_event()
            if child_event.__class__ is ScalarEvent and child_event.anchor is None:
                child: Node = self._scalar(child_event)
            else:
                child = node(child_event, depth)
            text = key.text
            if text in keys:
                first = keys[text]
                message = f"Duplicate key {text!r}. The first one is in line {first.line}, column {first.column}."
                self._findings.error("DuplicateKey", message, key)
                continue
            keys[text] = key
            children[text] = child
            if text == "<<" and key_event.__class__ is ScalarEvent and key_event.implicit[0]:
                merge_key = key
        if merge_key is not None:
            children, keys = self._merged(children, keys, merge_key)
        mapping = MappingNode(children, keys, mark.line + 1, mark.column + 1)
        if event.flow_style:
            self._check_quotes(mapping)
        return mapping

    def _check_quotes(self, mapping: MappingNode) -> None:
        expression = unquoted_expression(mapping)
        if expression is not None:
            message = f"Without quotes, {expression[:80]} is a map and not an expression. Write it in double quotes."
            self._findings.warning("UnquotedExpression", message, mapping)

    def _key(self, event: _Event, depth: int) -> ScalarNode:
        """Return a key; keys are equal if their source text is: `3` and `"3"` are the same."""
        node = self.node(event, depth)
        if not isinstance(node, ScalarNode):
            _refuse("KeyNotText", f"A key must be a string, not {kind_of(node)}.", _position(event))
        if not node.text and node.value is None:
            _refuse("KeyMissing", "A key is missing before the colon.", _position(event))
        return node

    def _merged(
        self, children: dict[str, Node], keys: dict[str, ScalarNode], merge_key: ScalarNode
    ) -> tuple[dict[str, Node], dict[str, ScalarNode]]:
        """Return those of the merge key's maps, then children and keys; of equal keys, the first map's wins."""
        source = children.pop("<<")
        del keys["<<"]
        all_children: dict[str, Node] = {}
        all_keys: dict[str, ScalarNode] = {}
        for node in source.children if isinstance(source, SequenceNode) else (source,):
            if not isinstance(node, MappingNode):
                message = f"The merge key << requires a map or a list of maps, not {kind_of(node)}."
                self._findings.error("MergeNotMap", message, merge_key)
                continue
            for key, child in node.children.items():
                if key not in all_children:
                    all_children[key] = child
                    all_keys[key] = node.keys[key]
        return all_children | children, all_keys | keys

    def _count(self, event: _Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self._nodes_max:
            message = f"The manifest has more than {self._nodes_max} values with aliases expanded."
            _refuse("TooManyNodes", f"{message} Use fewer.", _position(event))

    def _enter(self, event: _Event, depth: int) -> None:
        if depth > self._deepest:
            self._deepest = depth
            if depth > limits.MANIFEST_DEPTH:
                message = f"Maps and lists have more than {limits.MANIFEST_DEPTH} levels. Use fewer levels."
                _refuse("TooDeep", message, _position(event))

    def _report_tag(self, event: _Event) -> None:
        shown = event.tag.replace(TAG_PREFIX, "!!")
        message = f"Unknown tag {shown[:80]!r}. Remove it, or put only ! before a string."
        self._findings.error("UnknownTag", message, _position(event))


class _KubernetesBuilder(_Builder):
    """Builds the nodes of objects of Kubernetes, which have other scalars."""

    resolver = staticmethod(resolve_kubernetes)

    def _scalar(self, event: _Event) -> ScalarNode:
        node = super()._scalar(event)
        if event.tag is None and event.implicit[0] and isinstance(node.value, str) and node.text:
            return ScalarNode(self._valued(event), node.text, node.line, node.column)
        return node


def _position(event: _Event) -> Place:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1)


def _refuse(code: str, message: str, place: Place) -> NoReturn:
    raise _Refused(Finding("error", code, message, place.line, place.column))
