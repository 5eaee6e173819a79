"""SSH key pairs: made, read and written in OpenSSH's own formats."""

import base64
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from launchbay.limits import PRIVATE_KEY_BYTES

ED25519 = "ed25519"
RSA = "rsa"
ECDSA = "ecdsa"  # is read, not made
RSA_BITS_DEFAULT = 3072
RSA_BITS_LEAST = 2048
RSA_BITS_MOST = 4096
_EXPONENT = 65537

_PrivateKey = Ed25519PrivateKey | RSAPrivateKey | EllipticCurvePrivateKey


class BadKey(ValueError):
    """A text is no private key that can be used, or a key of this kind cannot be made; the text says why."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A key pair. `private` is in OpenSSH's format without a passphrase, `public` a line of authorized_keys."""

    algorithm: str
    private: str
    public: str


def generate(algorithm: str, bits: int | None, comment: str) -> KeyPair:
    """Return a new key pair. Takes seconds for long RSA keys. Raises BadKey for kinds that are not made."""
    if algorithm == ED25519:
        if bits is not None:
            raise BadKey("An ed25519 key has always 256 bits; leave `bits` out.")
        return _pair(Ed25519PrivateKey.generate(), comment)
    if algorithm != RSA:
        raise BadKey(f"Keys of the algorithm {algorithm[:40]!r} are not made; choose {ED25519} or {RSA}.")
    size = RSA_BITS_DEFAULT if bits is None else bits
    if not RSA_BITS_LEAST <= size <= RSA_BITS_MOST or size % 8:
        raise BadKey(f"An RSA key has {RSA_BITS_LEAST} to {RSA_BITS_MOST} bits, a multiple of 8.")
    return _pair(generate_private_key(_EXPONENT, size), comment)


def read(text: str, comment: str) -> KeyPair:
    """Return the key pair of a private key in OpenSSH's or a PEM format. Raises BadKey without repeating the key."""
    data = text.strip().encode() + b"\n"
    if len(data) > PRIVATE_KEY_BYTES:
        raise BadKey(f"A private key has at most {PRIVATE_KEY_BYTES} bytes.")
    read_key = (
        serialization.load_ssh_private_key
        if b"BEGIN OPENSSH PRIVATE KEY" in data
        else serialization.load_pem_private_key
    )
    try:
        key = read_key(data, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise BadKey(
            "This is no private key in OpenSSH's or a PEM format, or it has a passphrase. Give the whole text, "
            "from the line with BEGIN to the line with END; `ssh-keygen -p -N '' -f FILE` takes a passphrase off."
        ) from None
    if not isinstance(key, Ed25519PrivateKey | RSAPrivateKey | EllipticCurvePrivateKey):
        raise BadKey("Keys of this algorithm are not taken; use ed25519, RSA or ECDSA.")
    if isinstance(key, RSAPrivateKey) and not RSA_BITS_LEAST <= key.key_size <= 4 * RSA_BITS_MOST:
        raise BadKey(f"This RSA key has {key.key_size} bits; it must have {RSA_BITS_LEAST} or more.")
    try:
        return _pair(key, comment)
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("OpenSSH knows no keys of this kind.") from None


def fingerprint(public: str) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -l` shows it."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _pair(key: _PrivateKey, comment: str) -> KeyPair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(_algorithm(key), private.decode("ascii"), f"{public.decode('ascii')} {_one_word(comment)}")


def _algorithm(key: _PrivateKey) -> str:
    if isinstance(key, Ed25519PrivateKey):
        return ED25519
    return RSA if isinstance(key, RSAPrivateKey) else ECDSA


def _one_word(comment: str) -> str:
    """Return a comment that cannot begin another line or field of authorized_keys."""
    return "".join(character if character.isprintable() and character != " " else "-" for character in comment)
