"""One SSH connection and its host key.

A connection dials only addresses that the rules allow (`ProviderDeps.resolver`), and accepts only the host key that was
pinned at the first connection. No configuration, agent, known hosts or keys of the server's user apply.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import asyncssh

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext, ProviderDeps, ShellLost
from launchbay.model.machine import JumpHost, LoginKey, Machine, host_and_port

DEFAULT_LOGIN = "root"
PINNED_POLICY = "machines.host-keys"

_KEEP_ALIVE_S = 15.0
_KEEP_ALIVES = 4  # without an answer, then the connection counts as lost
_CLOSED = (asyncssh.ConnectionLost, ConnectionResetError)
_RSA_ALGORITHMS = ("rsa-sha2-256", "rsa-sha2-512")
_KINDS = (  # of host keys, the preferred one first
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256",),
    ("ecdsa-sha2-nistp384",),
    ("ecdsa-sha2-nistp521",),
    _RSA_ALGORITHMS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """An SSH server and who signs in there.

    `behind` are the jump hosts before it, the first one first. A jump host itself is number `hop`.
    """

    address: str
    port: int
    login: str
    key_name: str
    behind: tuple[JumpHost, ...] = ()
    hop: int = 0

    @classmethod
    def of_machine(cls, machine: Machine, jump: Sequence[JumpHost]) -> Self:
        return cls(
            address=machine.host,
            port=machine.port,
            login=machine.login or DEFAULT_LOGIN,
            key_name=machine.key_name,
            behind=tuple(jump),
        )

    @classmethod
    def of_jump(cls, jump: Sequence[JumpHost]) -> list[Self]:
        """Return the jump hosts of a way, the first one first."""
        return [
            cls(
                address=each.address,
                port=each.port,
                login=each.login or DEFAULT_LOGIN,
                key_name=each.key_name,
                behind=tuple(jump[:number]),
                hop=number + 1,
            )
            for number, each in enumerate(jump)
        ]

    @property
    def place(self) -> str:
        return host_and_port(self.address, self.port)

    @property
    def name(self) -> str:
        """The name under which its key is pinned.

        A private address means another host in each network, so the way is part of the name of a host behind others.
        """
        return "@".join((self.place, *(each.place for each in reversed(self.behind))))

    @property
    def title(self) -> str:
        """The name at the beginning of a message, such as `Jump host 1, bastion:22,`."""
        if self.hop:
            return f"Jump host {self.hop}, {self.place},"
        return f"{self.place} (through {self.behind[-1].place})" if self.behind else self.place


@asynccontextmanager
async def connect(
    deps: ProviderDeps, context: ProviderContext, host: SshHost, tunnel: asyncssh.SSHClientConnection | None
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to a host for the duration of the block.

    `tunnel` is the connection to the last jump host, if it has any. Raises ShellLost if another attempt may succeed,
    AddressRefused, and ActionFailed if the host shows a different key than before or refuses the login.
    """
    pinned = await _pinned(deps, context, host)
    found = await deps.keys.login_key(context, host.key_name, host.login)
    call = _Call(deps, context, host, tunnel, _read_key(found, host), _Client(pinned), found.signer)
    async with await call.connect() as connection:
        shown = call.client.presented_key
        if pinned is None and await deps.host_keys.pin(context, host.name, shown) != shown:
            raise _changed(host, await deps.host_keys.pinned(context, host.name) or "", shown)
        yield connection


class _Client(asyncssh.SSHClient):
    """Checks the host's key.

    `presented_key` is the key that the host has shown. `pinned` is a key, which also selects the algorithm, a
    fingerprint, or None for a new host.
    """

    def __init__(self, pinned: str | None) -> None:
        self.pinned = pinned
        self.presented_key = ""
        self.is_refused = False

    def algorithms(self) -> tuple[str, ...]:
        """Return the algorithms to request: that of the pinned key, or all."""
        kind = (self.pinned or "").partition(" ")[0]
        known = next((each for each in _KINDS if kind in each or (kind == "ssh-rsa" and each is _RSA_ALGORITHMS)), None)
        return known or tuple(name for each in _KINDS for name in each)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - contract
        """Accept the pinned key, or any key of a new host."""
        self.presented_key = public_text(key)
        is_right = self.pinned is None or self.pinned in (self.presented_key, key.get_fingerprint("sha256"))
        self.is_refused = not is_right
        return is_right


