"""Endpoints, and which one serves a request. Paths are matched raw: `%2f` never moves a boundary."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from launchbay.errors import NotFound
from launchbay.limits import PATH_SEGMENT_CHARS
from launchbay.usecases.waits import Awaited
from launchbay.web.problems import MethodNotAllowed
from launchbay.web.requests import JSON, FormBody, JsonBody, LinesBody, Request, YamlBody
from launchbay.web.responses import Response

Method = Literal["GET", "POST", "PUT", "DELETE"]
Handler = Callable[[Request[Any, Any]], Awaitable[Any]]
HandlerT = TypeVar("HandlerT", bound=Handler)
_OPERATION_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_COMMAND = re.compile(r"[a-z]+(-[a-z]+)* [a-z]+(-[a-z]+)*")
_VERBS = {"read": "show", "change": "update", "replace": "set", "put": "set"}
_PATH = re.compile(r"(/[A-Za-z0-9._-]+|/\{[a-zA-Z]+\})+")
# `all_statuses` adds 200, 500, 503 and what follows from the endpoint.
_OWN_STATUSES = {400, 401, 403, 404, 409, 413, 429}
_PARAMETER_NAME = re.compile(r"\{([a-zA-Z]+)\}")


EXAMPLE_ID = "5f" * 12


@dataclass(frozen=True, slots=True)
class Returns:
    """The successful response of an endpoint, for the documentation.

    `type` is a type that msgspec can describe; None is the empty object. It comes from the handler's annotation;
    handlers that return a `Response` set it here.
    """

    description: str = "Success."
    example: Any = None
    media_type: str = JSON
    type: Any = None
    also: tuple[str, ...] = ()  # other media types that the client can ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint: everything that the router, the documentation, the client and the tests need."""

    method: Method
    path: str  # with parameters in braces; those named `id` or `…Id` are IDs, and malformed ones are 404
    operation_id: str  # snake_case: the method of the client
    handler: Handler
    summary: str
    tags: tuple[str, ...]
    command: str = ""  # noun and verb of the CLI, if `rule_command` names it badly
    permission: str = ""  # for the documentation; the use case decides. "None…" is no permission, else 403 is possible
    public: bool = False  # no authentication
    query: type[msgspec.Struct] | None = None
    body: JsonBody | YamlBody | FormBody | LinesBody | None = None
    returns: Returns = Returns()
    statuses: tuple[int, ...] = ()  # in addition to those that `all_statuses` derives
    extension: bool = False  # not in the established API reference
    idempotency_key: bool = False  # accepts Idempotency-Key ("Wire" 8)
    starts_job: bool = False  # waits for its turn while jobs queue for their start; the response names the job
    computes: bool = False  # may take long, and hardly waits: two of an organization at a time
    waits: Callable[[Request[Any, Any]], Awaitable[Awaited | None]] | None = None  # what `wait` of the query is for
    field_errors: bool = False  # errors are an object of field name → messages (reference §7)
    unlimited: bool = False  # no rate limits: for monitoring
    # The GET that shows what a change is about, if the path doesn't say so (`web/conditions.py`). None: no condition is
    # supported, since a transaction around the change would hold up what the change waits for.
    shown_by: str | None = ""

    def __post_init__(self) -> None:
        assert _PATH.fullmatch(self.path), f"{self.path}: not a path"
        assert _OPERATION_ID.fullmatch(self.operation_id), f"{self.operation_id}: an operation id is snake_case"
        assert self.body is None or self.method != "GET", f"{self.operation_id}: a body on GET is ignored"
        assert len(set(self.parameters())) == len(self.parameters()), f"{self.path}: duplicate parameter"
        assert self.public or self.permission, f"{self.operation_id}: declare the permission"
        assert set(self.statuses) <= _OWN_STATUSES, (
            f"{self.operation_id}: {self.statuses} are not statuses of an endpoint"
        )
        assert self._derived_statuses().isdisjoint(self.statuses), (
            f"{self.operation_id}: leave out of {self.statuses} what follows from the rest"
        )
        assert not (self.idempotency_key and isinstance(self.body, LinesBody)), "a file has no value to compare"
        assert not self.command or _COMMAND.fullmatch(self.command), f"{self.command}: not a noun and a verb"
        assert self.command != self.rule_command, f"{self.operation_id}: its command follows from its id"
        # Fails here, and not with the first request, for a type that msgspec can't read.
        msgspec.inspect.multi_type_info(self.types())

    def parameters(self) -> tuple[str, ...]:
        return tuple(_PARAMETER_NAME.findall(self.path))

    @property
    def rule_command(self) -> str:
        """The command of the CLI that follows from the id: `list_roles` is `role list`."""
        if self.returns.media_type.startswith("text/html"):
            return f"page {self.operation_id.replace('_', '-')}"
        word, _, rest = self.operation_id.partition("_")
        noun = f"{rest[:-3]}y" if rest.endswith("ies") else rest.removesuffix("s")
        return f"{noun.replace('_', '-')} {_VERBS.get(word, word)}"

    @property
    def refuses_unknown_parameters(self) -> bool:
        """Whether a query with an unknown parameter is 400 (decision 0163).

        Established clients may send more. To public endpoints, browsers, probes and sign-in providers add theirs.
        """
        return self.extension and not self.public

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and get_origin(self.returns.type) is list

    @property
    def page_items(self) -> int | None:
        """The size of a page by default; None of a complete list."""
        limit = (
            None
            if self.query is None
            else next((each.default for each in msgspec.structs.fields(self.query) if each.name == "limit"), None)
        )
        return limit if isinstance(limit, int) else None

    def types(self) -> tuple[Any, ...]:
        """Return the types in requests and responses, for the documentation."""
        body = self.body.type if isinstance(self.body, JsonBody | FormBody) else None
        return tuple(kind for kind in (self.returns.type, self.query, body) if kind is not None)

    def all_statuses(self) -> tuple[int, ...]:
        """Return every status that this endpoint may return, in order."""
        return tuple(sorted(self._derived_statuses().union(self.statuses)))

    def _derived_statuses(self) -> set[int]:
        statuses = {200, 500, 503}
        if not self.unlimited:
            statuses.add(429)
        if not self.public:
            statuses |= {401} if self.permission.startswith("None") else {401, 403}
        if self.body is not None:
            statuses |= {400, 413}
        if self.query is not None or self.idempotency_key or self.refuses_unknown_parameters:
            statuses.add(400)
        if any(is_id_parameter(name) for name in self.parameters()):
            statuses.add(404)
        return statuses


