"""Key pairs are what OpenSSH itself makes and reads."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import SSHCertificateBuilder, SSHCertificateType, load_ssh_public_key

from launchbay.errors import FieldErrors
from launchbay.model.secret_reference import SecretReference
from launchbay.service_types import key_pairs
from launchbay.service_types.key_pairs import KeyPair, SignedKeys

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()


def keygen(*arguments: str) -> str:
    return subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, text=True).stdout


def file_of(pair: KeyPair, tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(pair.private)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize(("algorithm", "bits", "shown"), [("ed25519", None, "256"), ("rsa", 2048, "2048")])
def test_openssh_reads_what_was_made_and_finds_the_same_public_key(
    tmp_path: Path, algorithm: str, bits: int | None, shown: str
) -> None:
    pair = key_pairs.generate(algorithm, bits, "web key")
    path = file_of(pair, tmp_path)
    assert keygen("-y", "-f", path).split()[:2] == pair.public.split()[:2]
    assert keygen("-l", "-f", path).split()[:2] == [shown, key_pairs.fingerprint(pair.public)]
    assert pair.algorithm == algorithm
    assert pair.public.split()[2:] == ["web-key"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("ed25519",), ("rsa", "-b", "2048"), ("ecdsa", "-b", "384"), ("rsa", "-m", "PEM")])
def test_what_openssh_made_is_read(tmp_path: Path, kind: tuple[str, ...]) -> None:
    path = tmp_path / "made"
    keygen("-q", "-t", *kind, "-N", "", "-C", "", "-f", str(path))
    pair = key_pairs.read(path.read_text(), "x")
    assert pair.algorithm == kind[0]
    assert pair.public.split()[:2] == path.with_suffix(".pub").read_text().split()[:2]
    assert key_pairs.read(pair.private, "x").public == pair.public


@pytest.mark.parametrize("format_", ["RFC4716", "PKCS8", "PEM"])
def test_a_key_with_a_passphrase_is_refused_with_the_way_to_take_it_off(tmp_path: Path, format_: str) -> None:
    path = tmp_path / "made"
    keygen("-q", "-t", "rsa", "-b", "2048", "-a", "1", "-m", format_, "-N", "opensesame", "-f", str(path))
    with pytest.raises(FieldErrors, match="To remove a passphrase, run"):
        key_pairs.read(path.read_text(), "x")
    keygen("-q", "-p", "-P", "opensesame", "-N", "", "-f", str(path))
    assert key_pairs.read(path.read_text(), "x").algorithm == "rsa"


def test_a_comment_cannot_add_a_line_to_authorized_keys() -> None:
    assert key_pairs.generate("ed25519", None, "a\nssh-rsa AAAA b").public.count("\n") == 0


def test_a_key_pair_does_not_show_its_private_half() -> None:
    assert "PRIVATE" not in repr(key_pairs.generate("ed25519", None, "x"))


@pytest.mark.parametrize(
    ("algorithm", "bits", "says"),
    [
        ("dsa", None, "Use ed25519 or rsa"),
        ("rsa", 1024, "2048 to 4096"),
        ("rsa", 2049, "8"),
        ("ed25519", 256, "Remove `bits`"),
    ],
)
def test_weak_and_unknown_kinds_are_not_made(algorithm: str, bits: int | None, says: str) -> None:
    with pytest.raises(FieldErrors, match=says):
        key_pairs.generate(algorithm, bits, "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret text",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----",
        "x" * 100_000,
        ed448.Ed448PrivateKey.generate().private_bytes(PEM, PKCS8, PLAIN).decode(),
        dsa.generate_private_key(1024).private_bytes(PEM, PKCS8, PLAIN).decode(),
        ec.generate_private_key(ec.SECP256K1()).private_bytes(PEM, PKCS8, PLAIN).decode(),
    ],
    ids=["nothing", "text", "damaged-openssh", "damaged-pem", "long", "ed448", "dsa", "secp256k1"],
)
def test_what_is_no_usable_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(FieldErrors) as caught:
        key_pairs.read(text, "x")
    assert "secret" not in str(caught.value)


@dataclass
class Signer:
    """A job whose provider signs certificates that have ended, for all who wait at once."""

    all_asked: asyncio.Barrier
    organization_id: str = "o"
    environment_id: str = "e"
    job_id: str = "j"
    policies: Mapping[str, Any] = field(default_factory=dict)
    register_secret: Callable[[Any], None] = field(default=lambda _: None)
    signed: list[str] = field(default_factory=list)

    async def secret(self, reference: SecretReference) -> str:
        [public] = parse_qs(reference.path.partition("?")[2])["public_key"]
        self.signed.append(public)
        await self.all_asked.wait()
        now = int(time.time())
        authority = Ed25519PrivateKey.generate()
        key = load_ssh_public_key(public.encode())
        assert isinstance(key, Ed25519PublicKey)
        builder = (
            SSHCertificateBuilder()
            .public_key(key)
            .type(SSHCertificateType.USER)
            .key_id(b"x")
            .valid_principals([b"ops"])
        )
        certificate = builder.valid_after(now - 60).valid_before(now + 1).sign(authority)
        return certificate.public_bytes().decode()


async def test_two_machines_at_once_learn_that_the_ttl_is_too_short() -> None:
    keys, job = SignedKeys(), Signer(asyncio.Barrier(2))
    works = [keys.signed(job, SecretReference("bao", "ssh/sign/short", ""), "ops") for _ in range(2)]
    for found in await asyncio.gather(*works, return_exceptions=True):
        assert "Set a longer ttl" in str(found)
    assert len(set(job.signed)) == 2, "each try has one pair, which both machines use"
