"""The ASGI application: dispatches requests to handlers, with the order of checks (conformance.md, "Wire" 6).

401 credentials → 400 content type, syntax, types → 404 malformed IDs → the handler, whose use case continues with 404
unknown object → 403 → 400 invalid values → 409.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.permissions import Actor
from launchbay.auth.throttle import RateLimits, address_block
from launchbay.concurrency import cancel_all
from launchbay.errors import LaunchbayError, NotAuthenticated, NotFound, TooManyRequests
from launchbay.fairness.turns import (
    ANSWERS_ALONE,
    CHUNK_TURN_S,
    CHUNKS_ALONE,
    COMPUTE_TURN_S,
    REST,
    REST_AFTER_JOB,
    TURN_S,
    RequestTurns,
)
from launchbay.ids import canonical_id, is_id
from launchbay.limits import JSON_BODY_BYTES
from launchbay.telemetry import metrics
from launchbay.tenants import current_tenant
from launchbay.usecases.context import Context
from launchbay.usecases.idempotency import Answer, Idempotency
from launchbay.usecases.waits import Awaited
from launchbay.usecases.workflows import before_triggers
from launchbay.web import conditions, responses
from launchbay.web.conditions import Conditions
from launchbay.web.mcp import PATH as MCP_PATH
from launchbay.web.mcp import Mcp
from launchbay.web.middleware import AccessLog, Entrance
from launchbay.web.path_prefix import PathPrefix, path_prefix
from launchbay.web.problems import Problem, log_failure, problem
from launchbay.web.requests import (
    INLINE_BYTES,
    JSON,
    ApiDeps,
    BodyReader,
    ClientDisconnect,
    LinesBody,
    Request,
    header_map,
    read_body,
    read_query,
)
from launchbay.web.responses import (
    BufferedResponse,
    EventStreamResponse,
    Headers,
    HTMLResponse,
    JSONStream,
    RawJSONResponse,
    Response,
    TextStream,
    Versioned,
    response_of,
    until_disconnect,
    warned,
    write_events,
)
from launchbay.web.routing import Endpoint, Router, is_id_parameter
from launchbay.web.wire import WireCall, WireProtocol, WireReply, is_below


class Authenticator(Protocol):
    """Turns the credentials of a request into its caller."""

    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        """Return the caller.

        `headers` has lower-case names; lines with the same name are joined with ", ". `client_address` is the peer's IP
        address, "" if unknown. Raises NotAuthenticated, TooManyRequests, Unavailable.
        """
        ...


HEADER = "idempotency-key"
REFUSAL_S = 0.05  # before a request without valid credentials gets its refusal
_REPEATED = (("Idempotency-Replayed", "true"),)
_APPLIED = ("Preference-Applied", conditions.ITEM_TAGS)


Respond = Callable[[], Awaitable[Response]]
Look = Callable[[Request[Any, Any]], Awaitable[Awaited | None]]  # returns what is to be waited for, if anything is


async def respond_once(
    idempotency: Idempotency, endpoint: Endpoint, call: Request[Any, Any], respond: Respond
) -> RawJSONResponse:
    """Return the handler's response, or the first response to the same request with the same key."""

    async def work() -> Answer:
        response = await respond()
        assert not isinstance(response, Versioned | JSONStream | TextStream | EventStreamResponse), "only for changes"
        media_type, data = responses.encode_buffered(response)
        assert media_type == JSON, f"{endpoint.operation_id} returns {media_type}"
        return Answer(data, response.headers)

    # The decoded body: with different whitespace or a different order of names it is still the same request.
    length = call.headers.get("content-length", "")
    encode = partial(msgspec.json.encode, call.body, order="sorted")
    is_short = length.isdecimal() and int(length[:9]) <= INLINE_BYTES
    body = encode() if is_short else await asyncio.to_thread(encode)
    request = b"\0".join([endpoint.method.encode(), call.target.encode(), body])
    outcome = await idempotency.once(call.actor, call.headers[HEADER], request, work)
    return RawJSONResponse(outcome.answer.body, outcome.answer.headers + (_REPEATED if outcome.is_repeated else ()))


@dataclass(frozen=True, slots=True)
class Mount:
    """Another application that serves some of the paths."""

    app: ASGIApp
    matches: Callable[[str], bool]


