"""Requests, and how their bytes become typed values: content type, bounds, syntax, types ("Wire" 3 and 6)."""

import asyncio
import re
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from tempfile import TemporaryFile
from typing import IO, Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.types import Receive

from launchbay.auth.permissions import Actor
from launchbay.errors import BadRequest, FieldErrors, LaunchbayError, MalformedBody, TooLarge, Unavailable
from launchbay.ids import canonical_id
from launchbay.limits import FORM_BYTES, JSON_BODY_BYTES, KIB, LEFTOVER_BYTES, MANIFEST_BYTES, MIB, QUERY_FIELDS
from launchbay.model.freezes import override_reason
from launchbay.model.scalars import settled
from launchbay.model.wrong_values import alternatives, strange_parameters, types_inside, wrong_value
from launchbay.urlencoded import MEDIA_TYPE as FORM
from launchbay.urlencoded import decode_fields
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.idempotency import Idempotency
from launchbay.usecases.launch_request import NAME_SHOWN, ignored_fields
from launchbay.usecases.sign_in import OpenIdSignIn, SignInLink
from launchbay.web.json_reader import read_json

JSON = "application/json"
YAML = "application/x-yaml"
NDJSON = "application/x-ndjson"
OVERRIDE = "launchbay-override-freeze"


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON request body of one type: a msgspec.Struct, `dict[str, Any]` for any object, or a list.

    `type` comes from the handler's annotation. `required`: whether a body must be sent. Default: only if its struct has
    required fields; an omitted body is `{}`. `media_optional` accepts an empty body with any content type, because
    Ruby's Net::HTTP labels an empty POST as a form. `msgspec.Raw` is the body as sent, unchecked: its signature has to
    be checked first.
    """

    type: Any = None
    required: bool | None = None
    media_optional: bool = False
    bytes_max: int = JSON_BODY_BYTES
    example: Any = None
    media_type: str = JSON
    # Numbers in these fields, at any depth, remember their text (`model/scalars.py`); "*" is every field.
    keeps_texts: frozenset[str] = frozenset()

    def may_be_empty(self) -> bool:
        """Return whether an empty body is accepted as `{}`."""
        if self.required is not None:
            return not self.required
        if not (isinstance(self.type, type) and issubclass(self.type, msgspec.Struct)):
            return False
        return not any(field.required for field in msgspec.structs.fields(self.type))


@dataclass(frozen=True, slots=True)
class YamlBody:
    """A manifest, passed on as a string: its reader has its own bounds.

    A setting may raise `bytes_max`.
    """

    bytes_max: int = MANIFEST_BYTES
    example: str = ""
    media_type: str = YAML


@dataclass(frozen=True, slots=True)
class FormBody:
    """A form of a page, as a msgspec.Struct of strings; `type` comes from the handler's annotation."""

    type: Any = None
    bytes_max: int = FORM_BYTES
    example: Any = None
    media_type: str = FORM


@dataclass(frozen=True, slots=True)
class LinesBody:
    """Lines of JSON, which the handler gets as an `Upload`."""

    bytes_max: int
    example: str = ""
    media_type: str = NDJSON


class ClientDisconnect(LaunchbayError):
    """The client closed the connection before the response was complete."""


