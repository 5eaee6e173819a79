"""What forms send: fields, numbers, intervals, JSON objects, and masked secrets that come back unchanged.

A form that is refused comes back with a mark at the field that is wrong.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b
from html import unescape
from typing import Any, NamedTuple

import msgspec
from markupsafe import escape
from starlette.requests import Request

from launchbay.console.rendering import redact
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
_FORM = re.compile(r'<form\b[^>]*\saction="([^"?]*)[^"]*"[^>]*>.*?</form>', re.DOTALL)
_CONTROL = re.compile(r"<(?:input|select|textarea)\b[^>]*>")
_HOLDER = re.compile(r"<(/?)(details|dialog)\b[^>]*>")
_ATTRIBUTE = re.compile(r'\s([\w-]+)="([^"]*)"')
_NOT_SHOWN = re.compile(r'<span class="(?:req|sr)">.*?</span>|<[^>]+>', re.DOTALL)
_UNSENT = {"formToken", "seen"}  # each page has its own
# Fields of the API that a form has under another name.
_NAMES = {
    "name": ("tokenName",),
    "password": ("newPassword",),
    "permissions": ("scope",),
    "destroyInterval": ("lifetime",),
    "interval": ("minutes",),
    "events": ("event",),
    "roles": ("role",),
    "startsAt": ("starts",),
    "endsAt": ("ends",),
    "previews.environmentId": ("preview_environment",),
}


class _Control(NamedTuple):
    """A control, with its place in the page and that of its form."""

    page: str
    form: tuple[int, int]
    start: int
    end: int
    attributes: dict[str, str]

    @property
    def id(self) -> str:
        return self.attributes.get("id") or f"wrong-{self.attributes['name']}"

    @property
    def is_choice(self) -> bool:
        return self.attributes.get("type") in {"checkbox", "radio"}

    @property
    def label(self) -> str:
        """The name of the control as a person reads it.

        It is looked for only when it is needed: a form may have a thousand controls.
        """
        page, (first, end) = self.page, self.form
        legend = page.rfind("<legend", first, self.start) if self.is_choice else -1
        if legend >= 0:
            text = page[legend : page.find("</legend>", legend)]
        elif (own := page.find(f'<label for="{self.attributes.get("id")}"', first, end)) >= 0:
            text = page[own : page.find("</label>", own)]
        elif (around := page.rfind("<label", first, self.start)) >= 0:
            text = page[around : self.start]
        else:
            text = self.attributes.get("name", "")
        return unescape(_NOT_SHOWN.sub("", text)).strip()


def mark_problem(page: str, path: str, sent: Form, problem: LaunchbayError) -> str:
    """Return the page of a refused form with its wrong control marked.

    The summary at the top links to it. Templates write their controls as HTML, so the finished page is where one place
    can mark all of them. A page whose form doesn't have the field stays as it is.
    """
    first = problem.messages[0] if problem.messages else ""
    summary = f"<p>{escape(first)}</p>"
    if first == FIX_FIELDS:
        wrong = [each for each in _controls(page, 0, len(page)) if each.attributes.get("aria-invalid") == "true"]
        links = ", ".join(_link(each) for each in wrong)
        count = "highlighted field" if len(wrong) == 1 else f"{len(wrong)} highlighted fields"
        return page.replace(summary, f"<p>Fix the {count}: {links}.</p>", 1) if links else page
    before, colon, after = first.partition(": ")
    named = before if colon else ""
    found = _wrong_control(page, path, sent, problem.field, named)
    if found is None:
        return page
    is_named = bool(named) and (named in _names(problem.field or named) or _is_label(named, found.label))
    text = after[:1].upper() + after[1:] if is_named else first
    page = _marked(page, found, " ".join((text, *problem.messages[1:])), sent)
    return page.replace(summary, f"<p>{_link(found)}: {escape(text)}</p>", 1)


def _wrong_control(page: str, path: str, sent: Form, field: str, named: str) -> _Control | None:
    """Return the sent form's control for a field or the name in a message.

    None without exactly one.
    """
    for form in _FORM.finditer(page):
        if unescape(form[1]) != path:
            continue
        controls = list(_controls(page, form.start(), form.end()))
        hidden = [each.attributes for each in controls if each.attributes.get("type") == "hidden"]
        sent_too = [each for each in hidden if each["name"] not in _UNSENT and sent.has(each["name"])]
        if not all(unescape(each.get("value", "")) in sent.all(each["name"]) for each in sent_too):
            continue  # the same form of another row
        shown = [each for each in controls if each.attributes.get("type") != "hidden" and "name" in each.attributes]
        for name in (*_names(field), *_names(named)):
            same = [each for each in shown if each.attributes["name"] == name]
            if len(same) == 1 or (same and same[0].is_choice):
                return same[0]
        first_of_names = {each.attributes["name"]: each for each in reversed(shown)}.values()
        labelled = [each for each in first_of_names if named and _is_label(named, each.label)]
        if len(labelled) == 1:
            return labelled[0]
    return None


def _names(field: str) -> tuple[str, ...]:
    """Return the names that a control for a field of the API may have."""
    if not field:
        return ()
    words = re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", field)
    return field, words, field.removesuffix("Id"), *_NAMES.get(field, ())


def _is_label(named: str, label: str) -> bool:
    return named.casefold() == label.casefold()


def _controls(page: str, start: int, end: int) -> Iterator[_Control]:
    for tag in _CONTROL.finditer(page, start, end):
        yield _Control(page, (start, end), tag.start(), tag.end(), dict(_ATTRIBUTE.findall(tag[0])))


def _link(control: _Control) -> str:
    return f'<a href="#{control.id}">{escape(control.label or control.attributes.get("name", ""))}</a>'


def _marked(page: str, control: _Control, text: str, sent: Form) -> str:
    """Return the page with the message at the control, which keeps its text.

    What it is folded into is open.
    """
    attributes = control.attributes
    error = f"{control.id}-error"
    described = f"{attributes.get('aria-describedby', '')} {error}".strip()
    tag = re.sub(r'\s(?:id|aria-describedby)="[^"]*"|/?>$', "", page[control.start : control.end])
    if attributes.get("type") in {"text", "number"}:
        tag = re.sub(r'\svalue="[^"]*"', "", tag) + f' value="{escape(sent.raw(attributes["name"]))}"'
    tag += f' id="{control.id}" aria-describedby="{described}" aria-invalid="true">'
    message = f'<p class="field-error" id="{error}">{escape(text)}</p>'
    after = _end_of_field(page, control)
    page = page[: control.start] + tag + page[control.end : after] + message + page[after:]
    open_tags: list[re.Match[str]] = []
    for holder in _HOLDER.finditer(page, 0, control.start):
        if holder[1]:
            open_tags.pop()
        else:
            open_tags.append(holder)
    for holder in reversed(open_tags):
        if " open" not in holder[0]:
            extra = " open data-modal" if holder[2] == "dialog" else " open"
            page = page[: holder.end() - 1] + extra + page[holder.end() - 1 :]
    return page


def _end_of_field(page: str, control: _Control) -> int:
    """Return the place behind a control and its label, or behind a group's legend."""
    at = control.end
    kind = page[control.start + 1 :].split(None, 1)[0]
    if kind in {"select", "textarea"}:
        at = page.index(f"</{kind}>", at) + len(f"</{kind}>")
    legend, fieldset = page.rfind("</legend>", 0, at), page.rfind("</fieldset>", 0, at)
    if control.is_choice and legend > fieldset:
        return legend + len("</legend>")
    if page.rfind("<label", 0, control.start) > page.rfind("</label>", 0, control.start):
        return page.index("</label>", at) + len("</label>")
    is_editor = page.rfind("<div", 0, control.start) == page.rfind('<div class="editor"', 0, control.start)
    return page.index("</div>", at) + len("</div>") if kind == "textarea" and is_editor else at


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
