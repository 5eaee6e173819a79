"""The text of a manifest before it is a tree: its encoding, its characters, and the words for a syntax error."""

import re
from typing import NamedTuple, NoReturn

import yaml

from launchbay.limits import KIB, MANIFEST_BYTES
from launchbay.model.findings import Finding, Place, refuse

_ALLOWED_BYTES = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\0\0\xfe\xff", "UTF-32"))
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_TAG_DIRECTIVES = 16  # libyaml compares each one with all others
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class Spot(NamedTuple):
    """A place of its own, both numbers starting at 1."""

    line: int
    column: int


def decode(data: bytes) -> str:
    """Return the text without a byte order mark. Raises `InvalidManifest` on size, encoding, a forbidden character."""
    if len(data) > MANIFEST_BYTES:
        message = f"The manifest has {len(data)} bytes; at most {MANIFEST_BYTES // KIB} KiB are read. Make it shorter."
        _refuse("ManifestTooLarge", message, Spot(1, 1))
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            _refuse("NotUtf8", f"The manifest is {encoding}. Save it as UTF-8.", Spot(1, 1))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        spot = spot_at(data[: error.start].decode("utf-8"))
        _refuse("NotUtf8", f"The byte 0x{data[error.start]:02x} is not valid UTF-8. Save the manifest as UTF-8.", spot)
    text = text.removeprefix("\ufeff")
    if not text.isascii() or data.translate(None, _ALLOWED_BYTES):
        forbidden = _FORBIDDEN.search(text)
        if forbidden:
            message = f"The character U+{ord(forbidden[0]):04X} must not stand in a manifest. Remove it."
            _refuse("ForbiddenCharacter", message, spot_at(text[: forbidden.start()]))
    if len(_TAG_DIRECTIVE.findall(text)) > _TAG_DIRECTIVES:
        _refuse("TooManyDirectives", f"More than {_TAG_DIRECTIVES} %TAG directives. Remove them.", Spot(1, 1))
    return _join_surrogates(text)


def spot_at(before: str) -> Spot:
    """Return the place right after this text."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n")
    return Spot(lines.count("\n") + 1, len(lines) - lines.rfind("\n"))


def syntax_finding(error: yaml.YAMLError, text: str) -> Finding:
    """Return PyYAML's error as a finding, with what to do about the frequent ones."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return Finding("error", "YamlSyntax", f"This is not YAML: {error}.", 1, 1)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = f"This is not YAML: {error.problem}"
    if error.context:
        message += f" {error.context}"
        if error.context_mark and error.context_mark.line + 1 != line:
            message += f" that starts in line {error.context_mark.line + 1}"
    return Finding(
        "error", "YamlSyntax", f"{message}.{_remedy(text[mark.index : mark.index + 1] if mark else '')}", line, column
    )


def _remedy(character: str) -> str:
    if character == "\t":
        return " A tab cannot indent YAML. Use spaces."
    if character and character in "@`%":
        return f" Put a text that starts with {character} in quotes."
    return ""


def _join_surrogates(text: str) -> str:
    """Write the escaped surrogate pairs of a JSON document as one YAML escape each, as libyaml wants them.

    JSON is recognized by its first character; in it every text is double-quoted. Columns after such a pair are two
    less than in the source.
    """
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return _SURROGATE_PAIR.sub(_joined, text)


def _joined(pair: re.Match[str]) -> str:
    code = 0x10000 + ((int(pair[2], 16) & 0x3FF) << 10) + (int(pair[3], 16) & 0x3FF)
    return f"{pair[1]}\\U{code:08X}"


def _refuse(code: str, message: str, place: Place) -> NoReturn:
    refuse(Finding("error", code, message, place.line, place.column))
