"""From the bytes of a request to typed values: content type, bounds, syntax, types (api-decisions, "Wire" 3 and 6)."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from launchbay.errors import BadRequest, FieldErrors, MalformedBody
from launchbay.limits import KIB, QUERY_FIELDS
from launchbay.web.answers import JSON
from launchbay.web.endpoint import Endpoint, FormBody, JsonBody, YamlBody
from launchbay.web.incoming import IncomingBody
from launchbay.web.json_reader import read_json

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)
_ERROR_PATH = re.compile(r"(.*?) - at (?:key in )?`\$(.*)`", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_FIRST_NAME = re.compile(r"\.([^.\[]+)")
# Reading a longer body would hold up everybody else's request, so it goes to a thread.
_INLINE_BYTES = 64 * KIB


async def read_body(endpoint: Endpoint, headers: Mapping[str, str], incoming: IncomingBody) -> Any:
    """Return the decoded body of a request as the row describes it; None when it has none.

    Raises MalformedBody, BadRequest, FieldErrors (rows with `field_errors`), TooLarge, ClientGone.
    """
    wanted = endpoint.body
    if wanted is None:
        return None
    data = await incoming.read(wanted.bytes_max)
    if isinstance(wanted, YamlBody):
        _check_media_type(headers, wanted.media_type)
        return _yaml_text(data)
    if isinstance(wanted, FormBody):
        _check_media_type(headers, wanted.media_type)
        return _form(data, wanted.type)
    _check_json_media_type(headers, wanted, empty=not data)
    if not data.strip():
        if not wanted.may_be_empty():
            raise MalformedBody(f"The body is empty; send a JSON {_kind(wanted.type)}.")
        value: Any = {}
    elif len(data) <= _INLINE_BYTES:
        value = read_json(data)
    else:
        value = await asyncio.to_thread(read_json, data)
    return _typed(value, wanted.type, field_errors=endpoint.field_errors)


def read_query(query_string: bytes, wanted: type[msgspec.Struct] | None) -> Any:
    """Return the query as the row's struct. Unknown parameters are ignored, and of repeated ones the first counts.

    Raises BadRequest when a value does not fit or cannot be read.
    """
    if wanted is None:
        return None
    values: dict[str, str] = {}
    if query_string:
        try:
            pairs = parse_qsl(
                query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS
            )
        except ValueError:
            raise BadRequest(
                f"The query string cannot be read; send at most {QUERY_FIELDS} parameters, percent-encoded as UTF-8."
            ) from None
        for name, text in pairs:
            values.setdefault(name, text)
    try:
        query = msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        field, message = _explained(error)
        raise BadRequest(f"Query parameter {field}: {message}." if field else f"Query: {message}.") from None
    if any("\0" in text for text in values.values()):
        raise BadRequest("A query parameter holds a NUL character; leave it out.")
    return query


def header_map(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name; lines of the same name are joined with ", " as HTTP says they may be."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name = raw_name.decode("latin-1")
        value = raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _check_json_media_type(headers: Mapping[str, str], wanted: JsonBody, *, empty: bool) -> None:
    if empty and wanted.may_be_empty() and (wanted.media_optional or "content-type" not in headers):
        return
    _check_media_type(headers, JSON)


def _check_media_type(headers: Mapping[str, str], wanted: str) -> None:
    sent = headers.get("content-type", "")
    if sent != wanted:
        media_type, _, parameters = sent.partition(";")
        if media_type.strip().lower() != wanted:
            shown = f"is {media_type.strip()[:80]!r}" if sent else "is missing"
            raise MalformedBody(f"The content type {shown}; send the body as {wanted}.", code="WrongContentType")
        charset = _CHARSET.search(f";{parameters}")
        if charset is not None and charset.group(1).lower() not in {"utf-8", "utf8", "us-ascii"}:
            raise MalformedBody(
                f"The charset {charset.group(1)[:40]!r} is not read; send UTF-8.", code="WrongContentType"
            )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise MalformedBody("Compressed bodies are not read; send the body as it is.", code="WrongContentType")


def _yaml_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedBody(f"The body is not UTF-8 (byte {error.start}); send YAML encoded as UTF-8.") from None
    if "\0" in text:
        raise MalformedBody("The body holds a NUL character; leave it out.")
    return text


def _form(data: bytes, wanted: type[msgspec.Struct]) -> Any:
    """Return a form's fields; of repeated ones the first counts, and unknown ones are ignored."""
    fields: dict[str, str] = {}
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS)
    except ValueError:
        raise MalformedBody("The form cannot be read; send its fields percent-encoded as UTF-8.") from None
    for name, text in pairs:
        fields.setdefault(name, text)
    if any("\0" in text for text in fields.values()):
        raise MalformedBody("A field of the form holds a NUL character; leave it out.")
    return _typed(fields, wanted, field_errors=False)


def _typed(value: Any, wanted: Any, *, field_errors: bool) -> Any:
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        field, message = _explained(error)
        if field_errors and field:
            raise FieldErrors({_first_name(field): [f"{message}."]}) from None
        raise BadRequest(f"{field}: {message}." if field else f"{message}.", code="WrongField") from None


def _explained(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the path of the field that is wrong ("" for the whole) and what is wrong with it."""
    message, path = str(error), ""
    located = _ERROR_PATH.fullmatch(message)
    if located is not None:
        message, path = located.group(1), located.group(2)
    unknown, missing = _UNKNOWN_FIELD.fullmatch(message), _MISSING_FIELD.fullmatch(message)
    if unknown is not None:
        path, message = f"{path}.{unknown.group(1)}", "there is no such field here; leave it out"
    elif missing is not None:
        path, message = f"{path}.{missing.group(1)}", "this field is required; add it"
    else:
        message = message.replace("`", "")
        message = message[:1].lower() + message[1:]
    return path.removeprefix("."), message


def _first_name(path: str) -> str:
    match = _FIRST_NAME.match(f".{path}")
    return match.group(1) if match is not None else path


def _kind(wanted: Any) -> str:
    return "array" if getattr(wanted, "__origin__", wanted) is list else "object"
