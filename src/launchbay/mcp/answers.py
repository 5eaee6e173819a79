"""Answers for a model: short, with readable times, and without invisible characters."""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec

ANSWER_CHARS = 16_000  # of a whole answer
TEXT_CHARS = 7_000  # of a piece of a manifest or of a log; JSON may double it
# Items of a list, characters of a text, and those of a piece: the first that fits.
_SIZES = ((50, 600, TEXT_CHARS), (20, 300, 3_000), (8, 120, 1_000), (3, 60, 200))
_KEPT_DEPTH = 12
_SHORTENED = "Parts are left out ('…'). Ask for one object, or for fewer."
# Characters that change the direction of a text or are invisible: they could hide something from the reader of a log.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_OF_USERS = {"from", "to", "outputs", "parameters", "returnValues"}  # maps whose names and values are those of users
_TIMES = re.compile(r"(?:At|_at|Seen|since|until)\Z")


WARNINGS: ContextVar[list[str] | None] = ContextVar("warnings", default=None)  # of the calls of one tool


def note_warning(text: str) -> None:
    """Keep a warning of a call for the answer of the tool."""
    noted = WARNINGS.get()
    if noted is not None:
        noted.append(text)


def with_warnings(answer: Any, warnings: Sequence[str]) -> Any:
    """Return an answer with the warnings of its calls, after those that it has."""
    if not warnings:
        return answer
    fields = dict(answer) if isinstance(answer, Mapping) else {"answer": answer}
    own = list(fields.get("warnings") or ())
    return {**fields, "warnings": [*own, *(each for each in dict.fromkeys(warnings) if each not in own)]}


class Verbatim(str):
    """A piece of a longer text, which its tool has cut to size."""

    __slots__ = ()


def visible(text: str) -> str:
    """Return the text with invisible characters written out, such as `<U+202E>`."""
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def rendered(value: Any) -> str:
    """Return a value as JSON of at most `ANSWER_CHARS` characters.

    Most empty fields are left out. What is empty in a map of users stays.
    """
    text = ""
    for items, chars, piece_chars in _SIZES:
        short = _Short(items, chars, piece_chars)
        found = short.value(value, 0)
        if short.has_cut and isinstance(found, dict):
            found["shortened"] = _SHORTENED
        text = msgspec.json.encode(found).decode()
        if len(text) <= ANSWER_CHARS:
            return text
    return msgspec.json.encode({"shortened": _SHORTENED, "beginning": text[: ANSWER_CHARS // 4]}).decode()


class _Short:
    """Shortens one value, and notes whether it left something out."""

    def __init__(self, items: int, chars: int, piece_chars: int) -> None:
        self._items = items
        self._chars = chars
        self._piece_chars = piece_chars
        self._left = 2 * ANSWER_CHARS  # then the answer doesn't fit in any case, and the rest isn't looked at
        self.has_cut = False

    def value(self, value: Any, depth: int, *, is_free: bool = False) -> Any:
        if isinstance(value, msgspec.Struct):
            value = msgspec.to_builtins(value)
        self._left -= min(len(value), self._chars) + 4 if isinstance(value, str) else 4
        if isinstance(value, str):
            return self._text(value, self._piece_chars if isinstance(value, Verbatim) else self._chars)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth > _KEPT_DEPTH or self._left < 0:
            self.has_cut = True
            return "…"
        if isinstance(value, Mapping):
            return self._fields(value, depth, is_free=is_free)
        return self._list(value, depth, is_free=is_free)

    def _list(self, value: Sequence[Any], depth: int, *, is_free: bool) -> list[Any]:
        shown = [self.value(each, depth + 1, is_free=is_free) for each in value[: self._items]]
        if len(value) > self._items:
            self.has_cut = True
            shown.append(f"… {len(value) - self._items} more")
        return shown

    def _fields(self, value: Mapping[str, Any], depth: int, *, is_free: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, each in value.items():
            is_empty = each is None or each in ("", {}) or (depth and each in ([], ()))
            if is_empty and not is_free:
                continue
            if len(found) >= 4 * self._items:
                self.has_cut = True
                found["…"] = f"{len(value) - len(found)} more"
                break
            is_time = not is_free and type(each) is int and _TIMES.search(name) is not None
            shown = _time(each) if is_time else self.value(each, depth + 1, is_free=is_free or name in _OF_USERS)
            found[visible(str(name)[:200])] = shown
        return found

    def _text(self, text: str, most: int) -> str:
        if len(text) > most:
            self.has_cut = True
            text = f"{text[:most]}… ({len(text) - most} characters more)"
        return visible(text)


def _time(value: int) -> str | int:
    """Return milliseconds since the Unix epoch as a time, if they can be one."""
    try:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return value
