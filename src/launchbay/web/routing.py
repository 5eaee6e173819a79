"""Which row answers a request. Matching is on the raw path: `%2f` never moves a boundary (quality.md §3)."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from launchbay.errors import NotFound
from launchbay.limits import PATH_SEGMENT_CHARS
from launchbay.web.endpoint import Endpoint
from launchbay.web.problems import MethodNotAllowed

_PARAMETER = re.compile(r"\{[^}]*\}")


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
            spelling = spellings.setdefault(_PARAMETER.sub("{}", endpoint.path), endpoint.path)
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
