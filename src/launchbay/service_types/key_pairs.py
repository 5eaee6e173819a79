"""SSH key pairs in vaults. An environment can use the key pairs of the vaults that it offers."""

import asyncio
import base64
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

from launchbay.auth.secret_key import SecretKey
from launchbay.clock import to_ms
from launchbay.errors import ActionFailed, Conflict, FieldErrors
from launchbay.ids import new_id
from launchbay.limits import PRIVATE_KEY_BYTES
from launchbay.model.machine import LoginKey
from launchbay.model.secret_reference import SecretReference, reference_in
from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType
from launchbay.service_types.contract import CommandArgument, ServiceCall, ServiceCommand
from launchbay.service_types.secrets import (
    KEY_PAIR,
    SECRET,
    ServiceSeal,
    called,
    check_room,
    delete_entry,
    get_entry,
    validate_entry_name,
)
from launchbay.store import services as store
from launchbay.store.database import Database
from launchbay.store.services import OfferedEntry

POLICY = "machines.keyPair"
_SHOWN = 10
_SIGNED = "signed_key"  # of an answer of the engine for SSH
_VALID_S = 15.0
_UNUSED_S = 3600.0


class KeyRequester(Protocol):
    """The environment that needs a key, such as a `machines.contract.ProviderContext`."""

    @property
    def organization_id(self) -> str:
        """The organization of the environment."""

    @property
    def environment_id(self) -> str:
        """The environment."""

    @property
    def policies(self) -> Mapping[str, Any]:
        """The policies of the environment, for the job."""

    @property
    def register_secret(self) -> Callable[[Any], None]:
        """The function that redacts a secret from now on."""

    @property
    def job_id(self) -> str:
        """The job that needs it, or ""."""

    @property
    def secret(self) -> Callable[[SecretReference], Awaitable[Any]]:
        """What reads a secret of a provider, already redacted."""


class KeyPairs:
    """Key pairs and passwords by name or ID; implements `machines.contract.KeySource`.

    The empty name means the key pair in the environment's policy `machines.keyPair`, or else its only one.
    """

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key
        self._signed_keys = SignedKeys()

    async def login_key(self, context: KeyRequester, name: str, login: str) -> LoginKey:
        """Return a key of a vault, or else of a provider.

        A provider may also sign one for the login. Raises ActionFailed unless exactly one key pair matches.
        """
        found = await self._found(context, name)
        if isinstance(found, SecretReference):
            if found.key:
                return LoginKey((await self._provided(context, found)).private)
            return await self._signed_keys.signed(context, found, login)
        key = ServiceSeal(self._secret_key, found.service_id).open(found.sealed, found.id).decode()
        context.register_secret(key)
        return LoginKey(key)

    async def public_key(self, context: KeyRequester, name: str) -> str:
        """Return the public key of that pair as a line of authorized_keys.

        It is "" if a provider signs. Raises ActionFailed.
        """
        found = await self._found(context, name)
        if isinstance(found, SecretReference):
            return (await self._provided(context, found)).public if found.key else ""
        return found.public_key or ""

    async def _provided(self, context: KeyRequester, reference: SecretReference) -> "KeyPair":
        """Return the key pair whose private key a provider has. Raises ActionFailed."""
        try:
            return read(str(await context.secret(reference)), "")
        except FieldErrors as error:
            raise ActionFailed(
                f"The secret {str(reference)!r} can't be the key of a login:", str(error), retryable=False
            ) from None

    async def password(self, context: KeyRequester, name: str) -> str:
        """Return a password: a secret of a vault, or else of a provider.

        Raises ActionFailed unless exactly one secret matches, and if it isn't one line of text.
        """
        found = await self._listed(context, name, SECRET)
        reference = None if found else reference_in(name)
        if reference is None:
            entry = _only(found, name, SECRET)
            secret: Any = ServiceSeal(self._secret_key, entry.service_id).open(entry.sealed, entry.id).decode()
            context.register_secret(secret)
        else:
            secret = await context.secret(reference)
        if not isinstance(secret, str):
            raise ActionFailed(
                f"The secret {name[:80]!r} can't be a password: it isn't a string.",
                "Name its key: provider/path#key.",
                retryable=False,
            )
        if not secret.isprintable():
            raise ActionFailed(f"The secret {name[:80]!r} can't be a password: it has several lines.", retryable=False)
        return secret

    async def _found(self, context: KeyRequester, name: str) -> OfferedEntry | SecretReference:
        wanted = name or str(context.policies.get(POLICY, ""))
        found = await self._listed(context, wanted, KEY_PAIR)
        return (None if found else reference_in(wanted)) or _only(found, wanted, KEY_PAIR)

    async def _listed(self, context: KeyRequester, wanted: str, kind: str) -> Sequence[OfferedEntry]:
        async with self._database.connection() as connection:
            return await store.list_entries_in_environment(
                connection,
                organization_id=context.organization_id,
                environment_id=context.environment_id,
                kind=kind,
                name=wanted or None,
            )


