"""What forms send: fields, numbers, intervals, JSON objects, and masked secrets.

A form that is refused comes back as it was typed, with a mark at the field that is wrong: templates ask `Forms`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.requests import Request

from launchbay.console.rendering import MISTAKE, redact
from launchbay.errors import BadRequest, LaunchbayError, MalformedBody, TooLarge
from launchbay.limits import CONSOLE_FORM_BYTES, CONSOLE_FORM_FIELDS, KIB
from launchbay.model.expiry import NEVER
from launchbay.model.scalars import decode_json
from launchbay.model.values import parse_json
from launchbay.urlencoded import MEDIA_TYPE, decode_fields


class Form:
    """The fields of a form. A missing field reads as empty."""

    def __init__(self, fields: Mapping[str, list[str]] | None = None) -> None:
        self._fields = dict(fields or {})

    def text(self, name: str, default: str = "") -> str:
        """Return a field without surrounding spaces."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """Return a field verbatim, but with LF as the line end."""
        found = self._fields.get(name)
        return found[-1].replace("\r\n", "\n") if found else default

    def all(self, name: str) -> list[str]:
        """Return each field with this name verbatim, but with LF as the line end."""
        return [text.replace("\r\n", "\n") for text in self._fields.get(name, [])]

    def has(self, name: str) -> bool:
        """Return whether a field was sent. An empty check box isn't sent."""
        return name in self._fields

    def pairs(self, *, without: Collection[str]) -> list[tuple[str, str]]:
        """Return all fields but some, as they were sent."""
        return [(name, value) for name, values in self._fields.items() if name not in without for value in values]

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names start with the prefix, by the rest of their names."""
        return {name[len(prefix) :]: self.raw(name) for name in self._fields if name.startswith(prefix)}


async def read_form(request: Request) -> Form:
    """Return the form in a request's body. Raises MalformedBody, TooLarge."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise MalformedBody(f"A form must have the content type {MEDIA_TYPE}. Send it from its page.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > CONSOLE_FORM_BYTES:
            raise TooLarge(f"The form is larger than {CONSOLE_FORM_BYTES // KIB} KiB. Send less data.")
    try:
        return Form(decode_fields(bytes(body), CONSOLE_FORM_FIELDS))
    except ValueError as error:
        raise MalformedBody("Invalid form.", str(error)) from error


FIX_FIELDS = "Fix the highlighted fields."


@dataclass(frozen=True, slots=True)
class FieldState:
    """What a field of a form shows, and what is wrong with it."""

    name: str
    id: str
    label: str
    problem: str = ""  # nothing is wrong
    sent: list[str] | None = None  # what the refused form had for it; None if this isn't its page

    def value(self, default: Any = "") -> Any:
        """Return the text as it was typed, or else the default."""
        return self.sent[-1] if self.sent else default


@dataclass(frozen=True, slots=True)
class FormState:
    """A form on a page. `problem` is why it was refused, or None."""

    forms: "Forms"
    sent: Form
    problem: LaunchbayError | None = None

    @property
    def is_refused(self) -> bool:
        return self.problem is not None

    def field(self, name: str, label: str, *, element_id: str = "", of: str = "") -> FieldState:
        """Return the state of a field.

        `of` are the fields of the API that it stands for, separated by spaces, if their names differ from its own.
        """
        found = FieldState(name, element_id or name, label, sent=self.sent.all(name) if self.is_refused else None)
        problem = self._problem(found, {name, *of.split()})
        return self.wrong(found, problem) if problem else found

    def row(self, name: str, label: str, number: int, *, is_only: bool) -> FieldState:
        """Return the state of a field in one of several rows, without a text.

        The page fills in rows by itself. Nobody knows which row a problem is about, if there are others.
        """
        element_id = f"{name}-{number}"
        if not is_only:
            return FieldState(name, element_id, label)
        return replace(self.field(name, label, element_id=element_id), sent=None)

    def has(self, name: str, value: str, default: Any) -> bool:
        """Return whether a box with this value is ticked."""
        return value in self.sent.all(name) if self.is_refused else bool(default)

    def chosen(self, name: str, value: str, default: Any) -> bool:
        """Return whether one of several radio buttons is chosen."""
        return self.has(name, value, default) if self.sent.has(name) else bool(default)

    def wrong(self, found: FieldState, problem: str) -> FieldState:
        """Return the field with a problem, and link the summary to it."""
        self.forms.wrong.append(replace(found, problem=problem))
        return self.forms.wrong[-1]

    def parameter(self, name: str, label: str, problem: str) -> FieldState:
        """Return the state of the field of a parameter with its own problem."""
        return self.wrong(FieldState(name, name, label), problem) if problem else self.field(name, label)

    def _problem(self, found: FieldState, names: set[str]) -> str:
        """Return what is wrong with a field.

        The error has its name, or the message begins with it or with its label.
        """
        if self.problem is None or not self.problem.messages:
            return ""
        first, *others = self.problem.messages
        before, colon, after = first.partition(": ")
        is_named = bool(colon) and (before.casefold() == found.label.casefold() or bool(_spellings(before) & names))
        if not is_named and not _spellings(self.problem.field) & names:
            return ""
        between = "\n" if MISTAKE.match(first) else " "
        return between.join((after[:1].upper() + after[1:] if is_named else first, *others))