def create_app(
    endpoints: Iterable[Endpoint],
    authenticator: Authenticator,
    services: ApiDeps,
    limits: RateLimits | None = None,
    mount: Mount | None = None,
    hosts: frozenset[str] | None = None,
    proxies: Callable[[ASGIApp], ASGIApp] | None = None,
    turns: RequestTurns | None = None,
    mcp: Mcp | None = None,
    protocols: Sequence[WireProtocol] = (),
) -> ASGIApp:
    """Return the endpoints and the mounted application, inside `Entrance`.

    `hosts` is for `Entrance`, `proxies` what puts ClientAddress around an application. `turns` are shared with the
    mounted application. `protocols` are served below their roots. All of it is below the path of the base URL, if that
    has one.
    """
    dispatcher = Dispatcher(endpoints, authenticator, services, limits, turns or RequestTurns())
    called = AccessLog(dispatcher)  # by tools: each of their calls is logged and measured as a request

    def route(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if mcp is not None and scope["path"] == MCP_PATH:
            return dispatcher.guard("mcp", partial(mcp.answer, called), scope, receive, send)
        for each in protocols:
            if is_below(each.root, scope["path"]):
                return dispatcher.speak(each, scope, receive, send)
        app: ASGIApp = mount.app if mount is not None and mount.matches(scope["path"]) else dispatcher
        return app(scope, receive, send)

    entrance = Entrance(route if proxies is None else proxies(route), hosts, encrypted_only=services.is_secure)
    prefix = path_prefix(services.base_url)
    return PathPrefix(entrance, prefix) if prefix else entrance


class Dispatcher:
    """Responds to requests from the endpoint table."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        authenticator: Authenticator,
        services: ApiDeps,
        limits: RateLimits | None,
        turns: RequestTurns,
    ) -> None:
        self._limits = limits
        table = tuple(endpoints)
        self._router = Router(table)
        self._conditions = Conditions(table)
        self._authenticator = authenticator
        self._services = services
        self._turns = turns
        self._chunk_turns = RequestTurns(CHUNKS_ALONE, self._turns, rests_alone=True)
        self._answer_turns = RequestTurns(ANSWERS_ALONE, self._turns)  # apart: what computes doesn't hold them up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request; every exception becomes a response here."""
        state = scope["state"]
        headers = header_map(scope["headers"])
        body_reader = BodyReader(headers, receive)
        endpoint: Endpoint | None = None
        try:
            raw_path = scope.get("raw_path") or scope["path"].encode()
            if scope["method"] == "OPTIONS":
                allow = ", ".join(self._router.allowed(raw_path))
                await _send_buffered(send, 200, JSON, b"{}", (("Allow", allow),))
                return
            endpoint, path = self._router.find(scope["method"], raw_path)
            state["operation"] = endpoint.operation_id
            if self._limits is not None and not endpoint.unlimited:
                self._limits.count_address(_address(scope))
            response = await self._respond(scope, headers, body_reader, receive, endpoint, path)
            await body_reader.discard()
            begin_turn = _begin_nothing
            if isinstance(response, JSONStream | TextStream) and "tenant" in state:
                state.pop("end_turn")()
                begin_turn = partial(self._chunk_turns.begin, state["tenant"], CHUNK_TURN_S)
            if isinstance(response, EventStreamResponse):
                state["is_stream"] = True
                still_allowed = partial(self._authenticator.authenticate, headers, _address(scope))
                with metrics.event_streams.track_inprogress():
                    end_turn = state.pop("end_turn", None)
                    await write_events(response, scope["method"], receive, send, still_allowed, end_turn)
            else:
                added = state.get("added", ())
                answering = self._answering(endpoint, scope["method"], headers, receive, send, begin_turn, added)
                await answering.write(response)
        except ClientDisconnect:
            state["client_gone"] = True
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a response
            await self._failed(error, scope, endpoint, body_reader, send)
        finally:
            if (end_turn := state.pop("end_turn", None)) is not None:
                end_turn()

    def _answering(
        self,
        endpoint: Endpoint,
        method: str,
        headers: Mapping[str, str],
        receive: Receive,
        send: Send,
        begin_turn: "BeginTurn",
        added: Headers,
    ) -> "_Answering":
        found = _Answering(method, receive, send, begin_turn)
        found.added = added
        if conditions.has_tag(endpoint):
            found.is_tagged = True
            found.condition = headers.get("if-none-match")
            if "prefer" in headers and conditions.prefers_item_tags(headers):
                found.item_tags = "strong" if self._conditions.has_strong_items(endpoint) else "weak"
        return found

    async def guard(self, operation: str, answer: "ServeRequest", scope: Scope, receive: Receive, send: Send) -> None:
        """Let `answer` answer a request, with the checks and errors of an endpoint.

        It begins no turn: what it calls does.
        """
        state = scope["state"]
        state["operation"] = operation
        headers = header_map(scope["headers"])
        body_reader = BodyReader(headers, receive)
        try:
            if self._limits is not None:
                self._limits.count_address(_address(scope))
            self._count(scope, await self._authenticate(scope, headers))
            await answer(scope, receive, body_reader, send)
        except ClientDisconnect:
            state["client_gone"] = True
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a response
            await self._failed(error, scope, None, body_reader, send)

    async def speak(self, protocol: WireProtocol, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a protocol answer a request, with the checks of an endpoint and its own errors."""
        state = scope["state"]
        state["operation"] = protocol.name
        headers = header_map(scope["headers"])
        body_reader = BodyReader(headers, receive)
        try:
            if self._limits is not None:
                self._limits.count_address(_address(scope))
            caller = await self._authenticate(scope, headers)
            self._count(scope, caller)
            if "tenant" in state:
                state["end_turn"] = await self._turns.begin(state["tenant"])
            body = await body_reader.read(JSON_BODY_BYTES)
            base = self._services.base_url.rstrip("/") or f"{scope['scheme']}://{headers.get('host', '')}"
            call = WireCall(
                ctx=Context(self._services.app, caller),
                method=scope["method"],
                path=scope["path"].removeprefix(protocol.root),
                query=scope["query_string"].decode("latin-1"),
                headers=headers,
                body=body,
                address=f"{base}{protocol.root}",
            )
            reply = await protocol.answer(call)
            await _send_buffered(send, reply.status, None, reply.body, reply.headers)
        except ClientDisconnect:
            state["client_gone"] = True
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a response
            await self._failed(error, scope, None, body_reader, send, protocol)
        finally:
            if (end_turn := state.pop("end_turn", None)) is not None:
                end_turn()

    async def _failed(
        self,
        error: Exception,
        scope: Scope,
        endpoint: Endpoint | None,
        body_reader: BodyReader,
        send: Send,
        protocol: WireProtocol | None = None,
    ) -> None:
        state = scope["state"]
        if state.get("answer_started"):
            # The response must not look complete: the server closes the connection instead.
            log_failure("http.aborted", error, state["request_id"])
            return
        if "user_id" not in state and isinstance(error, NotAuthenticated | TooManyRequests):
            await self._hold_back(scope)
        await _refuse(error, state, endpoint, body_reader, send, protocol)

    async def _authenticate(self, scope: Scope, headers: Mapping[str, str]) -> Actor:
        caller = await self._authenticator.authenticate(headers, _address(scope))
        scope["state"]["user_id"] = caller.user_id
        # Who calls as an agent only loses by it, so over standard input its own word is enough.
        is_agent = scope["state"].get("is_agent", False) or headers.get("launchbay-agent") == "mcp"
        return replace(caller, is_agent=True) if is_agent else caller

    def _count(self, scope: Scope, caller: Actor) -> None:
        """Count a request of the caller and of its organization. Raises TooManyRequests."""
        if self._limits is None:
            return
        self._limits.count_user(caller.user_id)
        organization_id = self._services.app.lookups.organization_of(caller.user_id)
        if organization_id is not None:
            self._services.app.quotas.count_request(organization_id)
        scope["state"]["tenant"] = self._services.app.quotas.tenants.of(organization_id or caller.user_id)
        current_tenant.set(scope["state"]["tenant"])

    async def _begin_turn(self, tenant: str, endpoint: Endpoint) -> Callable[[], None]:
        if endpoint.computes:
            return await self._chunk_turns.begin(tenant, COMPUTE_TURN_S)
        return await self._turns.begin(tenant, rest=REST_AFTER_JOB if endpoint.starts_job else REST)

    async def _hold_back(self, scope: Scope) -> None:
        """Let whoever has no valid credentials wait, before the refusal."""
        end_turn = await self._turns.begin(f"refused {address_block(_address(scope))}")
        try:
            await asyncio.sleep(REFUSAL_S)
        finally:
            end_turn()

    async def _respond(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body_reader: BodyReader,
        receive: Receive,
        endpoint: Endpoint,
        path: Mapping[str, str],
    ) -> Response:
        began_s = asyncio.get_running_loop().time()
        address = _address(scope)
        caller = None
        if not endpoint.public:
            caller = await self._authenticate(scope, headers)
            if self._limits is not None and not endpoint.unlimited:
                self._count(scope, caller)
                if endpoint.waits is None:
                    scope["state"]["end_turn"] = await self._begin_turn(scope["state"]["tenant"], endpoint)
        query_string: bytes = scope["query_string"]
        query, warnings = read_query(query_string, endpoint.query, refuses_unknown=endpoint.refuses_unknown_parameters)
        body: Any = None
        if endpoint.body is not None:
            scope["state"]["is_upload"] = isinstance(endpoint.body, LinesBody)
            body, ignored = await read_body(
                endpoint.body,
                headers,
                body_reader,
                field_errors=endpoint.field_errors,
                manifest_bytes=self._services.manifest_bytes,
            )
            warnings += ignored
        path = _canonical(path)
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        call: Request[Any, Any] = Request(
            caller=caller,
            path=path,
            query=query,
            body=body,
            warnings=[*warnings],
            headers=headers,
            address=address,
            request_id=scope["state"]["request_id"],
            deps=self._services,
            target=f"{raw_path}?{query_string.decode('latin-1')}" if query_string else raw_path,
        )
        if endpoint.waits is not None:
            await self._wait(scope["state"], endpoint, call, body_reader, receive, began_s)
        if endpoint.method == "GET":
            response = response_of(await endpoint.handler(call))
            listed = responses.list_headers(query, response) if endpoint.is_list else ()
            scope["state"]["added"] = (*responses.warning_headers(warnings), *listed)
            return response
        respond = partial(self._respond_if_matches, endpoint, call)
        if endpoint.starts_job:  # people of one organization take turns with each other too
            await self._services.app.dispatch.turn(f"{scope['state'].get('tenant', '')}/{call.actor.user_id}")
        return await self._respond_once(endpoint, call, respond)

    async def _wait(
        self,
        state: dict[str, Any],
        endpoint: Endpoint,
        call: Request[Any, Any],
        body_reader: BodyReader,
        receive: Receive,
        began_s: float,
    ) -> None:
        """Wait as the query asks, then for the turn of the answer.

        Both together take no longer than it asks for. The first look has a turn of its own, and nothing is held
        meanwhile. A client that closes its sending side gets the answer at once, as the object is then: one that has
        gone looks the same. Raises ClientDisconnect if the connection is lost.
        """
        assert endpoint.waits is not None
        tenant: str | None = state.get("tenant")
        if not call.query.wait:
            if tenant is not None:
                state["end_turn"] = await self._begin_turn(tenant, endpoint)
            return
        until_s = began_s + call.query.wait
        await body_reader.discard()
        gone = asyncio.create_task(until_disconnect(receive))
        half_closed = asyncio.Event()
        state["half_closed"] = half_closed.set
        closing = asyncio.create_task(half_closed.wait())
        waiting = asyncio.create_task(self._wait_for_end(state, endpoint.waits, call, until_s))
        try:
            await asyncio.wait({waiting, gone, closing}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not waiting.done():
                raise ClientDisconnect
            if waiting.done():
                await waiting
            await self._begin_answer(state, until_s)
        finally:
            await cancel_all((waiting, gone, closing))

    async def _wait_for_end(self, state: dict[str, Any], look: Look, call: Request[Any, Any], until_s: float) -> None:
        tenant: str | None = state.get("tenant")
        end_turn = await self._turns.begin(tenant, until_s=until_s) if tenant is not None else None
        try:
            awaited = await look(call)
        finally:
            if end_turn is not None:
                end_turn()
        if awaited is not None:
            await self._services.app.ends.wait(awaited, until_s)

    async def _begin_answer(self, state: dict[str, Any], until_s: float) -> None:
        tenant: str | None = state.get("tenant")
        if tenant is not None:
            soon_s = asyncio.get_running_loop().time() + TURN_S
            state["end_turn"] = await self._answer_turns.begin(tenant, CHUNK_TURN_S, until_s=max(until_s, soon_s))

    async def _respond_once(self, endpoint: Endpoint, call: Request[Any, Any], respond: Respond) -> Response:
        if endpoint.idempotency_key and HEADER in call.headers:
            # A request that took effect gets its answer again, though the object has changed by it.
            respond = partial(respond_once, self._services.idempotency, endpoint, call, respond)
        elif endpoint.public or conditions.IF_MATCH not in call.headers:
            return await respond()
        # Both headers have a transaction around the use case, which therefore leaves the waiting to this.
        return await before_triggers(call.ctx, respond)

    async def _respond_if_matches(self, endpoint: Endpoint, call: Request[Any, Any]) -> Response:
        if endpoint.public or conditions.IF_MATCH not in call.headers:
            return warned(call, response_of(await endpoint.handler(call)))
        database = self._services.app.database
        async with database.transaction() as connection:
            with database.joined(connection):
                await self._conditions.check(call, endpoint, connection)
                return warned(call, response_of(await endpoint.handler(call)))


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


async def _refuse(
    error: Exception,
    state: Mapping[str, Any],
    endpoint: Endpoint | None,
    body_reader: BodyReader,
    send: Send,
    protocol: WireProtocol | None,
) -> None:
    metrics.refusals.labels(getattr(error, "code", LaunchbayError.code)).inc()
    refused: Problem | WireReply
    if protocol is None:
        refused = problem(error, state["request_id"], field_errors=endpoint is not None and endpoint.field_errors)
    else:
        refused = protocol.refuse(error, state["request_id"])
    with contextlib.suppress(ClientDisconnect):
        await body_reader.discard()
        await _send_buffered(send, refused.status, None, refused.body, refused.headers)


def _canonical(path: Mapping[str, str]) -> Mapping[str, str]:
    """Return the path parameters with their IDs in lower case.

    Raises NotFound for what isn't an ID.
    """
    if all(is_id(text) for name, text in path.items() if is_id_parameter(name)):
        return path
    found = {name: canonical_id(text) if is_id_parameter(name) else text for name, text in path.items()}
    for name, text in found.items():
        if is_id_parameter(name) and not is_id(text):
            raise NotFound(f"Invalid ID {text[:60]!r}. An ID has 24 hexadecimal digits.")
    return found


ServeRequest = Callable[[Scope, Receive, BodyReader, Send], Awaitable[None]]
BeginTurn = Callable[[], Awaitable[Callable[[], None]]]  # returns what ends the turn


async def _begin_nothing() -> Callable[[], None]:
    return lambda: None


class _Answering:
    """Writes one response: in one piece with its tag, or as a stream."""

    def __init__(self, method: str, receive: Receive, send: Send, begin_turn: BeginTurn) -> None:
        self.added: Headers = ()  # which the tag doesn't cover: the object is the same however it was asked for
        self.is_tagged = False
        self.condition: str | None = None  # If-None-Match
        self.item_tags: Literal["strong", "weak"] | None = None
        self._method = method
        self._receive = receive
        self._send = send
        self._begin_turn = begin_turn

    async def write(self, response: BufferedResponse | Versioned | JSONStream | TextStream) -> None:
        if isinstance(response, TextStream):
            await self._write_text(response)
        elif isinstance(response, JSONStream):
            chunks = aiter(response.chunks)
            try:
                if self._method == "HEAD":
                    # The lookup happens with the first chunk, and it may raise.
                    await self._next_filled(chunks)
                    await self._start(response)
                    await self._send({"type": "http.response.body", "body": b""})
                else:
                    await self._write_stream(chunks, response)
            finally:
                # The iterator may be in the middle of a chunk: end it now, not at garbage collection.
                if hasattr(chunks, "aclose"):
                    await chunks.aclose()
        elif isinstance(response, Versioned):
            if not await self._is_known(response.tag):
                headers = (("ETag", response.tag), *self.added)
                await _send_buffered(self._send, 200, JSON, await response.make(), headers)
        else:
            media_type, data = responses.encode_buffered(response)
            status = response.status if isinstance(response, HTMLResponse) else 200
            if self.item_tags is not None and data[:1] == b"[":
                data = b"[" + self._items(data[1:-1]) + b"]"
            await self._write_buffered(status, media_type, data, response.headers)

    async def _write_buffered(self, status: int, media_type: str, data: bytes, headers: Headers) -> None:
        """Send a complete answer; only its tag, if the client has it already."""
        if self.item_tags is not None:
            headers = (*headers, _APPLIED)
        if self.is_tagged:
            # A hash of 47 MB takes 60 ms: not on the event loop.
            hashed = partial(conditions.answer_tag, media_type, data, headers)
            tag = hashed() if len(data) <= INLINE_BYTES else await asyncio.to_thread(hashed)
            if await self._is_known(tag):
                return
            headers = (*headers, ("ETag", tag))
        await _send_buffered(self._send, status, media_type, data, (*headers, *self.added))

    async def _is_known(self, tag: str) -> bool:
        if self.condition is None or not conditions.matches(self.condition, tag, weak=True):
            return False
        await self._send({"type": "http.response.start", "status": 304, "headers": [(b"etag", tag.encode())]})
        await self._send({"type": "http.response.body", "body": b""})
        return True

    def _items(self, items: bytes) -> bytes:
        """Return encoded items, with their tags if the client prefers that."""
        if self.item_tags is None:
            return items
        return conditions.with_item_tags(items, strong=self.item_tags == "strong")

    async def _start(self, response: JSONStream) -> None:
        applied = () if self.item_tags is None else (_APPLIED,)
        headers = _encoded(JSON, None, (*response.headers, *applied, *self.added))
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _write_stream(self, chunks: AsyncIterator[Sequence[Any]], response: JSONStream) -> None:
        """Send a list: buffered if it is one chunk, else as a stream.

        The stream stops when the client disconnects.
        """
        first = await self._next_filled(chunks)
        second = await self._next_filled(chunks) if first and not response.immediate else b""
        if not first or (not second and not response.immediate):
            await self._write_buffered(200, JSON, b"[" + first + b"]", response.headers)
            return
        gone = asyncio.create_task(until_disconnect(self._receive))
        try:
            await self._start(response)
            await self._send({"type": "http.response.body", "body": b"[" + first, "more_body": True})
            chunk = second or await self._next_filled(chunks)
            while chunk:
                if gone.done():
                    raise ClientDisconnect
                await self._send({"type": "http.response.body", "body": b"," + chunk, "more_body": True})
                chunk = await self._next_filled(chunks)
            await self._send({"type": "http.response.body", "body": b"]"})
        finally:
            gone.cancel()

    async def _write_text(self, response: TextStream) -> None:
        """Send a text as it comes; until the first chunk, errors are answers."""
        chunks = aiter(response.chunks)
        gone = asyncio.create_task(until_disconnect(self._receive))
        try:
            chunk = await _next_text(chunks, self._begin_turn)
            head = _encoded(response.media_type, None, (*response.headers, *self.added))
            await self._send({"type": "http.response.start", "status": 200, "headers": head})
            while chunk is not None and self._method != "HEAD":
                if gone.done():
                    raise ClientDisconnect
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await _next_text(chunks, self._begin_turn)
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            if hasattr(chunks, "aclose"):
                await chunks.aclose()

    async def _next_filled(self, chunks: AsyncIterator[Sequence[Any]]) -> bytes:
        """Return the next chunk with items, encoded; b"" after the last one."""
        end_turn = await self._begin_turn()
        try:
            async for chunk in chunks:
                if chunk:
                    return self._items(responses.encode_items(chunk))
            return b""
        finally:
            end_turn()


async def _next_text(chunks: AsyncIterator[bytes], begin_turn: BeginTurn) -> bytes | None:
    end_turn = await begin_turn()
    try:
        return await anext(chunks, None)
    finally:
        end_turn()


async def _send_buffered(send: Send, status: int, media_type: str | None, data: bytes, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": _encoded(media_type, len(data), headers)})
    await send({"type": "http.response.body", "body": data})


def _encoded(media_type: str | None, length: int | None, headers: Headers) -> list[tuple[bytes, bytes]]:
    encoded = [] if media_type is None else [(b"content-type", media_type.encode())]
    if length is not None:
        encoded.append((b"content-length", b"%d" % length))
    if headers:
        encoded.extend((name.lower().encode(), value.encode("latin-1")) for name, value in headers)
    return encoded