def public_text(key: asyncssh.SSHKey) -> str:
    """Return a key as `ssh-ed25519 AAAA…`."""
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


async def _pinned(deps: ProviderDeps, context: ProviderContext, host: SshHost) -> str | None:
    """Return the key that the host must show, or its fingerprint.

    A policy of the environment precedes the pin.
    """
    entries = str(context.policies.get(PINNED_POLICY, "")).split(",")
    stated = dict(entry.strip().partition("=")[::2] for entry in entries)
    return stated.get(host.name) or stated.get(host.place) or await deps.host_keys.pinned(context, host.name)


@dataclass(frozen=True, slots=True)
class _Call:
    """An attempt to connect to a host."""

    deps: ProviderDeps
    context: ProviderContext
    host: SshHost
    tunnel: asyncssh.SSHClientConnection | None
    key: asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]
    client: _Client
    signer: str  # of the certificate, or ""

    async def connect(self) -> asyncssh.SSHClientConnection:
        """Dial the addresses of the host in turn until one answers."""
        host, resolver = self.host, self.deps.resolver
        if self.tunnel is None:
            addresses = await resolver.addresses(self.context, host.address, host.port)
        else:
            addresses = [resolver.unresolved(self.context, host.address, host.port)]
        failure: Exception = ShellLost(f"{host.title} has no address")
        for address in addresses:
            try:
                return await self._dial_for_pinned(address)
            except asyncssh.PermissionDenied:
                raise _access_denied(host, self.signer) from None
            except asyncssh.ChannelOpenError as error:
                failure = self._not_forwarded(error)
            except TimeoutError:
                failure = ShellLost(f"{host.title} did not respond within {limits.MACHINE_CONNECT_S:g} s")
            except (OSError, asyncssh.Error) as error:
                failure = ShellLost(f"{host.title} is unreachable ({describe(error)})")
        raise failure

    async def _dial_for_pinned(self, address: str) -> asyncssh.SSHClientConnection:
        """Dial, and once more if the host showed another key than the pinned one."""
        try:
            return await self._dial(address)
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed, *_CLOSED) as error:
            # OpenSSH closes the connection without a word if it has no key of the only type that is asked for.
            if isinstance(error, _CLOSED) and (self.client.presented_key or not self.client.pinned):
                raise
            await self._find_pinned_key(address, error)
            return await self._dial(address)

    async def _dial(self, address: str) -> asyncssh.SSHClientConnection:
        async with asyncio.timeout(limits.MACHINE_CONNECT_S):
            return await asyncssh.connect(
                address, self.host.port, client_factory=lambda: self.client, **self._options()
            )

    def _options(self) -> dict[str, Any]:
        return {
            "tunnel": self.tunnel,
            "username": self.host.login,
            "client_keys": [self.key],
            "preferred_auth": "publickey",
            "known_hosts": ([], [], []),  # empty, so that every key is shown to the client
            "server_host_key_algs": self.client.algorithms(),
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

    async def _find_pinned_key(self, address: str, error: Exception) -> None:
        """Let the client ask for the pinned key, if the host has it.

        Raises ActionFailed, or the error if the keys don't explain it.
        """
        host, client, pinned = self.host, self.client, self.client.pinned or ""
        if isinstance(error, asyncssh.HostKeyNotVerifiable) and not client.is_refused:
            raise ActionFailed(f"{host.title} did not prove its host key: {error.reason}.") from None
        offered = await self._offered_keys(address)
        right = next((key for key in offered if pinned in (key, fingerprint(key))), "")
        if right and right != pinned:
            client.pinned = right
            return
        if client.is_refused:
            raise _changed(host, pinned, *(offered or [client.presented_key])) from None
        if pinned and offered and not right:
            raise _gone(host, pinned, offered) from None
        if isinstance(error, _CLOSED):
            raise error
        raise ActionFailed(
            f"{host.title} has no algorithm of SSH in common with Launchbay: {error}.", retryable=False
        ) from None

    async def _offered_keys(self, address: str) -> list[str]:
        """Return all keys of a host, which shows each client only one."""
        keys: list[str] = []
        for algorithms in _KINDS:
            try:
                async with asyncio.timeout(limits.MACHINE_CONNECT_S):
                    key = await asyncssh.get_server_host_key(
                        address, self.host.port, tunnel=self.tunnel, server_host_key_algs=algorithms, config=None
                    )
            except asyncssh.ChannelOpenError:
                break
            except (asyncssh.Error, ConnectionResetError):  # it has no such key
                continue
            except (OSError, TimeoutError):
                break
            if key is not None:
                keys.append(public_text(key))
        return keys

    def _not_forwarded(self, error: asyncssh.ChannelOpenError) -> Exception:
        """Return the error for a jump host that doesn't connect to the next host."""
        via = SshHost.of_jump(self.host.behind)[-1]
        if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            return ActionFailed(
                f"{via.title} doesn't forward connections to {self.host.place}: {error.reason}.",
                "Check AllowTcpForwarding and PermitOpen in its sshd_config, and restrict in its authorized_keys.",
                retryable=False,
            )
        return ShellLost(f"{via.title} can't connect to {self.host.place} ({error.reason})")


def _read_key(key: LoginKey, host: SshHost) -> asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]:
    try:
        private = asyncssh.import_private_key(key.private)
        return (private, asyncssh.import_certificate(key.certificate)) if key.certificate else private
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise ActionFailed(
            f"The private key of the key pair for {host.place} is invalid: {error}.", retryable=False
        ) from None


