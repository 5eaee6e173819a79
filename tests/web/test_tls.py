"""Encrypted connections of the server itself, with a real handshake."""

import asyncio
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from launchbay.telemetry.metrics import certificate_end
from launchbay.web.server import serve
from launchbay.web.tls import Certificate
from tests.support.eventually import eventually
from tests.support.external_services import made_certificate
from tests.support.network import LIVE, exchange
from tests.support.routes import sample_app


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def expire(certificate: Path, key: Path) -> None:
    """Replace a certificate by one for the same key that was valid on two days in the past."""
    signer = load_pem_private_key(key.read_bytes(), None)
    assert isinstance(signer, EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.test")])
    builder = x509.CertificateBuilder(name, name, signer.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
    past = builder.not_valid_after(datetime(2026, 1, 3, tzinfo=UTC)).sign(signer, SHA256())
    certificate.write_bytes(past.public_bytes(Encoding.PEM))


def measured_end_s() -> float:
    [metric] = certificate_end.collect()
    return metric.samples[0].value


async def presented(port: int, context: ssl.SSLContext) -> bytes:
    """Return the certificate of the server, which the client has checked."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return shown


async def test_requests_come_through_tls_and_through_nothing_else(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    stop = asyncio.Event()
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key))
    serving = asyncio.create_task(serve(sample_app(), settings, stop, started=lambda _, port: bound.set_result(port)))
    port = await bound
    async with httpx.AsyncClient(verify=trusting(certificate)) as client:
        answer = await client.get(f"https://127.0.0.1:{port}/health/live")
        assert (answer.status_code, answer.json()) == (200, {"status": "live"})
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await exchange(port, LIVE)
    old = trusting(certificate)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await presented(port, old)
    stop.set()
    await asyncio.wait_for(serving, 10)


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    current = Certificate(certificate, key)
    reloading = asyncio.create_task(current.keep_current(0.02))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=current.context)
    port = server.sockets[0].getsockname()[1]
    first = await presented(port, trusting(certificate))
    # A key that doesn't fit, as between the two steps of a renewal, changes nothing.
    (tmp_path / "new").mkdir()
    new_certificate, new_key = made_certificate(tmp_path / "new")
    former = trusting(certificate)
    with capture_logs() as logs:
        new_key.rename(key)
        await eventually(lambda: "tls.reload_failed" in [each["event"] for each in logs])
    assert await presented(port, former) == first
    new_certificate.rename(certificate)
    renewed = await eventually(lambda: presented(port, trusting(certificate)), despite=ssl.SSLError)
    assert renewed != first
    reloading.cancel()
    server.close()


async def test_an_expired_certificate_is_logged_once_and_its_renewal_is_measured(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    expire(certificate, key)
    (tmp_path / "new").mkdir()
    with capture_logs() as logs:
        current = Certificate(certificate, key)
        reloading = asyncio.create_task(current.keep_current(0.01))
        assert measured_end_s() == datetime(2026, 1, 3, tzinfo=UTC).timestamp()
        for new, old in zip(made_certificate(tmp_path / "new"), (certificate, key), strict=True):
            new.rename(old)
        await eventually(lambda: "tls.reloaded" in [each["event"] for each in logs])
        reloading.cancel()
    assert [each["expired_at"] for each in logs if each["event"] == "tls.expired"] == ["2026-01-03T00:00:00+00:00"]
    left_s = measured_end_s() - datetime.now(UTC).timestamp()
    assert left_s == pytest.approx(2 * 86_400, abs=600)


@pytest.mark.parametrize("broken", ["missing", "not PEM", "another key", "encrypted"])
async def test_a_server_does_not_start_with_files_that_it_cannot_use(tmp_path: Path, broken: str) -> None:
    certificate, key = made_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    match broken:
        case "missing":
            key.unlink()
        case "not PEM":
            certificate.write_text("nonsense")
        case "another key":
            made_certificate(tmp_path / "other")[1].rename(key)
        case _:
            hidden = tmp_path / "hidden.pem"
            encrypt = ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", str(key), "-out", str(hidden)]
            subprocess.run(encrypt, check=True, capture_output=True)
            hidden.rename(key)
    settings = Settings(port=0, tls_certificate=str(certificate), tls_key=str(key))
    with pytest.raises(CannotStart, match=r"key\.pem"):
        await serve(sample_app(), settings, asyncio.Event())


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_TLS_KEY is empty"):
        Settings(tls_certificate="cert.pem")
    with pytest.raises(CannotStart, match="LAUNCHBAY_TLS_CERTIFICATE is empty"):
        Settings(tls_key="key.pem")


def test_cookies_and_links_follow_the_encryption() -> None:
    assert Settings(tls_certificate="c", tls_key="k").is_secure()
    assert Settings(base_url="https://bay.test").is_secure()
    assert not Settings(base_url="http://bay.test").is_secure()
    assert not Settings().is_secure()
