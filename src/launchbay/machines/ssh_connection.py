"""One SSH connection to a machine: an address that the rules allow, a host key that is the pinned one, a key to get in.

No file of the server's user counts: no configuration, agent, known hosts or keys but what is given here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.contract import Errand
from launchbay.machines.parts import Parts
from launchbay.machines.shell import ShellLost
from launchbay.model.machine import Machine

DEFAULT_LOGIN = "root"
PINNED_POLICY = "machines.host-keys"
_KEEP_ALIVE_S = 15.0
_KEEP_ALIVES = 4  # without an answer, then the connection counts as lost
_KEY_ALGORITHMS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_RSA_ALGORITHMS = ("rsa-sha2-256", "rsa-sha2-512")


@asynccontextmanager
async def connected(parts: Parts, errand: Errand, machine: Machine) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Give a connection to the machine.

    Raises ShellLost where another attempt may do better, AddressRefused, and ActionFailed where the host shows another
    key than before or does not let us in.
    """
    name = host_name(machine)
    pinned = await _pinned(parts, errand, name)
    private_key = _read_key(await parts.keys.private_key(errand, machine.key_name), machine)
    client = _Client(pinned)
    async with await _connect(parts, errand, machine, client, private_key) as connection:
        if pinned is None and await parts.host_keys.pin(errand, name, client.shown) != client.shown:
            raise _changed(name, await parts.host_keys.pinned(errand, name) or "", client.shown)
        yield connection


def host_name(machine: Machine) -> str:
    """Return the name under which the machine's host key is kept: its address and port."""
    host = f"[{machine.host}]" if ":" in machine.host else machine.host
    return f"{host}:{machine.port}"


class _Client(asyncssh.SSHClient):
    """Judges the host's key. `shown` is what the host has shown."""

    def __init__(self, pinned: str | None) -> None:
        self._pinned = pinned
        self.shown = ""
        self.is_refused = False

    def algorithms(self) -> tuple[str, ...]:
        """Return what to ask the host for: a key of the pinned one's kind, or any but certificates."""
        kind = (self._pinned or "").partition(" ")[0]
        if kind == "ssh-rsa":
            return _RSA_ALGORITHMS
        return (kind,) if kind in _KEY_ALGORITHMS else _KEY_ALGORITHMS + _RSA_ALGORITHMS

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - contract
        """Take the pinned key, or any from a host that is new."""
        self.shown = " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])
        is_right = self._pinned is None or self._pinned in (self.shown, key.get_fingerprint("sha256"))
        self.is_refused = not is_right
        return is_right


async def _pinned(parts: Parts, errand: Errand, name: str) -> str | None:
    """Return what the host must show: a key or its fingerprint. A policy of the environment comes before the pin."""
    entries = str(errand.policies.get(PINNED_POLICY, "")).split(",")
    stated = dict(entry.strip().partition("=")[::2] for entry in entries).get(name)
    return stated or await parts.host_keys.pinned(errand, name)


async def _connect(
    parts: Parts, errand: Errand, machine: Machine, client: _Client, private_key: asyncssh.SSHKey
) -> asyncssh.SSHClientConnection:
    """Dial the addresses of the machine in turn until one answers."""
    addresses = await parts.reach.addresses(errand, machine.host, machine.port)
    failure: Exception = ShellLost(f"{machine.host} has no address")
    for address in addresses:
        try:
            async with asyncio.timeout(limits.MACHINE_CONNECT_S):
                return await asyncssh.connect(
                    address, machine.port, client_factory=lambda: client, **_options(machine, client, private_key)
                )
        except asyncssh.HostKeyNotVerifiable as error:
            if not client.is_refused:
                raise ActionFailed(f"{host_name(machine)} proves no host key: {error.reason}.") from None
            pinned = await _pinned(parts, errand, host_name(machine))
            raise _changed(host_name(machine), pinned or "", client.shown) from None
        except asyncssh.PermissionDenied:
            raise _not_let_in(machine) from None
        except TimeoutError:
            failure = ShellLost(f"{host_name(machine)} did not answer within {limits.MACHINE_CONNECT_S:g} s")
        except (OSError, asyncssh.Error) as error:
            failure = ShellLost(f"{host_name(machine)} cannot be reached ({str(error) or type(error).__name__})")
    raise failure


def _options(machine: Machine, client: _Client, private_key: asyncssh.SSHKey) -> dict[str, Any]:
    return {
        "username": machine.login or DEFAULT_LOGIN,
        "client_keys": [private_key],
        "preferred_auth": "publickey",
        "known_hosts": ([], [], []),  # nothing is known: every key is put before the client
        "server_host_key_algs": client.algorithms(),
        "config": None,
        "agent_path": None,
        "gss_host": None,
        "x509_trusted_certs": None,
        "login_timeout": limits.MACHINE_CONNECT_S,
        "compression_algs": ("none",),
        "keepalive_interval": _KEEP_ALIVE_S,
        "keepalive_count_max": _KEEP_ALIVES,
        "encoding": None,
    }


def _read_key(text: str, machine: Machine) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(text)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise ActionFailed(
            f"The key pair for {machine.host} has no private key that can be read: {error}.", retryable=False
        ) from None


def _not_let_in(machine: Machine) -> ActionFailed:
    pair = f"the key pair {machine.key_name!r}" if machine.key_name else "the environment's key pair"
    return ActionFailed(
        f"{host_name(machine)} does not let {machine.login or DEFAULT_LOGIN!r} in with {pair}.",
        "Check vmIdentity, and that the pair's public key is in the login's authorized_keys.",
    )


def _changed(name: str, pinned: str, shown: str) -> ActionFailed:
    return ActionFailed(
        f"The host key of {name} has changed: it shows {fingerprint(shown)}, and {fingerprint(pinned)} is pinned."
        " Nothing was sent there, for somebody may stand in between.",
        "If the host was installed anew, compare the new fingerprint on its console. Then have the pinned key forgotten"
        f" (DELETE /api/1/organizations/…/hostKeys/{name}), or set the policy {PINNED_POLICY} of the environment to"
        f" {name}={fingerprint(shown)} and reconfigure the instance.",
        retryable=False,
    )


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key as OpenSSH shows it; what is none comes back as it is."""
    try:
        return asyncssh.import_public_key(key).get_fingerprint("sha256")
    except asyncssh.KeyImportError:
        return key