def _only(found: Sequence[OfferedEntry], wanted: str, kind: str) -> OfferedEntry:
    """Return the one entry that matches. Raises ActionFailed."""
    noun, storing = called(kind)
    if not found:
        raise ActionFailed(
            f"No vault of the environment has a {noun}{f' {wanted[:80]!r}' if wanted else ''}.",
            f"Create one with the command {storing} of the credentials service, or let the environment offer "
            "the vault that has it.",
            retryable=False,
        )
    if len(found) > 1:
        _single_match(found, wanted, noun)
    return found[0]


def _single_match(found: Sequence[OfferedEntry], wanted: str, noun: str) -> None:
    """Raise ActionFailed if several entries match.

    A matching name takes precedence over a matching ID.
    """
    if not wanted:
        names = ", ".join(dict.fromkeys(entry.name for entry in found[:_SHOWN]))
        raise ActionFailed(
            f"The vaults of the environment have several key pairs ({names}), and none is selected.",
            f"Name one in the step, or in the environment's policy {POLICY}.",
            retryable=False,
        )
    if found[1].name == wanted:
        owners = " and ".join(repr(entry.service_name) for entry in found[:2])
        raise ActionFailed(
            f"Several vaults of the environment have a {noun} {wanted[:80]!r}: {owners}.",
            f"Use the ID of the {noun} instead of its name.",
            retryable=False,
        )


class SignedKeys:
    """Key pairs of jobs, in memory only, for which a provider signs certificates."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, ...], tuple[float, KeyPair]] = {}

    async def signed(self, context: KeyRequester, reference: SecretReference, login: str) -> LoginKey:
        """Return the pair of a job with a valid certificate. Raises ActionFailed."""
        for _ in range(2):  # the context remembers what it read for a pair, also an old certificate
            pair = self._pair(context, reference)
            given = urlencode({"public_key": pair.public.strip(), "valid_principals": login})
            mark = "&" if "?" in reference.path else "?"
            asked = SecretReference(reference.provider, f"{reference.path}{mark}{given}", _SIGNED)
            certificate = str(await context.secret(asked))
            if _is_valid(certificate, reference):
                return LoginKey(pair.private, certificate, str(reference))
            self._forget(context, reference, pair)
        raise ActionFailed(
            f"{reference} signs certificates that aren't valid for {_VALID_S:g} s from now.",
            "Set a longer ttl in the role, and compare the clocks of both servers.",
            retryable=False,
        )

    def _forget(self, context: KeyRequester, reference: SecretReference, pair: "KeyPair") -> None:
        key = self._key(context, reference)
        if key in self._pairs and self._pairs[key][1] is pair:  # another machine may have replaced it meanwhile
            del self._pairs[key]

    def _key(self, context: KeyRequester, reference: SecretReference) -> tuple[str, ...]:
        return (context.organization_id, context.environment_id, context.job_id, str(reference))

    def _pair(self, context: KeyRequester, reference: SecretReference) -> "KeyPair":
        now, key = time.monotonic(), self._key(context, reference)
        self._pairs = {each: found for each, found in self._pairs.items() if found[0] > now}
        pair = self._pairs[key][1] if key in self._pairs else _pair(Ed25519PrivateKey.generate(), "")
        self._pairs[key] = now + _UNUSED_S, pair
        context.register_secret(pair.private)
        return pair


def _is_valid(certificate: str, reference: SecretReference) -> bool:
    """Return whether a certificate is valid for a connection. Raises ActionFailed."""
    try:
        found = load_ssh_public_identity(certificate.encode())
    except (ValueError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, SSHCertificate):
        raise ActionFailed(
            f"{reference} gives no certificate of SSH.",
            "Name the path that signs, such as bao/ssh/sign/ROLE, or a key of a secret: provider/path#key.",
            retryable=False,
        )
    return found.valid_before > time.time() + _VALID_S


ED25519 = "ed25519"
RSA = "rsa"
ECDSA = "ecdsa"  # can be imported, not generated
RSA_BITS_DEFAULT = 3072
RSA_BITS_MIN = 2048
RSA_BITS_MAX = 4096
_EXPONENT = 65537
_PrivateKey = Ed25519PrivateKey | RSAPrivateKey | EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A key pair: `private` in OpenSSH's format without a passphrase, `public` as a line of authorized_keys."""

    algorithm: str
    private: str
    public: str


