"""The operator's mail server from the settings."""

from launchbay.egress.mail import MailServer
from launchbay.settings import Settings


def mail_server(settings: Settings) -> MailServer | None:
    """Return the mail server, None where the operator has set none."""
    if not settings.smtp_host:
        return None
    return MailServer(
        host=settings.smtp_host,
        port=settings.smtp_port,
        sender=settings.smtp_sender,
        security=settings.smtp_security,
        user=settings.smtp_user,
        password=settings.smtp_password,
        ca_file=settings.smtp_ca_file,
    )
