"""Emails to owners about what is theirs (decision 0264).

Rows say who is to have one. Whether they get it is decided here, at the moment of sending, and what it says is read
then with their rights.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import structlog

from launchbay.auth.permissions import on_behalf
from launchbay.egress.mail import Email, MailServer
from launchbay.errors import EgressFailed, NotAllowed, NotAuthenticated, NotFound
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.usecases.context import AppContext, Context, Work

log = structlog.get_logger(__name__)
PAUSE_S = 900  # before an email that wasn't sent is tried again
_MAILS = 20  # of one round
_TURNS = 100  # organizations whose emails were the last ones
_SUBJECT_CHARS = 100  # of a name


class Due(Protocol):
    """An email that is due.

    `key` is the same for each attempt, and names no other email to this person.
    """

    @property
    def user_id(self) -> str: ...
    @property
    def organization_id(self) -> str: ...
    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Letter:
    """What an email says."""

    subject: str
    text: str


Row = TypeVar("Row", bound=Due)


class OwnerMails(ABC, Generic[Row]):
    """Sends emails of one kind.

    One at a time: those that waited for a slow mail server would be due again for another process. The organization
    whose last email is the longest ago has the next one.
    """

    kind: ClassVar[str]  # as logs name it

    def __init__(self, app: AppContext, server: MailServer | None, base_url: str) -> None:
        self.app = app
        self.base_url = base_url.rstrip("/")
        self._server = server
        self._turns: deque[str] = deque(maxlen=_TURNS)

    @abstractmethod
    async def take(self, connection: Connection, turns: list[str]) -> Row | None:
        """Take an email, and make it due again after `PAUSE_S`.

        Of organizations, `turns` counts those that had one lately.
        """

    @abstractmethod
    async def write(self, work: Work, organization_id: str, due: Row) -> Letter | None:
        """Read what the email says, with the rights of who gets it. None: there is nothing left to say."""

    @abstractmethod
    async def done(self, connection: Connection, due: Row, *, is_sent: bool) -> None:
        """Note that it isn't due any more."""

    async def advance(self) -> bool:
        """Send what is due. True: there may be more."""
        if self._server is None:
            return False
        for _ in range(_MAILS):
            async with self.app.database.transaction() as connection:
                due = await self.take(connection, list(self._turns))
            if due is None:
                return False
            self._turns.append(due.organization_id)
            await self._send(self._server, due)
        return True

    async def _send(self, server: MailServer, due: Row) -> None:
        email = await self._email(due, server.domain)
        is_sent = False
        if email is not None:
            try:
                await server.send(email, self.app.clock)
                is_sent = True
            except EgressFailed as error:
                log.warning("owner_mails.failed", kind=self.kind, user=due.user_id, error=str(error))
                if error.retryable:
                    return  # again after the pause
        async with self.app.database.transaction() as connection:
            await self.done(connection, due, is_sent=is_sent)

    async def _email(self, due: Row, domain: str) -> Email | None:
        """Return what to send; None for who is disabled, has left the organization, or has no mailbox."""
        try:
            async with Context(self.app, on_behalf(due.user_id)).read() as work:
                organization_id = await work.lookup.member_of(due.organization_id)
                address = await users.get_mailbox(work.connection, id=due.user_id)
                letter = None if address is None else await self.write(work, organization_id, due)
        except (NotAllowed, NotAuthenticated, NotFound):
            return None
        if address is None or letter is None:
            return None
        key = hashlib.sha256(f"{self.kind} {due.user_id} {due.key}".encode()).hexdigest()[:32]
        return Email(message_id=f"<{key}@{domain}>", to=[address], subject=letter.subject, text=letter.text)


def in_text(name: str) -> str:
    """Return a name on one line."""
    return "".join(letter if letter.isprintable() else " " for letter in name)


def in_subject(name: str) -> str:
    """Return a name for a subject, the beginning of a long one."""
    return in_text(name)[:_SUBJECT_CHARS]