def generate(algorithm: str, bits: int | None, comment: str) -> KeyPair:
    """Generate a key pair, which takes seconds for long RSA keys. Raises FieldErrors."""
    if algorithm == ED25519:
        if bits is not None:
            raise FieldErrors({"bits": ["An ed25519 key always has 256 bits. Remove `bits`."]})
        return _pair(Ed25519PrivateKey.generate(), comment)
    if algorithm != RSA:
        raise FieldErrors(
            {"algorithm": [f"Can't generate keys of the algorithm {algorithm[:40]!r}. Use {ED25519} or {RSA}."]}
        )
    size = RSA_BITS_DEFAULT if bits is None else bits
    if not RSA_BITS_MIN <= size <= RSA_BITS_MAX or size % 8:
        raise FieldErrors(
            {"bits": [f"`bits` of an RSA key must be a multiple of 8 from {RSA_BITS_MIN} to {RSA_BITS_MAX}."]}
        )
    return _pair(generate_private_key(_EXPONENT, size), comment)


def read(text: str, comment: str) -> KeyPair:
    """Return the key pair of a private key in OpenSSH or PEM format. Raises FieldErrors without repeating the key."""
    data = text.strip().encode() + b"\n"
    if len(data) > PRIVATE_KEY_BYTES:
        raise _invalid(f"A private key can have at most {PRIVATE_KEY_BYTES} bytes.")
    read_key = (
        serialization.load_ssh_private_key
        if b"BEGIN OPENSSH PRIVATE KEY" in data
        else serialization.load_pem_private_key
    )
    try:
        key = read_key(data, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise _invalid(
            "Invalid private key: expected OpenSSH or PEM format without a passphrase, from the line with BEGIN to the "
            "line with END. To remove a passphrase, run `ssh-keygen -p -N '' -f FILE`."
        ) from None
    if not isinstance(key, Ed25519PrivateKey | RSAPrivateKey | EllipticCurvePrivateKey):
        raise _invalid("Unsupported algorithm of the key. Use ed25519, RSA or ECDSA.")
    if isinstance(key, RSAPrivateKey) and not RSA_BITS_MIN <= key.key_size <= 4 * RSA_BITS_MAX:
        raise _invalid(f"The RSA key has {key.key_size} bits, but needs at least {RSA_BITS_MIN}.")
    try:
        return _pair(key, comment)
    except (ValueError, UnsupportedAlgorithm):
        raise _invalid("OpenSSH doesn't support this kind of key.") from None


def _invalid(message: str) -> FieldErrors:
    return FieldErrors({"privateKey": [message]})


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
    """Return a comment that can't start another line or field of authorized_keys."""
    return "".join(character if character.isprintable() and character != " " else "-" for character in comment)


_INTERFACE = "keypair-store"
_ID = CommandArgument(STRING, "The name of the key pair, or its ID.", required=True)
_NAME = CommandArgument(STRING, "The name of the key pair.", required=True)
_PUBLIC_HALF = {"id": STRING, "name": STRING, "algorithm": STRING, "publicKey": STRING, "fingerprint": STRING}
KEY_COMMANDS: Mapping[str, ServiceCommand] = {
    "get-keypair": ServiceCommand(
        _INTERFACE,
        "Returns a private key in OpenSSH's format. The intermediate result is its public half.",
        arguments={"id": _ID},
        intermediate=_PUBLIC_HALF,
        results={"privateKey": OBJECT},
        secret_results=frozenset({"privateKey"}),
    ),
    "get-public-key": ServiceCommand(
        _INTERFACE,
        "Returns a public key as a line of authorized_keys.",
        arguments={"id": _ID},
        results=_PUBLIC_HALF,
        changes=False,
    ),
    "generate-keypair": ServiceCommand(
        _INTERFACE,
        "Generates a key pair. The private key stays in the vault.",
        arguments={
            "name": _NAME,
            "algorithm": CommandArgument(STRING, "`ed25519` or `rsa`. Default: `ed25519`."),
            "bits": CommandArgument(INT, "Size of an RSA key: 2048 to 4096. Default: 3072."),
        },
        results=_PUBLIC_HALF,
    ),
    "import-keypair": ServiceCommand(
        _INTERFACE,
        "Imports a private key: ed25519, RSA or ECDSA, in OpenSSH or PEM format, without a passphrase.",
        arguments={
            "name": _NAME,
            "privateKey": CommandArgument(STRING, "The complete text of the private key.", required=True),
        },
        results=_PUBLIC_HALF,
    ),
    "list-keypairs": ServiceCommand(
        _INTERFACE,
        "Lists the key pairs without their private keys, by name.",
        results={"keypairs": ListType(OBJECT)},
        changes=False,
    ),
    "delete-keypair": ServiceCommand(
        _INTERFACE, "Deletes a key pair permanently.", arguments={"id": _ID}, results={"removed": BOOL}
    ),
}


async def _get(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await get_entry(connection, call, KEY_PAIR, call.arguments["id"])
    call.report(_shown(entry.id, entry.name, entry.algorithm or "", entry.public_key or ""))
    return {"privateKey": call.seal.open(entry.sealed, entry.id).decode()}


async def _public(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        entry = await get_entry(connection, call, KEY_PAIR, call.arguments["id"])
    return _shown(entry.id, entry.name, entry.algorithm or "", entry.public_key or "")


async def _generate(call: ServiceCall) -> dict[str, Any]:
    name = validate_entry_name(call.arguments["name"])
    algorithm = call.arguments.get("algorithm", ED25519)
    # In a thread: a long RSA key takes seconds.
    pair = await asyncio.to_thread(generate, algorithm, call.arguments.get("bits"), name)
    return await _store(call, name, pair)


async def _import(call: ServiceCall) -> dict[str, Any]:
    name = validate_entry_name(call.arguments["name"])
    return await _store(call, name, read(call.arguments["privateKey"], name))


async def _store(call: ServiceCall, name: str, pair: KeyPair) -> dict[str, Any]:
    entry_id = new_id()
    async with call.transaction() as connection:
        await check_room(connection, call)
        is_new = await store.insert_entry(
            connection,
            id=entry_id,
            service_id=call.service_id,
            kind=KEY_PAIR,
            name=name,
            sealed=call.seal.seal(pair.private.encode(), entry_id),
            algorithm=pair.algorithm,
            public_key=pair.public,
        )
        if not is_new:
            raise Conflict(
                f"The vault already has a key pair {name!r}.",
                "Use another name, or delete that key pair first.",
                code="KeyPairTaken",
            )
    return _shown(entry_id, name, pair.algorithm, pair.public)


async def _list(call: ServiceCall) -> dict[str, Any]:
    async with call.transaction() as connection:
        rows = await store.list_entries(connection, service_id=call.service_id, kind=KEY_PAIR)
    return {
        "keypairs": [
            {**_shown(row.id, row.name, row.algorithm or "", row.public_key or ""), "createdAt": to_ms(row.created_at)}
            for row in rows
        ]
    }


# What runs the commands. Raises FieldErrors, and Conflict if the key pair doesn't exist.
KEY_WORK: Mapping[str, Callable[[ServiceCall], Awaitable[dict[str, Any]]]] = {
    "get-keypair": _get,
    "get-public-key": _public,
    "generate-keypair": _generate,
    "import-keypair": _import,
    "list-keypairs": _list,
    "delete-keypair": lambda call: delete_entry(call, KEY_PAIR, call.arguments["id"]),
}


def _shown(entry_id: str, name: str, algorithm: str, public: str) -> dict[str, Any]:
    return {
        "id": entry_id,
        "name": name,
        "algorithm": algorithm,
        "publicKey": public,
        "fingerprint": fingerprint(public),
    }