class Forms:
    """The forms of one page, and the fields that are wrong, in their order.

    `path` is the address that a refused form was sent to.
    """

    def __init__(self, path: str = "", sent: Form | None = None, problem: LaunchbayError | None = None) -> None:
        self._path, self._sent, self._problem = path, sent or Form(), problem
        self.wrong: list[FieldState] = []
        self._is_found = False

    def at(self, action: str, **row: str) -> FormState:
        """Return the first form that is sent to an address.

        `row` are its hidden fields, if other rows have the same form.
        """
        is_same_row = all(value in self._sent.all(name) for name, value in row.items() if self._sent.has(name))
        is_sent = action.partition("?")[0] == self._path and is_same_row and not self._is_found
        self._is_found |= is_sent
        return FormState(self, self._sent, self._problem if is_sent else None)

    def summary(self) -> list[str]:
        """Return what is wrong, with links to the fields: when the fields are rendered."""
        if self._problem is None:
            return []
        first, *others = self._problem.messages or ("",)
        if not self.wrong:
            return [*self._problem.messages]
        is_placed = MISTAKE.match(self.wrong[0].problem) is not None  # its text is the only place to read it in
        if first != FIX_FIELDS and not is_placed:
            text = self.wrong[0].problem.removesuffix(f" {' '.join(others)}" if others else "")
            return [Markup("{}: {}").format(_link(self.wrong[0]), text), *others]
        count = "highlighted field" if len(self.wrong) == 1 else f"{len(self.wrong)} highlighted fields"
        fix = Markup("Fix the {}: {}.").format(count, Markup(", ").join(map(_link, self.wrong)))
        return [fix] if is_placed else [fix, *others]


def _spellings(field: str) -> set[str]:
    """Return how a form may spell a field: `hostKeys`, `host_keys`; `roleId`, `role`."""
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in field)
    return {field, words, field.removesuffix("Id")} - {""}


def _link(field: FieldState) -> Markup:
    return Markup('<a href="#{}">{}</a>').format(field.id, field.label)


SEEN = "seen"
_LINE_END = re.compile(r"\r\n?|\n")


def has_lines(text: str) -> bool:
    """Whether a text needs a control of several lines.

    Browsers take line ends out of others.
    """
    return _LINE_END.search(text) is not None


def is_unchanged(shown: str, sent: str) -> bool:
    """Return whether a control came back as it was shown.

    Browsers don't keep the kind of a line end.
    """
    return _LINE_END.sub("\n", shown) == _LINE_END.sub("\n", sent)


def seen_tag(value: Any) -> str:
    """Return what a form carries of the state that it was made from."""
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


def parse_number(text: str | None, digits: int = 9) -> int | None:
    """Return a number of at most so many digits, or None."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= digits else None


def parse_object(label: str, text: str) -> dict[str, Any]:
    """Return the JSON object in a field; {} if the field is empty. Raises BadRequest."""
    return _object_of(label, text, parse_json)


def parse_parameters(label: str, text: str) -> dict[str, Any]:
    """Return the parameters that a field has as a JSON object; {} if it is empty. Raises BadRequest.

    Numbers keep their text until a type is known, as in the API (values.md, "Without quotes").
    """

    def parse(text: str) -> Any:
        parse_json(text)  # checks its limits
        return decode_json(text)

    return _object_of(label, text, parse)


def _object_of(label: str, text: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        return msgspec.convert(parse(text), dict[str, Any])
    except ValueError as error:  # msgspec's errors are some, too
        raise BadRequest(f'{label}: expected a JSON object, such as {{"name": "value"}} ({error}).') from error


_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
OTHER = "other"
ONE_DAY_MORE = "+1d"
CHOICES: tuple[tuple[str, str], ...] = (
    (str(_HOUR_MS), "in 1 hour"),
    (str(8 * _HOUR_MS), "in 8 hours"),
    (str(24 * _HOUR_MS), "in 1 day"),
    (str(7 * 24 * _HOUR_MS), "in 1 week"),
    (str(NEVER), "never"),
    (OTHER, "another time…"),
)


def interval_ms(chosen: str, minutes: str) -> int:
    """Return the chosen interval in ms, or NEVER. Raises BadRequest."""
    if chosen == OTHER:
        return minutes_ms(minutes)
    if chosen not in {value for value, _ in CHOICES}:
        raise BadRequest("Choose when the instance expires.", code="InvalidDestroyInterval", field="lifetime")
    return int(chosen)


def minutes_ms(text: str, field: str = "minutes") -> int:
    """Return a number of minutes in ms. Raises BadRequest about the field."""
    text = text.strip()
    try:
        minutes = float(text) if len(text) <= 12 and text.isascii() else 0.0
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 1e9:
        raise BadRequest("Enter a number of minutes above 0, such as 90 or 0.5.", code="InvalidInterval", field=field)
    return round(minutes * _MINUTE_MS)


def restore_hidden(sent: Any, before: Any) -> Any:
    """Return the sent value, with the former value wherever its masked form came back."""
    if sent == redact(before):
        return before
    if isinstance(sent, Mapping) and isinstance(before, Mapping):
        # One key at a time: the name decides whether a value is masked.
        return {name: _restore_hidden_value(name, value, before) for name, value in sent.items()}
    if isinstance(sent, list) and isinstance(before, list):
        return [
            restore_hidden(value, before[place]) if place < len(before) else value for place, value in enumerate(sent)
        ]
    return sent


def _restore_hidden_value(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    if name not in before:
        return value
    return before[name] if value == redact({name: before[name]})[name] else restore_hidden(value, before[name])
