"""Re-encryption with a new secret key, and encrypted URLs of manifests.

Servers keep running. Rows are read page by page and written back only if unchanged, so that nothing newer is
overwritten; a second run finds what is left.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import httpx
import msgspec
import structlog

from launchbay.auth.identity_tokens import identity_key_purpose
from launchbay.auth.secret_key import CONFIRMED_S, MARK_BYTES, KeyFile, SecretKey, TextSeal, UnsealFailed
from launchbay.auth.tokens import session_key_purpose
from launchbay.egress.http import redacted_url
from launchbay.errors import CannotStart, Unavailable
from launchbay.ids import new_id
from launchbay.model import redaction
from launchbay.model.instance import Binding
from launchbay.service_types.secrets import parameter_purpose, sign_in_purpose, stored_secret_purpose
from launchbay.store import applications, keys
from launchbay.store import keys as store
from launchbay.store.database import Connection, Database, DatabaseError
from launchbay.store.instances import document_purpose
from launchbay.store.jobs import passing_purpose
from launchbay.store.keys import EncryptedColumn, SealedRow, TextRow
from launchbay.usecases.idempotency import answer_purpose
from launchbay.usecases.second_factors import second_factor_purpose

log = structlog.get_logger(__name__)
LOOK_S = 2.0  # between two looks which key seals
LIVE_S = CONFIRMED_S + 10  # after its last word, a process seals nothing without asking again
WAIT_S = LIVE_S + 20  # for live processes to use the newest key


class NewestKey:
    """Keeps a process to the secret key that the database names.

    It tells the database which one the process uses.
    """

    def __init__(self, database: Database, key: SecretKey, file: KeyFile) -> None:
        self._database = database
        self._key = key
        self._file = file
        self._id = new_id()
        self._name = f"{socket.gethostname()}, process {os.getpid()}"
        self._is_readable = True
        self._is_newest = True

    async def adopt(self) -> None:
        """Follow the key that the database names.

        The first process decides which.

        Raises CannotStart if this process lacks the key.
        """
        async with self._database.connection() as connection:
            await keys.propose_key_marks(connection, marks=self._key.marks[0])
            marks = await keys.get_key_marks(connection)
        assert marks is not None, "there is one now"
        self._key.follow(bytes(marks[:MARK_BYTES]))
        if self._key.sealing_mark is None:
            raise CannotStart(
                f"This database is encrypted with another secret key than {self._file.path}.",
                "Copy the key file of another server or of the backup there. If the key is lost, run:"
                " launchbay docs --print howto/restore#restore-without-the-key",
            )

    async def keep_current(self) -> None:
        """Look every LOOK_S until cancelled."""
        try:
            while True:
                try:
                    with suppress(Unavailable, DatabaseError):  # others log it
                        await self._look()
                    self._log()
                except Exception:  # without the next look, this process would miss a rotation
                    log.exception("secret_key.look_failed", repeats=True)
                await asyncio.sleep(LOOK_S)
        finally:
            try:
                async with self._database.connection() as connection:
                    await keys.remove_key_users(connection, id=self._id)
            except (Unavailable, DatabaseError) as error:
                log.info("secret_key.user_not_removed", error=str(error))

    async def _look(self) -> None:
        mark = self._key.sealing_mark
        while True:
            async with self._database.connection() as connection:
                marks = await keys.report_key(connection, id=self._id, name=self._name, mark=mark)
            assert marks is not None, "the start proposed one"
            self._key.follow(bytes(marks[:MARK_BYTES]))
            if mark == (mark := self._key.sealing_mark):
                return

    def _log(self) -> None:
        try:
            self._file.lines()
        except CannotStart as error:
            if self._is_readable:
                log.error("secret_key.unreadable", error=" ".join(error.messages))  # noqa: TRY400 - the message says it
            self._is_readable = False
        else:
            self._is_readable = True
        is_newest = self._key.sealing_mark is not None
        if self._is_newest and not is_newest:
            log.error(
                "secret_key.outdated",
                file=str(self._file.path),
                effect="Secrets are neither stored nor read. Copy the key file of another server here.",
            )
        elif is_newest and not self._is_newest:
            log.info("secret_key.current")
        self._is_newest = is_newest


# The query of a manifest's address is often a secret (promise 10). The database has the whole address sealed, and in
# the clear the part that may be shown.


def redact_source_url(url: str) -> str:
    """Return where a manifest comes from, without the query, which may hold a token."""
    return redacted_url(httpx.URL(url))


def seal_source_url(key: SecretKey, application_id: str, url: str) -> bytes:
    return key.seal(url.encode(), source_purpose(application_id))


def open_source_url(key: SecretKey, application_id: str, sealed: bytes) -> str:
    """Return the URL of an application's manifest.

    Raises UnsealFailed with another key than it had.
    """
    return key.open(sealed, source_purpose(application_id)).decode()


async def seal_sources(database: Database, key: SecretKey) -> None:
    """Seal sources of applications that a version before migration 0013 left in the clear.

    Each start may find some.
    """
    async with database.transaction() as connection:
        for source in await applications.list_unsealed_sources(connection):
            sealed = seal_source_url(key, source.id, source.url)
            shown = redact_source_url(source.url)
            await applications.set_source(connection, application_id=source.id, source_url=shown, sealed_source=sealed)


def source_purpose(application_id: str) -> str:
    return f"application {application_id} source"


PAGE = 200
# By column, what the bytes at an id and part are sealed for. Features add theirs.
Sealed = Mapping[EncryptedColumn[SealedRow], Callable[[str, str], str]]
SEALED: Sealed = {
    store.parameters: parameter_purpose,
    store.vault: stored_secret_purpose,
    store.sources: lambda application_id, _: source_purpose(application_id),
    store.session_keys: lambda key_id, _: session_key_purpose(key_id),
    store.identity_keys: lambda key_id, _: identity_key_purpose(key_id),
    store.answers: answer_purpose,
    store.second_factors: lambda factor_id, _: second_factor_purpose(factor_id),
    store.step_documents: lambda document_id, _: document_purpose(document_id),
    store.passing_values: lambda row_id, _: passing_purpose(row_id),
    store.sign_ins: lambda account_id, _: sign_in_purpose(account_id),
}

_REPLACEABLE = {store.session_keys: keys.SESSION_KEYS, store.identity_keys: keys.IDENTITY_KEYS}


@dataclass(slots=True)
class Resealed:
    """How many values were re-encrypted, and how many no key could decrypt, by column."""

    count: int = 0
    broken: Counter[str] = field(default_factory=Counter)


async def reseal(database: Database, key: SecretKey, of_features: Sealed) -> Resealed:
    """Seal everything with the key that seals now.

    What no key opens stays as it is, and is counted.
    """
    done = Resealed()
    for column, purpose in (*SEALED.items(), *of_features.items()):
        await _reseal_column(database, key, column, purpose, done)
    await _reseal_texts(database, store.bindings, partial(_new_binding, key, done), done)
    for document in store.documents:
        await _reseal_texts(database, document, partial(_new_text, key, done, document.name), done)
    return done


async def check_copy(connection: Connection, key: SecretKey) -> None:
    """Raise CannotStart if the file lacks the key of live processes."""
    marks = await keys.get_key_marks(connection) or b""
    if marks and marks[:MARK_BYTES] not in key.marks:
        users = await keys.list_key_users(connection, live_s=LIVE_S)
        if holders := [user.name for user in users if user.mark == marks[:MARK_BYTES]]:
            raise CannotStart(
                f"This key file is old. These processes have the newest key: {'; '.join(holders)}.",
                "Copy their key file here, then run this command again.",
            )


async def begin_rotation(database: Database, key: SecretKey) -> None:
    """Let the file's first key encrypt from now on.

    What its other keys encrypt is accepted until the end.
    """
    async with database.transaction() as connection:
        await keys.lock_key_marks(connection)
        await keys.set_key_marks(connection, marks=b"".join(key.marks))


async def end_rotation(database: Database, key: SecretKey, waiting: Callable[[Sequence[str]], object]) -> None:
    """Refuse from now on what other keys than the file's first one encrypt.

    Waits up to WAIT_S until every live process uses the file's first key; `waiting` gets the names of the others.
    Raises CannotStart if some still don't.
    """
    deadline_s = asyncio.get_running_loop().time() + WAIT_S
    told: list[str] = []
    while True:
        async with database.transaction() as connection:
            await keys.lock_key_marks(connection)
            users = await keys.list_key_users(connection, live_s=LIVE_S)
            others = [user.name for user in users if user.mark != key.marks[0]]
            if not others:
                await keys.set_key_marks(connection, marks=key.marks[0])
                return
        if asyncio.get_running_loop().time() > deadline_s:
            raise CannotStart(
                f"These processes don't have the newest secret key: {'; '.join(others)}.",
                "Copy the key file to their machines, and let their account read it. Then run this command again.",
            )
        if others != told:
            waiting(told := others)
        await asyncio.sleep(LOOK_S / 4)


async def _reseal_column(
    database: Database,
    key: SecretKey,
    column: EncryptedColumn[SealedRow],
    purpose: Callable[[str, str], str],
    done: Resealed,
) -> None:
    after = ("", "")
    while True:
        async with database.transaction() as connection:
            rows = await column.rows(connection, id=after[0], part=after[1], mark=key.current_prefix, count=PAGE)
            for row in rows:
                sealed = _new_seal(key, row.sealed, purpose(row.id, row.part))
                if sealed is None and column in _REPLACEABLE:
                    # Nobody can use it, and servers would refuse to start: they make another one, and people sign in.
                    await _REPLACEABLE[column].delete(connection, ids=[row.id])
                    continue
                if sealed is None:
                    done.broken[column.name] += 1
                    continue
                done.count += await column.put(
                    connection, id=row.id, part=row.part, sealed=sealed, before=bytes(row.sealed)
                )
        if len(rows) < PAGE:
            return
        after = (rows[-1].id, rows[-1].part)


async def _reseal_texts(
    database: Database, column: EncryptedColumn[TextRow], renew: Callable[[TextRow], str], done: Resealed
) -> None:
    after = ("", "")
    while True:
        async with database.transaction() as connection:
            rows = await column.rows(connection, id=after[0], part=after[1], count=PAGE)
            for row in rows:
                text = renew(row)
                if text != row.text:
                    done.count += await column.put(connection, id=row.id, part=row.part, text=text, before=row.text)
        if len(rows) < PAGE:
            return
        after = (rows[-1].id, rows[-1].part)


def _new_seal(key: SecretKey, sealed: bytes, purpose: str) -> bytes | None:
    try:
        return key.seal(key.open(bytes(sealed), purpose), purpose)
    except UnsealFailed:
        return None


def _new_binding(key: SecretKey, done: Resealed, row: TextRow) -> str:
    binding = msgspec.json.decode(row.text, type=Binding)
    if binding.service is None or all(map(key.is_current, binding.service.secrets.values())):
        return row.text
    secrets: dict[str, bytes] = {}
    for name, sealed in binding.service.secrets.items():
        new = sealed if key.is_current(sealed) else _new_seal(key, sealed, parameter_purpose(row.owner_id, name))
        done.broken[store.bindings.name] += new is None
        secrets[name] = sealed if new is None else new
    service = msgspec.structs.replace(binding.service, secrets=secrets)
    return msgspec.json.encode(msgspec.structs.replace(binding, service=service)).decode()


def _new_text(key: SecretKey, done: Resealed, name: str, row: TextRow) -> str:
    seal = TextSeal(key, row.owner_id)

    def renewed(token: str) -> str:
        opened = seal.open(token)
        done.broken[name] += opened is None
        return token if opened is None else seal.token(*opened)

    return redaction.replace_tokens(row.text, renewed)