def _access_denied(host: SshHost, signer: str) -> ActionFailed:
    if signer:
        return ActionFailed(
            f"{host.title} refused the login {host.login!r} with a certificate of {signer!r}.",
            "Its sshd must trust the authority, with TrustedUserCAKeys, and the role must have the login as a"
            " principal.",
        )
    pair = f"the key pair {host.key_name!r}" if host.key_name else "the environment's key pair"
    return ActionFailed(
        f"{host.title} refused the login {host.login!r} with {pair}.",
        f"Check {'the entry in machines.jump' if host.hop else 'vmIdentity'}, and add the pair's public key to"
        " authorized_keys of the login.",
    )


def _changed(host: SshHost, pinned: str, *presented: str) -> ActionFailed:
    subject = f"The host key of {host.title} has changed: it"
    if host.hop:
        subject = f"{host.title} has another host key: it"
    return ActionFailed(
        f"{subject} shows {_described(presented)}, and {fingerprint(pinned)} is pinned."
        " Nothing was sent, because the host may be an impostor.",
        _how_to_accept(host, presented[0]),
        retryable=False,
    )


def _gone(host: SshHost, pinned: str, offered: Sequence[str]) -> ActionFailed:
    kind = pinned.partition(" ")[0]
    return ActionFailed(
        f"{host.title} no longer has a host key of the pinned type {kind}: it has"
        f" {_described(offered, with_types=True)}. Nothing was sent, because the host may be an impostor.",
        _how_to_accept(host, offered[0]),
        retryable=False,
    )


def _how_to_accept(host: SshHost, presented: str) -> str:
    return (
        "If you reinstalled the host, compare the new fingerprint on its console. Then forget the pinned key"
        f" (launchbay organization forget-host-key {host.name}), or set the policy {PINNED_POLICY} of the environment"
        f" to {host.name}={fingerprint(presented)} and reconfigure the instance."
    )


def _described(keys: Sequence[str], *, with_types: bool = False) -> str:
    if len(keys) == 1 and not with_types:
        return fingerprint(keys[0])
    return " and ".join(f"{fingerprint(key)} ({key.partition(' ')[0]})" for key in keys)


def fingerprint(key: str) -> str:
    """Return a key's fingerprint as OpenSSH shows it; any other text is unchanged."""
    try:
        return asyncssh.import_public_key(key).get_fingerprint("sha256")
    except asyncssh.KeyImportError:
        return key


def describe(error: Exception) -> str:
    return str(error) or type(error).__name__
