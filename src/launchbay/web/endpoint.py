"""The row type of the endpoint table."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from launchbay.limits import FORM_BYTES, JSON_BODY_BYTES, MANIFEST_BYTES
from launchbay.web.answers import JSON, YAML, Answer
from launchbay.web.call import Call

Method = Literal["GET", "POST", "PUT", "DELETE"]
Handler = Callable[[Call[Any, Any]], Awaitable[Answer]]

_OPERATION_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+|/\{[a-zA-Z]+\})+")
_OWN_STATUSES = {400, 401, 403, 404, 409, 413, 429}  # the frame adds 200, 500, 503 and what follows from the row
_PARAMETER = re.compile(r"\{([a-zA-Z]+)\}")


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON request body of one type: a msgspec.Struct, `dict[str, Any]` for any object, or a list.

    `required` tells whether an empty body is refused; left open, a struct whose fields are all optional may be left
    out, and reads as `{}` then. `media_optional` takes an empty body whatever its content type says (clone: "request
    body optional"; Ruby's Net::HTTP labels an empty POST as a form).
    """

    type: Any
    required: bool | None = None
    media_optional: bool = False
    bytes_max: int = JSON_BODY_BYTES
    example: Any = None
    media_type: str = JSON

    def may_be_empty(self) -> bool:
        """Tell whether an empty body is taken as `{}`."""
        if self.required is not None:
            return not self.required
        if not (isinstance(self.type, type) and issubclass(self.type, msgspec.Struct)):
            return False
        return not any(field.required for field in msgspec.structs.fields(self.type))


@dataclass(frozen=True, slots=True)
class YamlBody:
    """A YAML request body, handed on as text: the manifest reader has its own bounds."""

    bytes_max: int = MANIFEST_BYTES
    example: str = ""
    media_type: str = YAML


@dataclass(frozen=True, slots=True)
class FormBody:
    """What a form of a page sends, as a msgspec.Struct of texts."""

    type: type[msgspec.Struct]
    bytes_max: int = FORM_BYTES
    example: Any = None
    media_type: str = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Returns:
    """What a row answers with 200, for the documentation: a type that msgspec can describe (None: the empty object)."""

    type: Any = None
    description: str = "Success."
    example: Any = None
    media_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint: everything that the router, the documentation, the client and the tests need to know of it."""

    method: Method
    path: str  # with parameters in braces; those named `id` or `…Id` are ids, and text of another form is 404
    operation_id: str  # snake_case: the method of the client, and with hyphens the command of the CLI
    handler: Handler
    summary: str
    tags: tuple[str, ...]
    permission: str = ""  # what the caller needs, in words of the permission list; the use case decides
    public: bool = False  # no authentication
    query: type[msgspec.Struct] | None = None
    body: JsonBody | YamlBody | FormBody | None = None
    returns: Returns = Returns()
    statuses: tuple[int, ...] = ()  # beyond those that the frame gives by itself (see `all_statuses`)
    addition: bool = False  # not in the reference
    idempotency_key: bool = False  # accepts Idempotency-Key ("Wire" 8)
    field_errors: bool = False  # errors are an object of field name → messages (reference §7)
    unlimited: bool = False  # no rate limits: for those who watch over the service

    def __post_init__(self) -> None:
        """Refuse rows that cannot work."""
        assert _PATH.fullmatch(self.path), f"{self.path}: not a path"
        assert _OPERATION_ID.fullmatch(self.operation_id), f"{self.operation_id}: an operation id is snake_case"
        assert self.body is None or self.method != "GET", f"{self.operation_id}: a body on GET is ignored"
        assert len(set(self.parameters())) == len(self.parameters()), f"{self.path}: a parameter stands twice"
        assert self.public or self.permission, f"{self.operation_id}: say what the caller needs"
        assert set(self.statuses) <= _OWN_STATUSES, f"{self.operation_id}: {self.statuses} are not statuses of a row"
        # A type that msgspec cannot read would fail with the first request; it fails here instead.
        msgspec.inspect.multi_type_info(self.types())

    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path parameters, in order."""
        return tuple(_PARAMETER.findall(self.path))

    def types(self) -> tuple[Any, ...]:
        """Return the types that the row speaks of, for the documentation."""
        body = self.body.type if isinstance(self.body, JsonBody | FormBody) else None
        return tuple(kind for kind in (self.returns.type, self.query, body) if kind is not None)

    def all_statuses(self) -> tuple[int, ...]:
        """Return every status that this endpoint may answer with, in order."""
        statuses = {200, 500, 503, *self.statuses}
        if not self.unlimited:
            statuses.add(429)
        if not self.public:
            statuses.add(401)
        if self.body is not None:
            statuses |= {400, 413}
        if self.query is not None or self.idempotency_key:
            statuses.add(400)
        if any(is_id_parameter(name) for name in self.parameters()):
            statuses.add(404)
        return tuple(sorted(statuses))


def is_id_parameter(name: str) -> bool:
    """Tell whether the path parameter of this name holds an id."""
    return name == "id" or name.endswith("Id")
