"""The decisions of the client: which request, with which credentials, when again, and what the answer means.

Nothing here does input or output. A decision is a generator that yields an effect (`Send`, `Read`, `Pause`, `Emit`) and
gets its outcome back from the `yield`; one of the two drivers carries it out. Credentials are flows of `httpx.Auth`.
"""

import base64
import itertools
import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from uuid import uuid4

import anyio
import httpx
import msgspec

from launchbay import __version__
from launchbay.client.errors import ClientError, ConnectionFailed, UnreadableAnswer, api_error, page_title
from launchbay.clock import Backoff

T = TypeVar("T")

JSON = "application/json"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)
_CONNECT_S = 10.0
_UPLOAD_S = 900.0  # until the answer to a file, which the server has to work on all of
_RENEW_BEFORE_S = 5.0  # an almost expired session would expire on its way
_SHOWN_CHARS = 200
_KNOWN_ANSWERS = 32
_KNOWN_BYTES = 256 * 1024  # of each of them


# Calls


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """What the server's endpoint table says of an operation."""

    method: str
    path: str  # with parameters in braces
    media_type: str = ""  # of the request's body; empty without a body
    answer: str = JSON  # media type of the answer
    keyed: bool = False  # takes Idempotency-Key
    repeatable: bool = False  # a POST that does no harm when it is done twice
    public: bool = False  # needs no credentials
    query: tuple[str, ...] = ()  # names of its query fields, if it has a body, too
    include: str = ""  # what to ask for in addition to the fields of the reference
    is_camel: bool = True  # the names of its fields are in camel case


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call as data. `returns` is the type of the answer: one for msgspec, `str` for a text, NoneType for none."""

    returns: type[T]
    path: Sequence[str] = ()  # values of the path's parameters, in order
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    idempotency_key: str | None = None
    if_match: str | None = None  # the tag that the object must still have
    spec: OperationSpec | None = None

    def on_condition(self, tag: str) -> "Call[T]":
        """Return the call for an object that still has this tag."""
        return replace(self, if_match=tag)

    def with_returns(self, kind: Any) -> "Call[Any]":
        """Return the call with its answer read as another type, such as `Any` for plain data."""
        return replace(self, returns=kind)

    @property
    def known(self) -> OperationSpec:
        assert self.spec is not None, "calls are made by operations"
        return self.spec

    @property
    def may_be_repeated(self) -> bool:
        if self.if_match is not None and self.idempotency_key is None:
            return False  # if the first one arrived after all, the object has another tag now
        return self.known.method != "POST" or self.known.repeatable or self.idempotency_key is not None

    def target(self) -> str:
        parts = self.known.path.split("{")
        filled = parts[0]
        for value, part in zip(self.path, parts[1:], strict=True):
            filled += quote(_segment(value), safe="") + part.partition("}")[2]
        query = [(name, _text(value)) for name, value in self.query.items() if value is not None]
        if self.known.include:
            query.append(("include", self.known.include))
        return f"{filled}?{urlencode(query)}" if query else filled

    def headers(self) -> dict[str, str]:
        """Return the headers, without credentials."""
        headers = {"Accept": self.known.answer, "User-Agent": f"launchbay-client/{__version__}"}
        if self.known.media_type:
            headers["Content-Type"] = self.known.media_type
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        if self.if_match is not None:
            headers["If-Match"] = self.if_match
        return headers

    def content(self) -> bytes | Path:
        """Return the body, or the path of a file that is sent piece by piece."""
        if isinstance(self.body, Path):
            return self.body
        if self.known.media_type == JSON:
            return msgspec.json.encode(self.body)
        if self.known.media_type == "application/x-www-form-urlencoded":
            return urlencode(self.body).encode()
        return b"" if self.body is None else str(self.body).encode()

    def value_of(self, response: httpx.Response) -> T:
        """Return what a successful answer holds.

        Raises UnreadableAnswer where it is not of the call's type.
        """
        kind: Any = self.returns
        if kind is NoneType:
            return None  # type: ignore[return-value] # T is None here
        if kind is str:
            return response.content.decode("utf-8", "replace")  # type: ignore[return-value] # T is str here
        try:
            value: T = msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError as error:
            raise unreadable(response, response.content, error) from error
        return value


@dataclass(frozen=True, slots=True)
class Tagged(Generic[T]):
    """An answer with its entity tag, "" if it has none."""

    value: T
    tag: str


def unreadable(response: httpx.Response, content: bytes, error: object) -> UnreadableAnswer:
    """Return the error for an answer, or a part of it, that is not of the form that the API describes."""
    request = response.request
    asked = f"{request.method} {request.url.raw_path.decode()} answered {response.status_code}"
    hint = f"Is {request.url.copy_with(raw_path=b'/')} the address of a Launchbay server, of this version?"
    if content.lstrip()[:1] == b"<":
        title = page_title(content)
        shown = f", titled {title!r}" if title else ""
        return UnreadableAnswer(f"{asked} with a web page{shown}, instead of JSON. {hint} A proxy may have answered.")
    said = content[:_SHOWN_CHARS].decode("utf-8", "replace")
    return UnreadableAnswer(f"{asked} with something else than expected: {error}. {hint} It said: {said!r}")


def _segment(value: str) -> str:
    if not isinstance(value, str) or not value or value in {".", ".."}:
        raise ValueError(f"{value!r} can't be a path segment: use a non-empty string other than '.' and '..'")
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


# Effects


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request. Outcome: the answer or a TransportError. `is_streamed` leaves the body of a 200 to `Read`."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Path
    timeout: httpx.Timeout
    auth: httpx.Auth | None = None
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Read the next piece of the last answer. Outcome: bytes, empty at the end, or a TransportError."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Hand an item to whoever iterates."""

    item: T


