"""Machines and commands on them, as actions, machine providers and an instance's state share them. Pure.

A machine belongs to a *role* of a component: the name that the component's workflows and their macros use for its
machines (manifest-language §9).
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from launchbay import limits

DRY_RUN = "dry-run"


class JumpHost(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An SSH server through which others are reached.

    It has a login and a key pair. An empty login is `root`, and an empty `key_name` is the environment's key pair, as
    for machines.
    """

    address: str
    login: str = ""
    port: int = 22
    key_name: str = ""

    @property
    def place(self) -> str:
        return host_and_port(self.address, self.port)


def host_and_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One machine of a role.

    `id` is its provider's name for it. `number` is its index among all machines that the instance ever had, so that the
    order in a role doesn't depend on which of two parallel steps ended first. An `adopted` machine existed before:
    releasing it only forgets it. `login`, `port` and `key_name`, of a key pair, are for SSH. So are `jump`, the jump
    hosts on the way, the first one first; None are those of the environment. `sudo_secret` names the secret with the
    password that sudo asks for.
    """

    id: str
    role: str
    provider: str
    number: int
    public_ip: str = ""
    private_ip: str = ""
    host_name: str = ""
    login: str = ""
    port: int = 22
    key_name: str = ""
    adopted: bool = False
    jump: tuple[JumpHost, ...] | None = None
    sudo_secret: str = ""

    @property
    def host(self) -> str:
        """Return its address in outputs: an element of `ips`."""
        return self.public_ip or self.private_ip or self.host_name

    @property
    def inner_host(self) -> str:
        """Return its address inside its network: an element of `privateips`."""
        return self.private_ip or self.public_ip or self.host_name

    @property
    def key(self) -> tuple[str, str]:
        """Return its key among the machines of its component. One machine may be in two roles."""
        return self.role, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A requested machine.

    `key_name` names its key pair. `jump` and `sudo_secret` are as in `Machine`, and `settings` are the manifest's other
    settings.
    """

    hardware: str = ""
    image: str = ""
    login: str = ""
    location: str = ""
    name_prefix: str = ""
    key_name: str = ""
    jump: tuple[JumpHost, ...] | None = None
    sudo_secret: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


Sink = Callable[[str, str], None]
"""Takes what a command writes while it runs: `stdout` or `stderr`, and a line of it."""


class CommandKind(StrEnum):
    """How a command starts: by itself, through its interpreter, or through a shell."""

    PROGRAM = "program"
    SCRIPT = "script"
    LINE = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommand:
    """A command for a machine.

    `line` is the author's text: a shell line, a script that begins with `#!`, or with `arguments` a program. The
    program gets the arguments as they are, and no shell reads them. `shell` reads the line instead of `sh`; the line
    finds the arguments there as that shell names them.

    `timeout_s` None is the provider's default. `sink` gets the live output. The result has the first and the last
    bytes of stdout and of stderr, up to `keep_bytes` of each. `identity` is the step's token: the command finds it in
    a file that is there while it runs, and in the environment if sudo isn't between.

    An attempt runs one command on a machine, once. `purpose` tells another one of the same attempt apart.
    """

    line: str
    arguments: Sequence[str] = ()
    shell: str = ""
    sudo: bool = False
    timeout_s: float | None = None
    sink: Sink | None = None
    keep_bytes: int = limits.COMMAND_RESULT_BYTES
    identity: str | None = None
    purpose: str = ""

    @property
    def kind(self) -> CommandKind:
        if self.shell:
            return CommandKind.LINE
        if self.line.startswith("#!"):
            return CommandKind.SCRIPT
        is_program = self.arguments and _PROGRAM.fullmatch(self.line)
        return CommandKind.PROGRAM if is_program else CommandKind.LINE

    @property
    def text(self) -> str:
        """Return the text that `sh`, the named shell or the interpreter reads.

        Public manifests also have shell syntax in the first element with arguments after it: `"$@"` adds them.
        """
        return self.line if self.shell or self.line.startswith("#!") or not self.arguments else f'{self.line} "$@"'

    @property
    def words(self) -> Sequence[str]:
        """Return the arguments as values, after the name of a program."""
        return (self.line, *self.arguments) if self.kind is CommandKind.PROGRAM else self.arguments

    @property
    def shown(self) -> str:
        """Return the command as a line for people; nothing runs it."""
        return " ".join((self.line, *map(shlex.quote, self.arguments)))


