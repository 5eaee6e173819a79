"""The server's certificate, which is read again when its files change: renewals need no restart."""

import asyncio
import os
import ssl
from pathlib import Path

import structlog

from launchbay.errors import CannotStart

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
        self.context = self._load(None)

    async def keep_current(self, check_s: float = _CHECK_S) -> None:
        """Read changed files until canceled.

        Unusable files are logged, and the former certificate stays.
        """
        while True:
            await asyncio.sleep(check_s)
            try:
                state = await asyncio.to_thread(self._files)
                if state != self._state:
                    self._state = state  # also of unusable files, which are reported once
                    await asyncio.to_thread(self._load, self.context)
                    _log.info("tls.reloaded", certificate=str(self._certificate))
            except CannotStart as error:
                _log.error("tls.reload_failed", error=str(error))

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
        except (OSError, ssl.SSLError) as error:
            raise self._unusable(error) from error
        return context

    def _no_password(self) -> str:
        raise CannotStart(
            f"The key in {self._key} is encrypted.", "Store it without a password, readable only for the server."
        )

    def _unusable(self, error: OSError) -> CannotStart:
        return CannotStart(
            f"The certificate {self._certificate} and the key {self._key} can't be used: {error}",
            "Set LAUNCHBAY_TLS_CERTIFICATE to a PEM file with the certificate and its chain, and LAUNCHBAY_TLS_KEY to"
            " its private key.",
        )
