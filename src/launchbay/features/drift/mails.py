"""Emails to owners about drift, at most one a day (decision 0243)."""

import hashlib
from collections.abc import Sequence

import structlog

from launchbay.egress.mail import Email, MailServer
from launchbay.errors import EgressFailed
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import DueMail, MailedInstance
from launchbay.usecases.context import AppContext

log = structlog.get_logger(__name__)
POLL_S = 60.0
_MAILS = 20  # of one round
_PAUSE_S = 900  # before an email that wasn't sent is tried again
_NAMED = 50  # instances in one email


class DriftMailRunner:
    """Sends emails that are due."""

    def __init__(self, app: AppContext, mail: MailServer | None, base_url: str) -> None:
        self._app = app
        self._mail = mail
        self._base_url = base_url.rstrip("/")

    async def advance(self) -> bool:
        """Send what is due. True: there may be more."""
        if self._mail is None:
            return False
        async with self._app.database.transaction() as connection:
            mails = await store.take_mails(connection, pause_s=_PAUSE_S, count=_MAILS)
        for mail in mails:
            await self._send(self._mail, mail)
        return len(mails) == _MAILS

    async def _send(self, server: MailServer, mail: DueMail) -> None:
        key = {"user_id": mail.user_id, "organization_id": mail.organization_id}
        async with self._app.database.connection() as connection:
            found = await store.list_for_mail(connection, **key, count=_NAMED)
        is_sent = False
        if found:
            try:
                await server.send(drift_email(mail, found, self._base_url, server.domain), self._app.clock)
                is_sent = True
            except EgressFailed as error:
                log.warning("drift.mail_failed", user=mail.user_id, error=str(error))
                if error.retryable:
                    return  # again after the pause
        async with self._app.database.transaction() as connection:
            await store.mail_is_done(connection, **key, noted_at=mail.noted_at, is_sent=is_sent)


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
        f"Somebody changed what your instances in {_printable(mail.organization)} have set up:",
        "",
        *lines,
        "",
        "The drift of an instance shows what differs. Put it back, take it over, or ignore it with a reason.",
        "You get such an email once a day at most, and only after a check has found something new.",
    )
    return Email(
        message_id=f"<{key}@{domain}>", to=[mail.email], subject=f"{what} drifted", text="\n".join(text) + "\n"
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
