"""The client's thinking: which request, when again, with which credentials. It does no input and output itself."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from launchbay import __version__
from launchbay.client.answers import refusal, unreadable, value_of
from launchbay.client.authentication import Authentication, Basic, RefreshToken, Session, SessionToken
from launchbay.client.call import JSON, Call, Row
from launchbay.client.effects import Exclusive, Failure, Open, Pause, Request, Response, Send, Steps
from launchbay.client.errors import ApiError, ConnectionFailed
from launchbay.client.retries import Retries

T = TypeVar("T")

_EXCHANGE = Row(
    id="exchange_token",
    method="POST",
    path="/refreshToken/jwtBearer",
    media_type=JSON,
    repeatable=True,
    public=True,
)
_RENEW_BEFORE_S = 5.0  # an almost expired session would expire on its way


class _Exchanged(msgspec.Struct):
    jwtBearer: str  # noqa: N815 - the name on the wire
    expiresIn: int  # noqa: N815 - the name on the wire


class Core:
    """One server, one caller. Raises ValueError for an address that is none."""

    def __init__(
        self, base_url: str, authentication: Authentication, *, timeout_s: float = 30.0, retries: Retries | None = None
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{base_url!r} is not the address of a server; write it as https://launchbay.example.org")
        self.base_url = base_url.rstrip("/")
        self.timeout_s = timeout_s
        self.retries = retries or Retries()
        self._authentication = authentication
        self._session = authentication.session if isinstance(authentication, RefreshToken) else None

    def answer(self, call: Call[T]) -> Steps[T]:
        """Make a call and return what it answers. Raises ApiError, ConnectionFailed and UnreadableAnswer."""
        return value_of(call, (yield from self.response(call)))

    def response(self, call: Call[Any]) -> Steps[Response]:
        """Make a call and return its successful answer as it came."""
        return (yield from self._attempts(call, Send, {}, self.timeout_s))

    def opened(
        self, call: Call[Any], headers: Mapping[str, str] | None = None, timeout_s: float | None = None
    ) -> Steps[Response]:
        """Make a call and leave its successful answer open, to be read piece by piece."""
        return (yield from self._attempts(call, Open, headers or {}, timeout_s or self.timeout_s))

    def _attempts(
        self, call: Call[Any], effect: type[Send] | type[Open], headers: Mapping[str, str], timeout_s: float
    ) -> Steps[Response]:
        row = call.known
        if row.keyed and call.idempotency_key is None:
            call = replace(call, idempotency_key=uuid4().hex)
        repeatable = row.may_be_repeated or call.idempotency_key is not None
        attempt, has_renewed = 1, False
        while True:
            authorization = {} if row.public else (yield from self._authorization())
            sent = {**self._headers(call), **authorization, **headers}
            request = Request(row.method, self.base_url + call.target(), sent, call.content(), timeout_s)
            outcome: Response | Failure = yield effect(request)
            if isinstance(outcome, Response):
                if outcome.status == 200:
                    return outcome
                if outcome.status == 401 and not has_renewed and self._forget_session(authorization):
                    has_renewed = True
                    continue
            pause_s = self._pause_s(outcome, attempt, repeatable=repeatable)
            if pause_s is None:
                raise self._error(call, outcome)
            yield Pause(pause_s)
            attempt += 1

    def _pause_s(self, outcome: Response | Failure, attempt: int, *, repeatable: bool) -> float | None:
        """Return how long to wait before the next attempt; None where there is to be none."""
        if isinstance(outcome, Failure):
            return self.retries.pause_s(attempt, None) if repeatable or not outcome.arrived else None
        if outcome.status == 429 or (outcome.status == 503 and repeatable):
            return self.retries.pause_s(attempt, refusal(outcome).retry_after_s)
        return None

    def _error(self, call: Call[Any], outcome: Response | Failure) -> ApiError | Exception:
        if isinstance(outcome, Response):
            if 200 < outcome.status < 400:
                return unreadable(call, outcome, ValueError("not a success in the form of this API"))
            return refusal(outcome)
        return ConnectionFailed(
            f"{self.base_url} did not answer: {outcome.message}. Is the server up, and the address right?",
            may_have_arrived=outcome.arrived,
        )

    def _headers(self, call: Call[Any]) -> dict[str, str]:
        row = call.known
        headers = {"Accept": row.answer, "User-Agent": f"launchbay-client/{__version__}"}
        if row.media_type:
            headers["Content-Type"] = row.media_type
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        return headers

    def _authorization(self) -> Steps[dict[str, str]]:
        match self._authentication:
            case Basic() as basic:
                return {"Authorization": basic.header}
            case SessionToken(token):
                return {"Authorization": f"Bearer {token}"}
            case RefreshToken() as refresh:
                if self._current_session() is None:
                    yield Exclusive(self._renew(refresh))
                session = self._session
                assert session is not None, "renewing has made one, or raised"
                return {"Authorization": f"Bearer {session.token}"}
        return {}

    def _current_session(self) -> Session | None:
        session = self._session
        return None if session is None or session.expires_at_s - _RENEW_BEFORE_S < time.time() else session

    def _renew(self, refresh: RefreshToken) -> Steps[None]:
        """Exchange the refresh token, unless another call has done so meanwhile."""
        if self._current_session() is not None:
            return
        call = Call(_Exchanged, body={"refreshToken": refresh.token}, row=_EXCHANGE)
        found = yield from self.answer(call)
        # Tokens of very short life would never be good otherwise.
        lifetime_s = max(float(found.expiresIn), 2 * _RENEW_BEFORE_S)
        self._session = Session(found.jwtBearer, time.time() + lifetime_s)
        if refresh.renewed is not None:
            refresh.renewed(self._session)

    def _forget_session(self, authorization: Mapping[str, str]) -> bool:
        """Drop the session that was refused; tell whether another attempt can have a newer one."""
        if not isinstance(self._authentication, RefreshToken):
            return False
        if self._session is not None and authorization.get("Authorization") == f"Bearer {self._session.token}":
            self._session = None
        return True