class BodyReader:
    """Reads the body once; what is left of it can be discarded."""

    __slots__ = ("_complete", "_headers", "_receive")

    def __init__(self, headers: Mapping[str, str], receive: Receive) -> None:
        self._headers = headers
        self._receive = receive
        self._complete = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def read(self, bytes_max: int) -> bytes:
        """Return the body. Raises TooLarge, before reading if Content-Length is too large, and ClientDisconnect."""
        parts = [each async for each in self.pieces(bytes_max)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def pieces(self, bytes_max: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises as `read` does."""
        announced = self._headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > bytes_max:
            raise _too_large(bytes_max)
        size = 0
        while not self._complete:
            piece = await self._next()
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max)
            yield piece

    async def discard(self) -> None:
        """Read and drop the rest before a response is sent, up to a limit. Raises ClientDisconnect.

        Closing a connection with unread bytes resets it, and the client loses the response. A body that the client
        sends only after `100 Continue` is not requested.
        """
        if self._complete or "expect" in self._headers:
            return
        size = 0
        while not self._complete and size < LEFTOVER_BYTES:
            size += len(await self._next())

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._complete = not message.get("more_body", False)
        data: bytes = message.get("body", b"")
        return data


class Upload:
    """A body that stays unread until the handler has checked who sends it."""

    def __init__(self, reader: BodyReader, bytes_max: int) -> None:
        self._reader = reader
        self._bytes_max = bytes_max

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[IO[bytes]]:
        """Keep all of it in a file without a name, and yield that.

        A process that is killed leaves nothing. Raises TooLarge, ClientDisconnect, and Unavailable if the disk is full.
        """
        with TemporaryFile() as file:
            waiting: list[bytes] = []
            size = 0
            async for piece in self._reader.pieces(self._bytes_max):
                waiting.append(piece)
                size += len(piece)
                if size >= _WRITTEN_BYTES:
                    await _write(file, waiting)
                    waiting, size = [], 0
            await _write(file, waiting)
            file.seek(0)
            yield file


_WRITTEN_BYTES = 1 * MIB  # of an upload, written together


async def _write(file: IO[bytes], pieces: list[bytes]) -> None:
    try:
        await asyncio.to_thread(file.writelines, pieces)
    except OSError as error:
        raise Unavailable(
            f"The server can't keep the body in its directory for temporary files: {error.strerror}.",
            "The operator can set another one with the variable TMPDIR.",
        ) from error


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"The body is larger than {bytes_max // KIB} KiB.")


_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)
_FIRST_NAME = re.compile(r"\.([^.\[]+)")
# Longer bodies are read in a thread, so that they don't block other requests.
INLINE_BYTES = 64 * KIB


# Fields that name objects by ID: of queries, where they may be lists with commas, and of bodies besides `…Id`.
ID_FIELDS = frozenset(
    {"actor", "after", "application", "delivery", "environment", "instance", "job", "object"}
    | {"organization", "otherId", "owner", "user"}
)
_ID_LISTS = frozenset({"environments", "ids", "services"})


class ReadBody(NamedTuple):
    """A decoded body, and warnings of the fields that its endpoint doesn't know."""

    value: Any
    warnings: tuple[str, ...] = ()


async def read_body(
    wanted: JsonBody | YamlBody | FormBody | LinesBody,
    headers: Mapping[str, str],
    body_reader: BodyReader,
    *,
    field_errors: bool,
    manifest_bytes: int = MANIFEST_BYTES,
) -> ReadBody:
    """Return the decoded body of a request: of YAML a text, of lines an Upload.

    Raises MalformedBody, BadRequest, FieldErrors (with `field_errors`), TooLarge, ClientDisconnect.
    """
    if isinstance(wanted, YamlBody | LinesBody):
        is_file = isinstance(wanted, LinesBody)
        data = b"" if is_file else await body_reader.read(manifest_bytes)
        _check_media_type(headers, wanted.media_type)
        return ReadBody(Upload(body_reader, wanted.bytes_max) if is_file else _yaml_text(data))
    data = await body_reader.read(wanted.bytes_max)
    if isinstance(wanted, FormBody):
        _check_media_type(headers, wanted.media_type)
        return ReadBody(_form(data, wanted.type))
    _check_json_media_type(headers, wanted, empty=not data)
    if wanted.type is msgspec.Raw:
        return ReadBody(msgspec.Raw(data))
    if not data.removeprefix(BOM_UTF8).strip():
        if not wanted.may_be_empty():
            raise MalformedBody(f"The body is empty. Send a JSON {_kind(wanted.type)}.")
        return ReadBody(_typed({}, wanted.type, field_errors=field_errors))
    if len(data) <= INLINE_BYTES:
        return _json(data, wanted, field_errors=field_errors)
    return await asyncio.to_thread(_json, data, wanted, field_errors=field_errors)


class ReadQuery(NamedTuple):
    """A decoded query, and warnings of what was ignored in it."""

    value: Any
    warnings: tuple[str, ...] = ()


def read_query(query_string: bytes, wanted: type[msgspec.Struct] | None, *, refuses_unknown: bool) -> ReadQuery:
    """Return the query as the endpoint's struct, which declares its parameters; None declares none.

    Unknown parameters and repetitions are refused or ignored with a warning (decision 0163). Raises BadRequest.
    """
    if not query_string:
        return ReadQuery(None if wanted is None else _no_query(wanted))
    try:
        fields = decode_fields(query_string, QUERY_FIELDS)
    except ValueError as error:
        if wanted is None and not refuses_unknown:
            return ReadQuery(None)
        raise BadRequest("Invalid query string.", str(error)) from None
    strange = list(strange_parameters(fields, () if wanted is None else wanted.__struct_encode_fields__))
    if strange and refuses_unknown:
        raise BadRequest(f"{strange[0]} Leave it out otherwise.", code="InvalidQuery")
    value = None if wanted is None else _typed_query({name: texts[0] for name, texts in fields.items()}, wanted)
    return ReadQuery(value, tuple(f"{each} It was ignored." for each in strange))


def _typed_query(values: dict[str, str], wanted: type[msgspec.Struct]) -> Any:
    for name in values.keys() & ID_FIELDS:
        values[name] = ",".join(map(canonical_id, values[name].split(",")))
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        found = wrong_value(error, values, wanted)
        raise BadRequest(f"Query parameter {found}." if found.path else f"Query: {found}.") from None


@lru_cache
def _no_query(wanted: type[msgspec.Struct]) -> Any:
    """Return the query of a request that has none. All share it: these structs are frozen."""
    return _typed_query({}, wanted)


def header_map(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name. Lines with the same name are joined with ", " (RFC 9110 §5.3)."""
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
            raise MalformedBody(f"The content type {shown}. Send the body as {wanted}.", code="WrongContentType")
        charset = _CHARSET.search(f";{parameters}")
        if charset is not None and charset.group(1).lower() not in {"utf-8", "utf8", "us-ascii"}:
            raise MalformedBody(f"Unsupported charset {charset.group(1)[:40]!r}. Send UTF-8.", code="WrongContentType")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise MalformedBody("Compressed bodies aren't supported. Send the body uncompressed.", code="WrongContentType")


def _yaml_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedBody(f"The body isn't UTF-8 (byte {error.start}). Send YAML encoded as UTF-8.") from None
    if "\0" in text:
        raise MalformedBody("The body contains a NUL character; remove it.")
    return text


def _form(data: bytes, wanted: type[msgspec.Struct]) -> Any:
    """Return a form's fields. Ignores unknown fields and repetitions."""
    try:
        fields = {name: texts[0] for name, texts in decode_fields(data, QUERY_FIELDS).items()}
    except ValueError as error:
        raise MalformedBody("Invalid form.", str(error)) from None
    return _typed(fields, wanted, field_errors=False)


def _json(data: bytes, body: JsonBody, *, field_errors: bool) -> ReadBody:
    wanted = body.type
    value = read_json(data, is_written=bool(body.keeps_texts))
    if body.keeps_texts and "*" not in body.keeps_texts:
        value = _kept(value, body.keeps_texts)
    if not isinstance(value, dict) or not (isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)):
        return ReadBody(_typed(value, wanted, field_errors=field_errors))
    value = _with_canonical_ids(value, [_type_info(wanted)])
    typed = _typed(value, wanted, field_errors=field_errors)
    return ReadBody(typed, ignored_fields(_unknown_fields(value, [_type_info(wanted)])))


def _unknown_fields(value: Any, types: Iterable[msgspec.inspect.Type], path: str = "") -> Iterator[str]:
    """Yield the path of each unknown field, such as `markers[0].color`.

    `value` has one of the types.
    """
    kinds = list(alternatives(types))
    if not kinds:
        return  # of any shape: all of it is known
    structs = [each for each in kinds if isinstance(each, msgspec.inspect.StructType)]
    if isinstance(value, dict):
        known = {field.encode_name for each in structs for field in each.fields}
        for name, inner in value.items():
            shown = f"{path}.{name[:NAME_SHOWN]}" if path else name[:NAME_SHOWN]
            if structs and name not in known:
                yield shown
            else:
                yield from _unknown_fields(
                    inner, [found for each in kinds for found in types_inside(each, name, "")], shown
                )
    elif isinstance(value, list):
        inside = [found for each in kinds for found in types_inside(each, None, "0")]
        for number, inner in enumerate(value if inside else ()):
            yield from _unknown_fields(inner, inside, f"{path}[{number}]")


_type_info = lru_cache(msgspec.inspect.type_info)


def _with_canonical_ids(value: Any, types: Iterable[msgspec.inspect.Type]) -> Any:
    """Return a value with the IDs in lower case.

    They are in fields of structs. The value has one of the types.
    """
    kinds = list(alternatives(types))
    if isinstance(value, list):
        inside = [found for each in kinds for found in types_inside(each, None, "0")]
        return [_with_canonical_ids(each, inside) for each in value] if inside else value
    if not isinstance(value, dict):
        return value
    of_struct = any(isinstance(each, msgspec.inspect.StructType) for each in kinds)
    return {
        name: _canonical(each)
        if of_struct and _is_of_ids(name)
        else _with_canonical_ids(each, [found for kind in kinds for found in types_inside(kind, name, "")])
        for name, each in value.items()
    }


def _is_of_ids(name: str) -> bool:
    return name in _ID_LISTS or name == "id" or name.endswith(("Id", "Ids"))


def _canonical(value: Any) -> Any:
    if isinstance(value, str):
        return canonical_id(value)
    if isinstance(value, list):
        return [canonical_id(each) if isinstance(each, str) else each for each in value]
    return value


def _kept(value: Any, names: frozenset[str]) -> Any:
    """Return the body with plain numbers outside of the named fields."""
    if isinstance(value, dict):
        return {name: each if name in names else _kept(each, names) for name, each in value.items()}
    return [_kept(each, names) for each in value] if isinstance(value, list) else settled(value)


# Where values have types that the manifest or the object declares.
TYPED = frozenset(("parameters", "submodules", "arguments", "properties"))


def _typed(value: Any, wanted: Any, *, field_errors: bool) -> Any:
    try:
        try:
            return msgspec.convert(value, wanted)
        except msgspec.ValidationError as error:
            if "got `float`" not in str(error):
                raise
        value = _with_whole_numbers(value, [_type_info(wanted)])
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        found = wrong_value(error, value, wanted)
        if field_errors and found.path:
            raise FieldErrors({_first_name(found.path): [f"{found.problem}."]}) from None
        raise BadRequest(f"{found}.", code="WrongField") from None


_EXACT_MAX = 2**53  # up to here every integer is a double


def _with_whole_numbers(value: Any, types: Iterable[msgspec.inspect.Type]) -> Any:
    """Return the value with `1e3` and `5.0` as integers where those are wanted."""
    kinds = list(alternatives(types))
    if isinstance(value, float):
        wants_integer = any(isinstance(each, msgspec.inspect.IntType) for each in kinds)
        return int(value) if wants_integer and value.is_integer() and abs(value) <= _EXACT_MAX else value
    if isinstance(value, dict):
        return {
            name: _with_whole_numbers(inner, [found for each in kinds for found in types_inside(each, name, "")])
            for name, inner in value.items()
        }
    inside = [found for each in kinds for found in types_inside(each, None, "0")]
    return [_with_whole_numbers(each, inside) for each in value] if isinstance(value, list) and inside else value


def _first_name(path: str) -> str:
    match = _FIRST_NAME.match(f".{path}")
    return match.group(1) if match is not None else path


def _kind(wanted: Any) -> str:
    return "array" if getattr(wanted, "__origin__", wanted) is list else "object"


@dataclass(frozen=True, kw_only=True)
class ApiDeps:
    """What handlers need besides the request."""

    app: AppContext
    idempotency: Idempotency
    # Raises Unavailable with the reason while this process can't serve requests (database unreachable).
    ready: Callable[[], Awaitable[None]]
    is_dispatch_up: Callable[[], bool] | None  # whether NATS answers; None where it isn't used
    metrics: Callable[[], Awaitable[bytes]]  # of this process, in Prometheus text format
    metrics_token: str  # "" makes the metrics public
    base_url: str  # the address of this server for clients; "" uses the Host of their requests
    sign_in_links: tuple[SignInLink, ...] = ()  # in addition to the local password
    openid: OpenIdSignIn | None = None
    manifest_bytes: int = MANIFEST_BYTES
    is_secure: bool = False  # browsers reach this server only through TLS


BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")


class Request(msgspec.Struct, Generic[BodyT, QueryT], frozen=True, kw_only=True, gc=False):
    """One request, checked and decoded: `Request[LaunchRequest, None]`, `Request[None, Paging]`.

    `body` and `query` have the types that the handler declares. Path parameters are decoded; those named `id` or `…Id`
    are well-formed IDs. Headers have lower-case names.
    """

    caller: Actor | None
    path: Mapping[str, str]
    query: QueryT
    body: BodyT
    headers: Mapping[str, str]
    address: str
    request_id: str
    deps: ApiDeps
    target: str  # the raw path with the raw query, for links back to this resource
    warnings: list[str] = msgspec.field(default_factory=list)  # for the caller, also those that use cases add

    @property
    def actor(self) -> Actor:
        assert self.caller is not None, "a public endpoint has no caller"
        return self.caller

    @property
    def ctx(self) -> Context:
        sent = self.headers.get(OVERRIDE)
        override = None if sent is None else override_reason(_decoded(OVERRIDE, sent))
        return Context(self.deps.app, self.actor, override=override, warnings=self.warnings, is_request=True)


def _decoded(name: str, sent: str) -> str:
    """Return a header that is percent-encoded. Raises BadRequest."""
    try:
        return unquote(sent, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest(f"The header {name} isn't UTF-8, percent-encoded.", code="InvalidOverride") from None