_PROGRAM = re.compile(r"[A-Za-z0-9_./+@%:,][A-Za-z0-9_./+@%:,-]*")  # means itself to every shell


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code of a command, and its output as text.

    `note` says what is wrong with the output.
    """

    stdout: str
    stderr: str
    exit_code: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRun:
    """A command to run in an image. Defaults: the image's own command, the operator's limit for `size`, the first
    allowed network. The other fields are as in `RemoteCommand`. `image_id` names the content that was approved,
    whatever `image` names since.
    """

    image: str
    image_id: str = ""
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    size: str = ""
    network: str = ""
    timeout_s: float | None = None
    sink: Sink | None = None
    keep_bytes: int = limits.COMMAND_RESULT_BYTES


class PlannedImageRun(NamedTuple):
    """The image that would run, by its ID, and the limits of its container."""

    image_id: str
    cpus: float
    memory_mb: int
    network: str


class LoginKey(NamedTuple):
    """A private key in OpenSSH or PEM format.

    `certificate` is "" without one, and `signer` is the reference that signed it.
    """

    private: str
    certificate: str = ""
    signer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """SSH access for another program: an address that the rules allow, login, private key, and the host's key
    (`ssh-ed25519 AAAA…`). `jump` is the access to the jump hosts on the way, the first one first. `sudo_password` is
    empty if sudo doesn't ask, and `certificate` if the login has the key itself.
    """

    address: str
    port: int
    login: str
    private_key: str = field(repr=False)
    host_key: str
    jump: "tuple[SshAccess, ...]" = ()
    sudo_password: str = field(default="", repr=False)
    certificate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChefRun:
    """A run of Chef on a machine: recipes, their archive's URL, attributes of the node. `sink` gets live output.

    `identity` is the step's token, as of a `RemoteCommand`.
    """

    run_list: Sequence[str]
    recipe_url: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    solo: bool = True
    sudo: bool = True
    sink: Sink | None = None
    identity: str | None = None


def merge_machines(machines: Iterable[Machine], added: Iterable[Machine]) -> list[Machine]:
    """Return the machines with the added ones by number; an added machine replaces one with its key."""
    found = {machine.key: machine for machine in (*machines, *added)}
    return sorted(found.values(), key=lambda machine: (machine.number, machine.key))


def exclude_machines(machines: Iterable[Machine], removed: Iterable[Machine]) -> list[Machine]:
    gone = {machine.key for machine in removed}
    return [machine for machine in machines if machine.key not in gone]


# Static hosts: an entry of `staticIps`, or a resource of a static pool.
#
#     10.0.0.5    db.example    ops@10.0.0.5:2222    [2001:db8::5]:2222
#
# A resource of a pool can also be a map: `{address, port, user, keyPair, jump, sudoPassword}`.

SSH_PORT = 22
PORTS = 65_535
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\.?")
_V6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9]+)?")
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}\$?")
_ADDRESS_NAMES = ("address", "host", "ip")
_LOGIN_NAMES = ("user", "login", "vmIdentity")
_KEY_NAMES = ("keyPair", "publicKeyId")
_JUMP_SHOWN = ("address", "port", "user", "keyPair")
HOST_TEXTS = frozenset(("id", "sudoPassword", *_ADDRESS_NAMES, *_LOGIN_NAMES, *_KEY_NAMES))
_JUMP_NAMES = frozenset(("port", *_ADDRESS_NAMES, *_LOGIN_NAMES, *_KEY_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticHost:
    """A host and its SSH access; unset values are empty, 0 or None."""

    address: str
    login: str = ""
    port: int = 0
    key_name: str = ""
    jump: tuple[JumpHost, ...] | None = None
    sudo_secret: str = ""


def read_host(text: str) -> StaticHost:
    """Return the host of an entry of `staticIps`. Raises ValueError with a message."""
    login, at, place = text.strip().rpartition("@")
    host, port = _split(place)
    is_port = not port or (port.isascii() and port.isdigit() and 0 < int(port) <= PORTS)
    is_host = _HOST.fullmatch(host) or _V6.fullmatch(host)
    if not (is_port and is_host) or (at and not _LOGIN.fullmatch(login)):
        raise ValueError(
            f"Invalid host {text[:120]!r}. Use an address or a name, such as 10.0.0.5, ops@db.example:2222 or"
            " [2001:db8::5]:22."
        )
    return StaticHost(address=host, login=login, port=int(port or 0))


def address_of(text: str) -> str:
    """Return only the address of an entry of `staticIps`; an invalid entry is returned unchanged."""
    try:
        return read_host(text).address
    except ValueError:
        return text


def read_resource(resource_id: str, place: Any) -> StaticHost:
    """Return the host of a pool's resource, from its description or else its ID. Raises ValueError with a message."""
    if isinstance(place, str) and place:
        return read_host(place)
    described = place if isinstance(place, Mapping) else {}
    secret = described.get("sudoPassword")
    found = replace(_described_host(described, resource_id), sudo_secret="" if secret is None else str(secret))
    if described.get("jump") is None:
        return found
    try:
        return replace(found, jump=read_jump(described["jump"]))
    except ValueError as error:
        raise ValueError(f"The way to the host {found.address}: {error}") from None


