"""Emails to owners about drift, at most one a day (decision 0243)."""

import hashlib
from collections.abc import Sequence

import structlog

from launchbay.auth.gate import visible
from launchbay.auth.permissions import Permission, on_behalf
from launchbay.egress.mail import Email, MailServer
from launchbay.errors import EgressFailed, NotAllowed, NotAuthenticated, NotFound
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import DueMail, MailedInstance
from launchbay.usecases.context import AppContext, Context

log = structlog.get_logger(__name__)
POLL_S = 60.0
_MAILS = 20  # of one round
_PAUSE_S = 900  # before an email that wasn't sent is tried again
_NAMED = 50  # instances in one email


class DriftMailRunner:
    """Sends emails that are due."""

    def __init__(self, app: AppContext, mail: MailServer | None, base_url: str) -> None:
        self.app = app
        self._mail = mail
        self._base_url = base_url.rstrip("/")

    async def advance(self) -> bool:
        """Send what is due. True: there may be more."""
        if self._mail is None:
            return False
        for _ in range(_MAILS):  # one by one: those that wait for a slow mail server aren't taken yet
            async with self.app.database.transaction() as connection:
                mails = await store.take_mails(connection, pause_s=_PAUSE_S, count=1)
            if not mails:
                return False
            await self._send(self._mail, mails[0])
        return True

    async def _send(self, server: MailServer, mail: DueMail) -> None:
        key = {"user_id": mail.user_id, "organization_id": mail.organization_id}
        found = await self._found(mail)
        is_sent = False
        if found:
            try:
                await server.send(drift_email(mail, found, self._base_url, server.domain), self.app.clock)
                is_sent = True
            except EgressFailed as error:
                log.warning("drift.mail_failed", user=mail.user_id, error=str(error))
                if error.retryable:
                    return  # again after the pause
        async with self.app.database.transaction() as connection:
            await store.mail_is_done(connection, **key, noted_at=mail.noted_at, is_sent=is_sent)

    async def _found(self, mail: DueMail) -> Sequence[MailedInstance]:
        """Return what its owner may read of it; nothing for who has left the organization or is disabled."""
        try:
            async with Context(self.app, on_behalf(mail.user_id)).read() as work:
                organization_id = await work.lookup.member_of(mail.organization_id)
                return await store.list_for_mail(
                    work.connection,
                    user_id=mail.user_id,
                    organization_id=organization_id,
                    count=_NAMED,
                    **visible(work.lookup.grants(organization_id), Permission.READ),
                )
        except (NotAllowed, NotAuthenticated, NotFound):
            return []


def drift_email(mail: DueMail, found: Sequence[MailedInstance], base_url: str, domain: str) -> Email:
    """Return an email with a line for each instance.

    Until it was sent, it has the same ID.
    """
    total = found[0].total
    key = hashlib.sha256(f"{mail.user_id} {mail.organization_id} {mail.sent_at}".encode()).hexdigest()[:32]
    names = [_printable(each.name) for each in found]
    what = f"{names[0][:100]} has" if total == 1 else f"{total} instances have"
    lines = [
        f"- {name}: {each.new} {'finding' if each.new == 1 else 'findings'}"
        f"{f', {base_url}/console/instances/{each.instance_id}/drift' if base_url else ''}"
        for name, each in zip(names, found, strict=True)
    ]
    if total > len(found):
        lines.append(f"- and {total - len(found)} more")
    text = (
        f"Checks found drift in your instances in {_printable(mail.organization)}:",
        "",
        *lines,
        "",
        "The Drift page of an instance shows what differs. Put it back, take it over, or ignore it with a reason.",
        "You get this email at most once a day, and only after a check found something new.",
    )
    return Email(
        message_id=f"<{key}@{domain}>", to=[mail.email], subject=f"{what} drifted", text="\n".join(text) + "\n"
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