Effect: TypeAlias = Send | Read | Pause
Steps: TypeAlias = Generator[Effect, Any, T]  # Any: what comes back depends on the effect
Stream: TypeAlias = Generator[Effect | Emit[T], Any, None]


def reason(error: httpx.TransportError) -> str:
    """Return why there was no answer, without the period of the library's sentence."""
    return str(error).removesuffix(".") or type(error).__name__


# Parts of OpenSSL's messages about a certificate whose authority the client doesn't trust.
_UNKNOWN_AUTHORITY = ("unable to get local issuer certificate", "self-signed certificate", "self signed certificate")


def _advice(error: httpx.TransportError) -> str:
    if "WRONG_VERSION_NUMBER" in str(error):
        return "The server doesn't use TLS there. Try the address with http:// instead of https://."
    if any(words in str(error) for words in _UNKNOWN_AUTHORITY):
        return "If your own authority issued its certificate, set SSL_CERT_FILE to a PEM file with that authority's."
    return "Is the server up, and the address right?"


def read() -> Steps[bytes | httpx.TransportError]:
    outcome: bytes | httpx.TransportError = yield Read()
    return outcome


# Credentials (reference §5)


@dataclass(frozen=True, slots=True)
class Basic(httpx.Auth):
    """Email address and password, with each request."""

    email: str
    password: str

    def __repr__(self) -> str:
        return f"Basic({self.email!r})"

    @property
    def header(self) -> str:
        return "Basic " + base64.b64encode(f"{self.email}:{self.password}".encode()).decode()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self.header
        yield request


