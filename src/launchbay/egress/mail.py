"""Sends email over the server's SMTP server (settings `smtp_*`).

The operator chose its address, so the address rules for manifests don't apply to it.
"""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr

from launchbay import limits
from launchbay.clock import Clock
from launchbay.errors import EgressFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An email. Every attempt has the same `message_id`, so that receivers can drop duplicates."""

    message_id: str
    to: Sequence[str]
    subject: str
    text: str
    cc: Sequence[str] = ()
    html: str | None = None


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

    async def send(self, email: Email, clock: Clock) -> Mapping[str, str]:
        """Send an email; return the refused recipients with the reasons. At least one was accepted.

        Raises EgressFailed, not retryable if the server refuses permanently or the email is invalid.
        """
        message = self._message(email, clock)
        recipients = list(dict.fromkeys((*email.to, *email.cc)))
        try:
            return await asyncio.to_thread(self._send, message, recipients)
        except smtplib.SMTPRecipientsRefused as error:
            refusals = "; ".join(f"{recipient}: {reason}" for recipient, reason in _refused(error.recipients).items())
            raise EgressFailed(
                f"The mail server refused all recipients: {refusals}.",
                retryable=any(code < 500 for code, _ in error.recipients.values()),
            ) from error
        except smtplib.SMTPAuthenticationError as error:
            raise EgressFailed(
                f"The mail server {self.host} refused the sign-in ({error.smtp_code}).",
                "The server's administrator must check LAUNCHBAY_SMTP_USER and LAUNCHBAY_SMTP_PASSWORD.",
                retryable=False,
            ) from error
        except smtplib.SMTPResponseException as error:
            text = _text(error.smtp_error)
            raise EgressFailed(
                f"The mail server {self.host} refused the email: {error.smtp_code} {text}",
                retryable=error.smtp_code < 500,
            ) from error
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

    def _send(self, message: EmailMessage, recipients: Sequence[str]) -> Mapping[str, str]:
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
            return _refused(connection.send_message(message, from_addr=sender, to_addrs=list(recipients)))


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


def _refused(answers: Mapping[str, tuple[int, bytes]]) -> dict[str, str]:
    return {recipient: f"{code} {_text(reply)}" for recipient, (code, reply) in answers.items()}


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
