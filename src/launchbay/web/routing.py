"""Which row answers a request. Matching is on the raw path: `%2f` never moves a boundary (quality.md §3)."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from launchbay.errors import NotFound
from launchbay.limits import PATH_SEGMENT_CHARS
from launchbay.web.problems import MethodNotAllowed
from launchbay.web.requests import JSON, FormBody, JsonBody, Request, YamlBody
from launchbay.web.responses import Response

Method = Literal["GET", "POST", "PUT", "DELETE"]
Handler = Callable[[Request[Any, Any]], Awaitable[Any]]
HandlerT = TypeVar("HandlerT", bound=Handler)
_OPERATION_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+|/\{[a-zA-Z]+\})+")
_OWN_STATUSES = {400, 401, 403, 404, 409, 413, 429}  # the frame adds 200, 500, 503 and what follows from the row
_PARAMETER_NAME = re.compile(r"\{([a-zA-Z]+)\}")


EXAMPLE_ID = "5f" * 12


@dataclass(frozen=True, slots=True)
class Returns:
    """What an endpoint returns with 200, for the documentation.

    `type` is one that msgspec can describe, and None the empty object. It is filled in from the handler's annotation;
    handlers that return a response of their own making name it here.
    """

    description: str = "Success."
    example: Any = None
    media_type: str = JSON
    type: Any = None


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
    extension: bool = False  # not in the reference
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
        return tuple(_PARAMETER_NAME.findall(self.path))

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


class Options(TypedDict, total=False):
    """What an endpoint may say beside its path; see `Endpoint`."""

    tags: tuple[str, ...]
    permission: str
    public: bool
    body: JsonBody | YamlBody | FormBody
    returns: Returns
    statuses: tuple[int, ...]
    extension: bool
    idempotency_key: bool
    field_errors: bool
    unlimited: bool


class Routes:
    """The endpoints of a resource, declared at their handlers.

    routes = Routes("Applications")

    @routes.put("/applications/{appId}", permission="EditApplication")
    async def rename_application(request: Request[NameBody, None]) -> None:
        \"""Rename an application.\"""

    The operation id is the function's name, the summary the first paragraph of its docstring; the types of body, query
    and answer are those of its annotations. Iterating gives the endpoints in the order of their declaration.
    """

    def __init__(self, *tags: str, prefix: str = "/api/1") -> None:
        self._tags = tags
        self._prefix = prefix
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        """Yield the endpoints in the order of their declaration."""
        return iter(self._endpoints)

    def get(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        """Declare a handler of GET, and with it of HEAD."""
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        """Declare a handler of POST."""
        return self._declare("POST", path, options)

    def put(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        """Declare a handler of PUT."""
        return self._declare("PUT", path, options)

    def delete(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        """Declare a handler of DELETE."""
        return self._declare("DELETE", path, options)

    def _declare(self, method: Method, path: str, options: Options) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            hints = get_type_hints(handler, include_extras=True)
            returned = hints.pop("return")
            body_type, query_type = next(iter(hints.values())).__args__
            more: dict[str, Any] = {"tags": self._tags, **options}
            body, returns = more.pop("body", None), more.pop("returns", Returns())
            if body is None and body_type is not NoneType:
                body = JsonBody(body_type)
            elif isinstance(body, JsonBody | FormBody):
                body = replace(body, type=body_type)
            if returned not in (NoneType, Response) and returned not in get_args(Response):
                returns = replace(returns, type=returned)
            self._endpoints.append(
                Endpoint(
                    method=method,
                    path=self._prefix + path,
                    operation_id=handler.__name__,
                    handler=handler,
                    summary=" ".join(inspect.cleandoc(handler.__doc__ or "").partition("\n\n")[0].split()),
                    query=None if query_type is NoneType else query_type,
                    body=body,
                    returns=returns,
                    **more,
                )
            )
            return handler

        return declare


def is_id_parameter(name: str) -> bool:
    """Tell whether the path parameter of this name holds an id."""
    return name == "id" or name.endswith("Id")


_PARAMETER_SEGMENT = re.compile(r"\{[^}]*\}")


class _Node:
    __slots__ = ("endpoint", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.endpoint: Endpoint | None = None


class Router:
    """The endpoint table as one tree of segments per method.

    A tree for each method lets `POST /instances/{id}/{workflow}` take a workflow that is called like a resource, such
    as `schedules`, which only GET knows as a word. Words go before parameters.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._trees: dict[str, _Node] = {}
        operation_ids: set[str] = set()
        spellings: dict[str, str] = {}
        for endpoint in endpoints:
            # OpenAPI knows a path by its spelling: the same path must not name its parameters in two ways.
            spelling = spellings.setdefault(_PARAMETER_SEGMENT.sub("{}", endpoint.path), endpoint.path)
            assert spelling == endpoint.path, f"{endpoint.path} is {spelling} with other names; use the same"
            assert endpoint.operation_id not in operation_ids, f"{endpoint.operation_id} stands twice in the table"
            operation_ids.add(endpoint.operation_id)
            self._add(endpoint)

    def _add(self, endpoint: Endpoint) -> None:
        node = self._trees.setdefault(endpoint.method, _Node())
        for segment in endpoint.path[1:].split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        assert node.endpoint is None, f"{endpoint.operation_id} and {node.endpoint} answer the same path"
        node.endpoint = endpoint

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the row and its decoded path parameters. HEAD is answered by GET.

        Raises NotFound when no row has the path, and MethodNotAllowed when rows of other methods have it.
        """
        segments = _segments(raw_path)
        if segments is not None:
            tree = self._trees.get("GET" if method == "HEAD" else method)
            values: list[str] = []
            endpoint = _descend(tree, segments, 0, values) if tree is not None else None
            if endpoint is not None:
                return endpoint, dict(zip(endpoint.parameters(), values, strict=True))
            allowed = self._allowed(segments)
            if allowed:
                raise MethodNotAllowed(method, allowed)
        raise NotFound("There is no such address; /api/1/openapi.json lists all of them.", code="UnknownPath")

    def allowed(self, raw_path: bytes) -> tuple[str, ...]:
        """Return the methods that the path knows, for `Allow`. Raises NotFound when there are none."""
        segments = _segments(raw_path)
        methods = self._allowed(segments) if segments is not None else ()
        if not methods:
            raise NotFound("There is no such address; /api/1/openapi.json lists all of them.", code="UnknownPath")
        return methods

    def _allowed(self, segments: list[str]) -> tuple[str, ...]:
        methods = {method for method, tree in self._trees.items() if _descend(tree, segments, 0, []) is not None}
        if "GET" in methods:
            methods.add("HEAD")
        return (*sorted(methods), "OPTIONS") if methods else ()


def _descend(node: _Node, segments: list[str], position: int, values: list[str]) -> Endpoint | None:
    """Walk the tree, and back where a word leads nowhere; the table's longest path bounds the depth."""
    if position == len(segments):
        return node.endpoint
    segment = segments[position]
    following = node.literals.get(segment)
    if following is not None:
        endpoint = _descend(following, segments, position + 1, values)
        if endpoint is not None:
            return endpoint
    if node.parameter is None or not segment:
        return None
    kept = len(values)
    values.append(segment)
    endpoint = _descend(node.parameter, segments, position + 1, values)
    if endpoint is None:
        del values[kept:]
    return endpoint


def _segments(raw_path: bytes) -> list[str] | None:
    """Return the decoded segments, or None when one of them cannot be anything's name."""
    if not raw_path.startswith(b"/"):
        return None
    try:
        if b"%" not in raw_path:
            segments = raw_path[1:].decode().split("/")
        else:
            segments = [unquote_to_bytes(segment).decode() for segment in raw_path[1:].split(b"/")]
    except UnicodeDecodeError:
        return None
    if any(len(segment) > PATH_SEGMENT_CHARS or "\0" in segment for segment in segments):
        return None
    return segments