@dataclass(frozen=True, slots=True)
class SessionToken(httpx.Auth):
    """A session token that somebody else renews."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        """Raise ValueError for a token that headers can't hold. httpx's error would contain it."""
        if not re.fullmatch(r"[!-~]+", self.token):
            raise ValueError("A session token consists of visible ASCII characters, without blanks and line breaks")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self.token}"
        yield request


@dataclass(frozen=True, slots=True)
class Session:
    """A session token; `expires_at_s` are seconds since the Unix epoch."""

    token: str = field(repr=False)
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class RefreshToken:
    """A refresh token: the client exchanges it for session tokens, each used until it expires.

    `session` is a stored earlier session, and `renewed` is called with each new one. With both, short programs share a
    session.
    """

    token: str = field(repr=False)
    session: Session | None = field(default=None, repr=False)
    renewed: Callable[[Session], None] | None = field(default=None, repr=False)


Authentication: TypeAlias = Basic | RefreshToken | SessionToken | None

_EXCHANGE = OperationSpec("POST", "/refreshToken/jwtBearer", media_type=JSON, repeatable=True, public=True)


class _Exchanged(msgspec.Struct, rename="camel"):
    jwt_bearer: str
    expires_in: int


class SessionAuth(httpx.Auth):
    """Signs requests with a session, and renews it where it has expired or is refused.

    One renewal at a time. A renewal that the server refuses is the answer of the request that needed it.
    """

    def __init__(self, refresh: RefreshToken, base_url: str, timeout: httpx.Timeout) -> None:
        self._refresh = refresh
        self._session = refresh.session
        self._call = Call(_Exchanged, body={"refreshToken": refresh.token}, spec=_EXCHANGE)
        self._url = base_url + self._call.target()
        self._timeout = timeout
        self._thread_lock = threading.RLock()  # `renewed` may make calls
        self._task_lock = anyio.Lock()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request; a session that is refused is renewed once."""
        for _ in range(2):
            with self._thread_lock:
                session = self._current()
                if session is None:
                    response = yield self._exchange()
                    response.read()
                    if response.status_code != 200:
                        return
                    session = self._renew(response)
            request.headers["Authorization"] = f"Bearer {session.token}"
            response = yield request
            if response.status_code != 401:
                return
            self._forget(session)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same in an event loop."""
        for _ in range(2):
            async with self._task_lock:
                session = self._current()
                if session is None:
                    response = yield self._exchange()
                    await response.aread()
                    if response.status_code != 200:
                        return
                    session = self._renew(response)
            request.headers["Authorization"] = f"Bearer {session.token}"
            response = yield request
            if response.status_code != 401:
                return
            self._forget(session)

    def _current(self) -> Session | None:
        session = self._session
        return None if session is None or session.expires_at_s - _RENEW_BEFORE_S < time.time() else session

    def _exchange(self) -> httpx.Request:
        timeout = {"timeout": self._timeout.as_dict()}
        call = self._call
        content = call.content()
        assert isinstance(content, bytes), "what is exchanged is a short text"
        return httpx.Request(call.known.method, self._url, headers=call.headers(), content=content, extensions=timeout)

    def _renew(self, response: httpx.Response) -> Session:
        found = self._call.value_of(response)
        # Tokens of very short life would never be good otherwise.
        lifetime_s = max(float(found.expires_in), 2 * _RENEW_BEFORE_S)
        self._session = session = Session(found.jwt_bearer, time.time() + lifetime_s)
        if self._refresh.renewed is not None:
            self._refresh.renewed(session)
        return session

    def _forget(self, session: Session) -> None:
        if self._session == session:
            self._session = None


# Attempts


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long apart. What the server says in `Retry-After` counts, up to `longest_wait_s`.

    Without an answer, or with 503, only what may be repeated is: reads, PUT, DELETE, and POST with `Idempotency-Key`.
    With 502 and 504, which come from proxies, only GET is.
    A 429, and a connection that did not come about, are tried again in any case: the server has done nothing.
    `notify` is called before each pause, with the error and the seconds.
    """

    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    longest_wait_s: float = 60.0
    notify: Callable[[ClientError, float], None] | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; a call is made at least once")

    def pause_s(self, attempt: int, asked_s: float | None) -> float | None:
        """Return how long to wait after attempt number `attempt`, 1 for the first; None to give up."""
        if attempt >= self.attempts or (asked_s is not None and asked_s > self.longest_wait_s):
            return None
        if asked_s is not None:
            return asked_s
        return Backoff(self.first_pause_s, self.longest_pause_s).delay_s(attempt) * random.uniform(0.75, 1.25)