class Options(TypedDict, total=False):
    """The options of an endpoint; see `Endpoint`."""

    tags: tuple[str, ...]
    command: str
    permission: str
    public: bool
    body: JsonBody | YamlBody | FormBody | LinesBody
    returns: Returns
    statuses: tuple[int, ...]
    extension: bool
    idempotency_key: bool
    starts_job: bool
    computes: bool
    waits: Callable[[Request[Any, Any]], Awaitable[Awaited | None]]
    field_errors: bool
    unlimited: bool
    shown_by: str | None


class Routes:
    """The endpoints of a resource, declared at their handlers.

    routes = Routes("Applications")

    @routes.put("/applications/{appId}", permission="EditApplication")
    async def rename_application(request: Request[NameBody, None]) -> None:
        \"""Rename an application.\"""

    The operation ID is the function's name, the summary the first paragraph of its docstring. The types of body,
    query and response come from its annotations. Iterating yields the endpoints in the order of declaration.
    `extension` holds for all of them.
    """

    def __init__(self, *tags: str, prefix: str = "/api/1", extension: bool = False) -> None:
        self._defaults: Options = {"tags": tags, "extension": extension}
        self._prefix = prefix
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def get(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        """Declare a handler of GET, and with it of HEAD."""
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("POST", path, options)

    def put(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("PUT", path, options)

    def delete(self, path: str, **options: Unpack[Options]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("DELETE", path, options)

    def _declare(self, method: Method, path: str, options: Options) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            hints = get_type_hints(handler, include_extras=True)
            returned = hints.pop("return")
            body_type, query_type = next(iter(hints.values())).__args__
            more: dict[str, Any] = {**self._defaults, **options}
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
    return name == "id" or name.endswith("Id")


_PARAMETER_SEGMENT = re.compile(r"\{[^}]*\}")


class _Node:
    __slots__ = ("endpoint", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.endpoint: tuple[Endpoint, tuple[str, ...]] | None = None  # with the names of its parameters


class Router:
    """The endpoint table as one tree of segments per method. Literals take precedence over parameters.

    With a tree per method, `POST /instances/{id}/{workflow}` accepts a workflow named like a resource of GET, such as
    `schedules`.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._trees: dict[str, _Node] = {}
        operation_ids: set[str] = set()
        spellings: dict[str, str] = {}
        for endpoint in endpoints:
            # OpenAPI identifies a path by its spelling: a path must always name its parameters the same way.
            spelling = spellings.setdefault(_PARAMETER_SEGMENT.sub("{}", endpoint.path), endpoint.path)
            assert spelling == endpoint.path, f"{endpoint.path} is {spelling} with different parameter names"
            assert endpoint.operation_id not in operation_ids, f"{endpoint.operation_id} is declared twice"
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
        node.endpoint = (endpoint, endpoint.parameters())

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint and its decoded path parameters. HEAD uses GET.

        Raises NotFound for an unknown path, and MethodNotAllowed if only other methods have it.
        """
        segments = _segments(raw_path)
        if segments is not None:
            tree = self._trees.get("GET" if method == "HEAD" else method)
            values: list[str] = []
            found = _descend(tree, segments, values) if tree is not None else None
            if found is not None:
                endpoint, names = found
                return endpoint, dict(zip(names, values, strict=True))
            allowed = self._allowed(segments)
            if allowed:
                raise MethodNotAllowed(method, allowed)
        raise _unknown_path()

    def allowed(self, raw_path: bytes) -> tuple[str, ...]:
        """Return the methods of the path, for `Allow`. Raises NotFound if it is unknown."""
        segments = _segments(raw_path)
        methods = self._allowed(segments) if segments is not None else ()
        if not methods:
            raise _unknown_path()
        return methods

    def _allowed(self, segments: list[str]) -> tuple[str, ...]:
        methods = {method for method, tree in self._trees.items() if _descend(tree, segments, []) is not None}
        if "GET" in methods:
            methods.add("HEAD")
        return (*sorted(methods), "OPTIONS") if methods else ()


def _unknown_path() -> NotFound:
    return NotFound("Unknown path. /api/1/openapi.json lists all paths.", code="UnknownPath")


def _descend(node: _Node | None, segments: list[str], values: list[str]) -> tuple[Endpoint, tuple[str, ...]] | None:
    """Walk the tree with backtracking, and collect the values of the parameters on the way."""
    untried: list[tuple[_Node, int, int]] = []  # parameters, with their places and those of their values
    place = 0
    while True:
        if node is None or place == len(segments):
            if node is not None and node.endpoint is not None:
                return node.endpoint
            if not untried:
                return None
            node, place, kept = untried.pop()
            values[kept:] = [segments[place]]
        else:
            segment = segments[place]
            parameter = node.parameter if segment else None
            if (following := node.literals.get(segment)) is None:
                node = parameter
                values.append(segment)
            else:
                if parameter is not None:
                    untried.append((parameter, place, len(values)))
                node = following
        place += 1


def _segments(raw_path: bytes) -> list[str] | None:
    """Return the decoded segments, or None if one of them can't be a name.

    One slash at the end doesn't count.
    """
    if not raw_path.startswith(b"/"):
        return None
    if len(raw_path) > 1:
        raw_path = raw_path.removesuffix(b"/")
    try:
        if b"%" not in raw_path:
            segments = raw_path[1:].decode().split("/")
        else:
            segments = [unquote_to_bytes(segment).decode() for segment in raw_path[1:].split(b"/")]
    except UnicodeDecodeError:
        return None
    is_odd = len(raw_path) > PATH_SEGMENT_CHARS or b"%" in raw_path or b"\0" in raw_path
    if is_odd and any(len(segment) > PATH_SEGMENT_CHARS or "\0" in segment for segment in segments):
        return None
    return segments
