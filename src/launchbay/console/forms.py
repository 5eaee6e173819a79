"""What forms send: fields, numbers, intervals, JSON objects, and masked secrets that come back unchanged."""

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from starlette.requests import Request

from launchbay.console.rendering import redact
from launchbay.errors import BadRequest, MalformedBody, TooLarge
from launchbay.limits import CONSOLE_FORM_BYTES, CONSOLE_FORM_FIELDS, KIB
from launchbay.model.lifetimes import NEVER
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
        return list(self._fields.get(name, []))

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


def check_query(request: Request) -> None:
    """Raise BadRequest for a query that `read_form` would refuse."""
    try:
        decode_fields(request.scope["query_string"], CONSOLE_FORM_FIELDS)
    except ValueError as error:
        raise BadRequest("Invalid query string.", str(error)) from None


SEEN = "seen"


def seen_tag(value: Any) -> str:
    """Return what a form carries of the state that it was made from."""
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


def parse_number(text: str | None, digits: int = 9) -> int | None:
    """Return a number of at most so many digits, or None."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= digits else None


def parse_object(label: str, text: str) -> dict[str, Any]:
    """Return the JSON object in a field; {} if the field is empty. Raises BadRequest."""
    if not text.strip():
        return {}
    try:
        return msgspec.convert(parse_json(text), dict[str, Any])
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
        raise BadRequest("Choose when the instance expires.", code="InvalidDestroyInterval")
    return int(chosen)


def minutes_ms(text: str) -> int:
    """Return a number of minutes in ms. Raises BadRequest."""
    text = text.strip()
    try:
        minutes = float(text) if len(text) <= 12 and text.isascii() else 0.0
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 1e9:
        raise BadRequest("Minutes must be a number above 0, such as 90 or 0.5.", code="InvalidInterval")
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