class _Known:
    """The last answers of GET by request: 304 means one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple[str, str], httpx.Response] = OrderedDict()

    def get(self, key: tuple[str, str]) -> httpx.Response | None:
        with self._lock:
            found = self._answers.get(key)
            if found is not None:
                self._answers.move_to_end(key)
            return found

    def keep(self, key: tuple[str, str], answer: httpx.Response) -> None:
        with self._lock:
            self._answers.pop(key, None)
            if "etag" in answer.headers and len(answer.content) <= _KNOWN_BYTES:
                self._answers[key] = answer
                if len(self._answers) > _KNOWN_ANSWERS:
                    self._answers.popitem(last=False)


_NEXT = re.compile(r'<([^>]*)>;\s*rel="?next"?')


def next_page(call: Call[T], response: httpx.Response) -> Call[T] | None:
    """Return the call of the next page, or None.

    Only the query of the link counts: the path is the same.
    """
    found = _NEXT.search(response.headers.get("link", ""))
    if found is None:
        return None
    return replace(call, query={name: values[-1] for name, values in parse_qs(urlsplit(found[1]).query).items()})


class Core:
    """One server and one caller. Raises ValueError if the URL is invalid.

    `on_warning` gets each warning of an answer that has no place for it. `override_freeze` is why the calls change what
    is frozen.
    """

    def __init__(
        self,
        base_url: str,
        authentication: Authentication,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        on_warning: Callable[[str], None] | None = None,
        override_freeze: str | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{base_url!r} is not the address of a server; write it as https://launchbay.example.org")
        self.base_url = base_url.rstrip("/")
        self.timeout_s = timeout_s
        self.retries = retries or Retries()
        self._on_warning = on_warning
        self._override_freeze = override_freeze
        self._known = _Known()
        self._auth = (
            SessionAuth(authentication, self.base_url, _timeout(timeout_s))
            if isinstance(authentication, RefreshToken)
            else authentication
        )

    def answer(self, call: Call[T]) -> Steps[T]:
        """Make a call and return what it answers.

        That of a list has the pages that follow too, unless the query has a limit.
        Raises ApiError, ConnectionFailed and UnreadableAnswer.
        """
        response = yield from self.response(call)
        value = call.value_of(response)
        if isinstance(value, list) and call.query.get("limit") is None:
            while (following := next_page(call, response)) is not None:
                response = yield from self.response(following)
                more = following.value_of(response)
                assert isinstance(more, list), "a page is what the list is"
                value.extend(more)
        return value

    def tagged(self, call: Call[T]) -> Steps["Tagged[T]"]:
        """Return the answer of a call with its tag, for `if_match` of a change."""
        response = yield from self.response(call)
        return Tagged(call.value_of(response), response.headers.get("etag", ""))

    def started(self, call: Call[T]) -> Steps[tuple[T, str]]:
        """Return the answer of a call, and the id of the job that it began."""
        response = yield from self.response(call)
        return call.value_of(response), response.headers.get("launchbay-job", "")

    def response(
        self,
        call: Call[Any],
        *,
        is_streamed: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Steps[httpx.Response]:
        """Make a call and return its successful answer; with `is_streamed` its body is still to be read."""
        if call.known.keyed and call.idempotency_key is None:
            call = replace(call, idempotency_key=uuid4().hex)
        url, sent_headers = self.base_url + call.target(), {**call.headers(), **(headers or {})}
        if self._override_freeze is not None and call.known.method != "GET":
            sent_headers["Launchbay-Override-Freeze"] = quote(self._override_freeze, safe=" ,;:!?()'")
        key, known = (url, call.known.answer), None
        if call.known.method == "GET" and not is_streamed and headers is None:
            known = self._known.get(key)
            if known is not None:
                sent_headers["If-None-Match"] = known.headers["etag"]
        content = call.content()
        if isinstance(content, Path):
            sent_headers["Content-Length"] = str(content.stat().st_size)
            timeout_s = max(timeout_s or self.timeout_s, _UPLOAD_S)
        send = Send(
            call.known.method,
            url,
            sent_headers,
            content,
            _timeout(timeout_s or self.timeout_s),
            None if call.known.public else self._auth,
            is_streamed,
        )
        for attempt in itertools.count(1):
            outcome: httpx.Response | httpx.TransportError = yield send
            if isinstance(outcome, httpx.Response) and outcome.status_code == 200:
                if call.known.method == "GET" and not is_streamed:
                    self._known.keep(key, outcome)
                self._pass_on_warnings(call, outcome)
                return outcome
            if isinstance(outcome, httpx.Response) and outcome.status_code == 304 and known is not None:
                return known
            # Where the session could not be renewed, the call itself was not sent.
            was_exchange = outcome.request.url.path.endswith(_EXCHANGE.path)
            pause_s = self._pause_s(outcome, attempt, may_be_repeated=call.may_be_repeated or was_exchange)
            if pause_s is None:
                raise self._error(outcome)
            if self.retries.notify is not None:
                self.retries.notify(self._error(outcome), pause_s)
            yield Pause(pause_s)
        raise AssertionError("the attempts have an end")

    def _pass_on_warnings(self, call: Call[Any], outcome: httpx.Response) -> None:
        text = outcome.headers.get("launchbay-warnings")
        if self._on_warning is not None and text is not None and "warnings" not in call.known.include:
            for warning in msgspec.json.decode(text, type=list[str]):
                self._on_warning(warning)

    def _pause_s(
        self, outcome: httpx.Response | httpx.TransportError, attempt: int, *, may_be_repeated: bool
    ) -> float | None:
        """Return how long to wait before the next attempt; None where there is to be none."""
        if isinstance(outcome, httpx.TransportError):
            return self.retries.pause_s(attempt, None) if may_be_repeated or isinstance(outcome, _NOT_SENT) else None
        is_of_proxy = outcome.status_code in {502, 504} and outcome.request.method == "GET"
        if outcome.status_code == 429 or (outcome.status_code == 503 and may_be_repeated) or is_of_proxy:
            return self.retries.pause_s(attempt, api_error(outcome).retry_after_s)
        return None

    def _error(self, outcome: httpx.Response | httpx.TransportError) -> ClientError:
        if isinstance(outcome, httpx.TransportError):
            return ConnectionFailed(
                f"{self.base_url} did not answer: {reason(outcome)}. {_advice(outcome)}",
                may_have_arrived=not isinstance(outcome, _NOT_SENT),
            )
        error = api_error(outcome)
        # Other servers answer 404 to paths that they don't have. Every response of ours has a request ID.
        if 200 < outcome.status_code < 400 or (outcome.status_code == 404 and not error.request_id):
            return unreadable(outcome, outcome.content, "it is not in the form of this API")
        error.docs = self._on_server(error.docs) if error.docs.startswith("/") else ""
        return error

    def _on_server(self, path: str) -> str:
        """Return the URL of a path. The server may not know below which one it is served."""
        prefix = urlsplit(self.base_url).path
        return self.base_url.removesuffix(prefix) + (path if path.startswith(f"{prefix}/") else prefix + path)


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(_CONNECT_S, seconds))
