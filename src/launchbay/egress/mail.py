"""Sends email over the server's SMTP server (settings `smtp_*`).

The operator chose its address, so the address rules for manifests don't apply to it.
"""

import asyncio
import smtplib
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import NamedTuple

from launchbay import limits
from launchbay.clock import Backoff, Clock
from launchbay.errors import EgressFailed

_BACKOFF = Backoff(limits.MAIL_RETRY_FIRST_S, limits.MAIL_RETRY_LONGEST_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An email. Every attempt has the same `message_id`, so that receivers can drop duplicates."""

    message_id: str
    to: Sequence[str]
    subject: str
    text: str
    cc: Sequence[str] = ()
    html: str | None = None


_TRANSACTION_FAILED = 554  # RFC 5321, 4.2.3


class Refusal(NamedTuple):
    """What the server said about a recipient."""

    code: int
    reason: str

    @property
    def is_temporary(self) -> bool:
        """Whether the server asks to try again, as greylisting does (RFC 5321, 4.5.4.1)."""
        return 400 <= self.code < 500

    def __str__(self) -> str:
        return f"{self.code} {self.reason}"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long recipients that were put off are tried again.

    The last attempt is at most `s` seconds after `since`. `pause` tells who was put off, and sleeps for the given
    seconds.
    """

    since: datetime
    s: float
    pause: Callable[[Mapping[str, Refusal], float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """An SMTP server. `security`: `tls` from the first byte, `starttls` before any command, or `none`."""

    host: str
    port: int
    sender: str
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""  # the authority of its certificate, unless it is a public one

    @property
    def domain(self) -> str:
        """The domain of message IDs."""
        return parseaddr(self.sender)[1].rpartition("@")[2]

    async def send(self, email: Email, clock: Clock, patience: Patience | None = None) -> Mapping[str, str]:
        """Send an email; return who didn't get it, with the reasons.

        At least one got it. With patience, who was put off (4xx) is tried again, and nobody who got it gets it again.
        Raises EgressFailed, not retryable if the server refuses permanently or the email is invalid.
        """
        message = self._message(email, clock)
        recipients = list(dict.fromkeys((*email.to, *email.cc)))
        refused: dict[str, Refusal] = {}
        asked: Collection[str] = recipients
        for delay_s in _BACKOFF.delays():
            try:
                answers = await self._attempt(message, asked)
            except EgressFailed as error:
                if asked is recipients or len(refused) == len(recipients):
                    raise
                # Somebody got it already, and would get it again if the whole step was repeated.
                lasting = Refusal(_TRANSACTION_FAILED, " ".join(error.messages))
                answers = {each: refused[each] if error.retryable else lasting for each in asked}
            for recipient in asked:
                refused.pop(recipient, None)
            refused.update(answers)
            asked = [recipient for recipient, answer in answers.items() if answer.is_temporary]
            if not asked or patience is None or (clock.now() - patience.since).total_seconds() + delay_s > patience.s:
                break
            await patience.pause({recipient: answers[recipient] for recipient in asked}, delay_s)
        if len(refused) == len(recipients):
            reasons = "; ".join(f"{recipient}: {answer}" for recipient, answer in refused.items())
            raise EgressFailed(f"The mail server refused all recipients: {reasons}.", retryable=bool(asked))
        return {recipient: str(answer) for recipient, answer in refused.items()}

    async def _attempt(self, message: EmailMessage, recipients: Collection[str]) -> Mapping[str, Refusal]:
        """Send the message once; return who was refused."""
        try:
            return await asyncio.to_thread(self._send, message, list(recipients))
        except smtplib.SMTPRecipientsRefused as error:
            answers = {each: Refusal(code, _text(reply)) for each, (code, reply) in error.recipients.items()}
            # A server that hangs up (421) hasn't answered for the others, and nobody got it.
            last = list(answers.values())[-1]
            return {each: answers.get(each, last) for each in recipients}
        except smtplib.SMTPAuthenticationError as error:
            raise EgressFailed(
                f"The mail server {self.host} refused the sign-in ({error.smtp_code}).",
                "The server's administrator must check LAUNCHBAY_SMTP_USER and LAUNCHBAY_SMTP_PASSWORD.",
                retryable=Refusal(error.smtp_code, "").is_temporary,
            ) from error
        except smtplib.SMTPResponseException as error:
            answer = Refusal(error.smtp_code, _text(error.smtp_error))
            if answer.is_temporary:
                return dict.fromkeys(recipients, answer)
            raise EgressFailed(f"The mail server {self.host} refused the email: {answer}", retryable=False) from error
        except smtplib.SMTPNotSupportedError as error:
            raise EgressFailed(
                f"The mail server {self.host} doesn't support a required feature: {error}",
                "The server's administrator must check LAUNCHBAY_SMTP_SECURITY and LAUNCHBAY_SMTP_USER.",
                retryable=False,
            ) from error
        except ssl.SSLError as error:
            raise EgressFailed(
                f"Can't trust the mail server {self.host}: {error}.",
                "The server's administrator must check LAUNCHBAY_SMTP_SECURITY and LAUNCHBAY_SMTP_CA_FILE.",
                retryable=False,
            ) from error
        except (OSError, smtplib.SMTPException) as error:
            raise EgressFailed(f"Can't reach the mail server {self.host}:{self.port}: {error}.") from error

    def _message(self, email: Email, clock: Clock) -> EmailMessage:
        message = EmailMessage()
        try:
            message["From"] = self.sender
            message["To"] = ", ".join(email.to)
            if email.cc:
                message["Cc"] = ", ".join(email.cc)
            message["Subject"] = email.subject
            message["Date"] = format_datetime(clock.now())
            message["Message-ID"] = email.message_id
            message["Auto-Submitted"] = "auto-generated"
            message.set_content(email.text)
            if email.html is not None:
                message.add_alternative(email.html, subtype="html")
        except (ValueError, HeaderParseError, UnicodeError) as error:
            raise EgressFailed(f"Invalid email: {error}.", retryable=False) from error
        return message

    def _send(self, message: EmailMessage, recipients: Sequence[str]) -> Mapping[str, Refusal]:
        context = ssl.create_default_context(cafile=self.ca_file or None)
        name, timeout_s = self.domain, limits.MAIL_TIMEOUT_S
        connection = (
            smtplib.SMTP_SSL(self.host, self.port, local_hostname=name, timeout=timeout_s, context=context)
            if self.security == "tls"
            else smtplib.SMTP(self.host, self.port, local_hostname=name, timeout=timeout_s)
        )
        with connection:
            if self.security == "starttls":
                connection.starttls(context=context)
            if self.user:
                connection.login(self.user, self.password)
            sender = parseaddr(self.sender)[1]
            answers = connection.send_message(message, from_addr=sender, to_addrs=list(recipients))
            return {each: Refusal(code, _text(reply)) for each, (code, reply) in answers.items()}


def validate_address(text: str) -> str:
    """Return a bare email address. Raises ValueError for anything else."""
    text = text.strip()
    if len(text) > limits.EMAIL_CHARS or not text.isprintable() or any(each in text for each in ' ",;<>()[]\\'):
        raise ValueError(f"{text[:80]!r} is not an email address")
    try:
        address = Address(addr_spec=text)
    except (ValueError, HeaderParseError, IndexError) as error:
        raise ValueError(f"{text[:80]!r} is not an email address") from error
    if not address.username or ("." not in address.domain.strip(".") and address.domain != "localhost"):
        raise ValueError(f"{text[:80]!r} is not an email address")
    return text


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
