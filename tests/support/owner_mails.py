"""Emails to owners: a mail server in memory, and what sends them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from launchbay.clock import Clock
from launchbay.egress.mail import Email, MailServer
from launchbay.usecases.context import AppContext
from launchbay.usecases.owner_mails import OwnerMails
from tests.support.service import Api

Mails = TypeVar("Mails", bound=OwnerMails[Any])


@dataclass
class Mailbox:
    """Has every email that was handed over; `then` runs before the server answers."""

    emails: list[Email] = field(default_factory=list)
    then: Callable[[], Awaitable[object]] | None = None
    domain: str = "bay.example"

    @property
    def server(self) -> MailServer:
        return cast("MailServer", self)

    @property
    def sent(self) -> list[tuple[str, str]]:
        """Who got an email, and its subject."""
        return [(email.to[0], email.subject) for email in self.emails]

    async def send(self, email: Email, clock: Clock) -> object:
        del clock
        self.emails.append(email)
        if self.then is not None:
            await self.then()
        return {}


def app_of(api: Api) -> AppContext:
    """Return what the background tasks of the server work with."""
    [task] = [each for each in api.parts.engine.periodic_tasks if each.name == "drift mails"]
    return cast("AppContext", cast("Any", task.run).__self__.app)


def mails_of(api: Api, kind: type[Mails], server: MailServer) -> Mails:
    """Return what sends emails of a kind, as one of several processes."""
    return kind(app_of(api), server, "https://bay.example/")