def _described_host(described: Mapping[str, Any], fallback: str) -> StaticHost:
    """Return the host that a map describes. Raises ValueError."""
    found = read_host(_first(described, _ADDRESS_NAMES) or fallback)
    port = described.get("port", found.port)
    if isinstance(port, bool) or not str(port).isdigit() or not 0 <= int(port) <= PORTS:
        raise ValueError(f"The host {found.address} has an invalid port. Use 0 to {PORTS}.")
    login = _first(described, _LOGIN_NAMES) or found.login
    if login and not _LOGIN.fullmatch(login):
        raise ValueError(f"The host {found.address} has an invalid login {login[:80]!r}.")
    return StaticHost(
        address=found.address,
        login=login,
        port=int(port),
        key_name=_first(described, _KEY_NAMES),
    )


# Jump hosts: a text with the hosts in their order, each with an optional key pair, or a list of texts and maps.
#
#     ops@bastion.example,deploy@10.0.0.2:2222=inner-key
#     [{address: bastion.example, user: ops}, {address: 10.0.0.2, port: 2222, user: deploy, keyPair: inner-key}]

JUMP_FORM = "jump hosts such as ops@bastion.example:22=KEY-PAIR, separated by commas, or none"
_NO_JUMP = "none"


JUMP_POLICY = "machines.jump"


def read_jump(value: Any) -> tuple[JumpHost, ...]:
    """Return the jump hosts of a policy, a parameter or a resource.

    Nothing, an empty list and `none` mean the direct way. Raises ValueError with a message.
    """
    if value is None or value == _NO_JUMP:
        return ()
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, Sequence):
        raise ValueError(f"Invalid jump hosts: use {JUMP_FORM}.")  # noqa: TRY004 - the value is the author's
    if len(entries) > limits.JUMP_HOSTS:
        raise ValueError(f"There are {len(entries)} jump hosts in a row. Limit: {limits.JUMP_HOSTS}.")
    return tuple(map(_jump_host, entries))


def _jump_host(entry: Any) -> JumpHost:
    if isinstance(entry, str):
        place, _, key_name = entry.partition("=")
        found = replace(read_host(place), key_name=key_name.strip())
    elif isinstance(entry, Mapping):
        if unknown := [str(name) for name in entry if name not in _JUMP_NAMES]:
            raise ValueError(f"Unknown key {unknown[0][:80]!r} of a jump host. Use {', '.join(_JUMP_SHOWN)}.")
        found = _described_host(entry, "")
    else:
        raise ValueError(f"Invalid jump host {str(entry)[:80]!r}: use {JUMP_FORM}.")  # noqa: TRY004 - the value is the author's
    return JumpHost(address=found.address, login=found.login, port=found.port or SSH_PORT, key_name=found.key_name)


def _split(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":") if not rest or rest.startswith(":") else "?"
    if place.count(":") > 1:
        return place, ""
    host, colon, port = place.partition(":")
    return host, port if port or not colon else "?"


def _first(described: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((str(described[name]) for name in names if described.get(name)), "")
