"""A real SMTP server on loopback that keeps what it is given."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from launchbay.egress.mail import MailServer

USER, PASSWORD = "bay", "opensesame-1"


@dataclass
class Postbox:
    """The letters, with who they were handed over for; `refuses` are receivers that it does not take, with words."""

    letters: list[EmailMessage] = field(default_factory=list)
    receivers: list[list[str]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    refuses_all: str | None = None
    was_encrypted: list[bool] = field(default_factory=list)
    was_signed_in: list[bool] = field(default_factory=list)
    server: MailServer = field(default_factory=lambda: MailServer(host="", port=1, sender=""))

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        if self.refuses_all is not None:
            return self.refuses_all
        assert isinstance(envelope.content, bytes)
        letter: Any = message_from_bytes(envelope.content, policy=policy.default)
        self.letters.append(letter)
        self.receivers.append(list(envelope.rcpt_tos))
        assert server.transport is not None
        self.was_encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        self.was_signed_in.append(bool(session.authenticated))
        return "250 OK"


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 and return it with its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "2", "-subj", "/CN=mail.test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@asynccontextmanager
async def postbox(security: str = "none", certificate: tuple[Path, Path] | None = None) -> AsyncIterator[Postbox]:
    """Run a server; with `tls` or `starttls` it wants a sign-in too."""
    box = Postbox()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)

    def authenticated(_server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        is_right = isinstance(given, LoginPassword) and (given.login, given.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        return AuthResult(success=is_right, handled=False)

    more: dict[str, Any] = {"auth_required": True, "authenticator": authenticated, "auth_require_tls": False}
    if security == "starttls":
        more |= {"tls_context": context, "require_starttls": True}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(box, hostname="mail.test", loop=loop, **({} if security == "none" else more)),
        "127.0.0.1",
        0,
        ssl=context if security == "tls" else None,
    )
    async with server:
        box.server = MailServer(
            host="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            sender="Launchbay <bay@example.org>",
            security=security,
            user="" if security == "none" else USER,
            password=PASSWORD,
            ca_file="" if certificate is None else str(certificate[0]),
        )
        yield box
