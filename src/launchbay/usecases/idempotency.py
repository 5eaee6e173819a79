"""Idempotency keys: a request sent twice takes effect once (conformance.md, "Wire" 8; decision 0032).

The key, the change and the response are committed together, so a crash leaves all of them or none. A client that missed
the response retries, and either gets it or has the work done then.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from launchbay import limits
from launchbay.auth.lookup import Lookups
from launchbay.auth.permissions import Actor
from launchbay.auth.secret_key import SecretKey
from launchbay.errors import BadRequest
from launchbay.store import audit as store
from launchbay.store.database import Connection, Database

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_PURPOSE = "idempotency key"


class Answer(msgspec.Struct, frozen=True):
    """Body and headers of a response. Only the body may hold secrets."""

    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """An answer, and whether it is that of an earlier request."""

    answer: Answer
    is_repeated: bool


_read_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode


class Idempotency:
    """Answers requests that carry a key. One object serves the process."""

    def __init__(self, database: Database, lookups: Lookups, secret: SecretKey) -> None:
        self._database = database
        self._lookups = lookups
        self._secret = secret
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}

    async def once(self, actor: Actor, key: str, request: bytes, work: Callable[[], Awaitable[Answer]]) -> Outcome:
        """Do the work of a request once, or return its stored answer.

        `request` is what makes it the same: method, path and body. Work that raises leaves the key free, for nothing
        was changed. Of requests at the same moment one does the work, and the others wait for its answer. Raises
        BadRequest for a key of another form, and for one that was used for another request.
        """
        _check(key)
        if actor.token is not None:  # another token of the owner may not get the answer
            request = actor.token.id.encode() + b"\0" + request
        fingerprint = self._secret.fingerprint(request, _PURPOSE)
        async with self._turn((actor.user_id, key)), self._database.transaction() as connection:
            # Whose account has ended meanwhile gets no old answers either.
            await self._lookups.bind(connection, actor).caller(by_token=True)
            begun = await store.insert_idempotency_key(
                connection, user_id=actor.user_id, key=key, fingerprint=fingerprint, hours=limits.IDEMPOTENCY_KEY_HOURS
            )
            if begun is None:
                return Outcome(await self._earlier(connection, actor, key, request), is_repeated=True)
            with self._database.joined(connection):
                answer = await work()
            await store.set_idempotent_answer(
                connection,
                user_id=actor.user_id,
                key=key,
                answer=self._secret.seal(answer.body, answer_purpose(actor.user_id, key)),
                headers=msgspec.json.encode(answer.headers).decode() if answer.headers else None,
            )
        return Outcome(answer, is_repeated=False)

    async def _earlier(self, connection: Connection, actor: Actor, key: str, request: bytes) -> Answer:
        stored = await store.get_idempotency_key(connection, user_id=actor.user_id, key=key)
        assert stored is not None, "the key is taken, and nobody removes one so young"
        if not self._secret.is_fingerprint(stored.fingerprint, request, _PURPOSE):
            raise BadRequest(
                f"The Idempotency-Key {key[:60]!r} was used for another request.",
                "Send a new key with a new request, and the same one only with the same request.",
                code="IdempotencyKeyReused",
            )
        body = self._secret.open(stored.answer, answer_purpose(actor.user_id, key))
        return Answer(body, () if stored.headers is None else _read_headers(stored.headers))

    @asynccontextmanager
    async def _turn(self, owner: tuple[str, str]) -> AsyncIterator[None]:
        """Run the requests of one key one after the other."""
        lock = self._turns.setdefault(owner, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._turns.get(owner) is lock:
                del self._turns[owner]


def _check(key: str) -> None:
    if len(key) > limits.IDEMPOTENCY_KEY_CHARS or _KEY.fullmatch(key) is None:
        raise BadRequest(
            f"An Idempotency-Key is 1 to {limits.IDEMPOTENCY_KEY_CHARS} printable ASCII characters; a UUID will do.",
            code="InvalidIdempotencyKey",
        )


def answer_purpose(user_id: str, key: str) -> str:
    """Return the purpose for which a stored answer is encrypted."""
    return f"{_PURPOSE} {user_id} {key}"
