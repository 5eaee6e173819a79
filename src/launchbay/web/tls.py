"""The server's certificate, which is read again when its files change: renewals need no restart."""

import asyncio
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import structlog
from cryptography import x509

from launchbay.errors import CannotStart
from launchbay.telemetry import metrics

_log = structlog.get_logger("launchbay.web")
_CHECK_S = 5.0
_FileState = tuple[tuple[int, int, int], ...]


class Certificate:
    """A certificate chain and its private key, both PEM files.

    Raises CannotStart if they can't be used. `context` is what new connections use. Existing connections keep the
    certificate that they began with.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._state = self._files()
        self._is_end_reported = False
        self.context = self._load(None)
        self._report_end()

    async def keep_current(self, check_s: float = _CHECK_S) -> None:
        """Read changed files until canceled.

        Unusable files are logged, and the former certificate stays. A certificate that expires is logged once.
        """
        while True:
            await asyncio.sleep(check_s)
            try:
                state = await asyncio.to_thread(self._files)
                if state != self._state:
                    self._state = state  # also of unusable files, which are reported once
                    await asyncio.to_thread(self._load, self.context)
                    self._is_end_reported = False
                    _log.info("tls.reloaded", certificate=str(self._certificate))
            except CannotStart as error:
                _log.error("tls.reload_failed", error=str(error))
            self._report_end()

    def _report_end(self) -> None:
        if self._is_end_reported or datetime.now(UTC) < self._expires_at:
            return
        self._is_end_reported = True
        _log.error(
            "tls.expired",
            certificate=str(self._certificate),
            expired_at=self._expires_at.isoformat(),
            effect="Clients refuse to connect. Replace the files; the server reads them within seconds.",
        )

    def _files(self) -> _FileState:
        try:
            found = [os.stat(path) for path in (self._certificate, self._key)]  # noqa: PTH116 - one call for both
        except OSError as error:
            raise self._unusable(error) from error
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _load(self, used: ssl.SSLContext | None) -> ssl.SSLContext:
        """Return a new context with the files, and load them into the one in use."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # The new context first: a key that doesn't fit would leave the other one without a certificate.
            for each in (context, used):
                if each is not None:
                    each.load_cert_chain(self._certificate, self._key, password=self._no_password)
            [leaf, *_] = x509.load_pem_x509_certificates(self._certificate.read_bytes())
        except (OSError, ValueError) as error:  # of ssl or the parser
            raise self._unusable(error) from error
        self._expires_at = leaf.not_valid_after_utc
        metrics.certificate_end.set(self._expires_at.timestamp())
        return context

    def _no_password(self) -> str:
        raise CannotStart(
            f"The key in {self._key} is encrypted.", "Store it without a password, readable only for the server."
        )

    def _unusable(self, error: OSError | ValueError) -> CannotStart:
        return CannotStart(
            f"The certificate {self._certificate} and the key {self._key} can't be used: {error}",
            "Set LAUNCHBAY_TLS_CERTIFICATE to a PEM file with the certificate and its chain, and LAUNCHBAY_TLS_KEY to"
            " its private key.",
        )
