"""Machines that are reached by SSH: real OpenSSH servers on loopback addresses, each with a host key of its own.

    with Hosts.start(3) as hosts:
        hosts[0].address, hosts[0].port, hosts.private_key, hosts[0].home

As root each host lives in namespaces of its own: its processes die with it, as those of a machine do, and it has the
logins `ops` (sudo without a password) and `plain` (no sudo). Otherwise the server runs as whoever runs the tests, and
`ops` is that login; tests of sudo ask for `isolated`.
"""

import asyncio
import getpass
import http.server
import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.contract import PooledHost, ProviderContext, ProviderDeps
from launchbay.machines.dry_run import Answer, Answers, DryRun
from launchbay.machines.registry import Providers
from launchbay.machines.static import StaticMachines
from launchbay.model.environment import EnvironmentView
from launchbay.model.machine import ChefRun, CommandResult, LoginKey, Machine, MachineSpec, RemoteCommand
from tests.support.eventually import eventually_blocking, until_listening
from tests.support.runtime import JOB, Instance, instance

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
UIDS = {"ops": 61001, "plain": 61002}
_PREFIX = "launchbay-hosts-"
_CONFIG = """
ListenAddress {address}:{port}
HostKey {directory}/host_key
PidFile none
AuthorizedKeysFile {authorized_keys}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
MaxSessions 50
LogLevel VERBOSE
Subsystem sftp internal-sftp
"""
_SUDOERS = """Defaults env_reset,use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
ops ALL=(ALL:ALL) NOPASSWD: ALL
"""
# Files that say who there is are this host's own, and so is /run, where sshd and sudo keep things. Nothing else of the
# machine that runs the tests can be written by a host, not even by its superuser; and nothing fetches from elsewhere.
# A test may write more commands into `mounts`.
_ISOLATED = """
mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd
for name in passwd shadow group sudoers; do mount --bind "$1/$name" "/etc/$name" || exit 1; done
for name in curl wget git; do
    path=$(command -v $name) && mount --bind /bin/false "$(readlink -f "$path")"
done
mount --bind "${1%/*}" "${1%/*}" && mount -o remount,bind,ro / || exit 1
[ ! -f "$1/mounts" ] || . "$1/mounts" || exit 1
exec "$2" -D -e -f "$1/sshd_config"
"""


def isolates() -> bool:
    """Tell whether hosts can have namespaces here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "-p", "--fork", "true"], capture_output=True, check=False).returncode == 0


ISOLATED = isolates()
needs_sshd = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (Debian: openssh-server)")
needs_isolated = pytest.mark.skipif(not ISOLATED, reason="needs root and namespaces for logins of its own")
needs_sudo = pytest.mark.skipif(
    not ISOLATED or shutil.which("sudo") is None, reason="needs root, namespaces and sudo for logins of its own"
)


@dataclass
class Host:
    """One machine. `restart` takes all its processes down and starts it again, with the same disk."""

    directory: Path
    address: str
    port: int
    _server: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """The home directory of the login `ops`."""
        return self.directory / "home" / "ops" if ISOLATED else Path.home()

    def home_of(self, login: str) -> Path:
        """The home directory of a login of `Hosts.start`."""
        return self.directory / "home" / login

    @property
    def static_ip(self) -> str:
        """The machine as an entry of `staticIps`."""
        return f"{self.address}:{self.port}"

    @property
    def work(self) -> Path:
        """A directory that every login may write in."""
        return self.directory / "work"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert SSHD is not None
        config = str(self.directory / "sshd_config")
        command = [SSHD, "-D", "-e", "-f", config]
        if ISOLATED:
            namespaces = ["unshare", "-m", "-p", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
            command = [*namespaces, "sh", "-c", _ISOLATED, "sh", str(self.directory), SSHD]
        if shutil.which("setpriv") is not None:  # a test run that is killed takes its hosts with it
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with (self.directory / "sshd.log").open("ab") as log:
            self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until_listening(self.port, self._server, self.directory / "sshd.log", self.address)

    def stop(self) -> None:
        """Take everything down that runs there."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGKILL)
        self._server.wait(10)
        self._server = None
        # What `unshare` started ends after it. Whoever starts the next server would take the old one for it.
        eventually_blocking(lambda: not self._answers())

    def _answers(self) -> bool:
        try:
            socket.create_connection((self.address, self.port), 1).close()
        except OSError:
            return False
        return True

    def restart(self) -> None:
        """Take everything down and start it again."""
        self.stop()
        self.start()

    def new_host_key(self, *kinds: str) -> None:
        """Install the machine anew under its old address, with a host key of each kind."""
        self.stop()
        config = self.directory / "sshd_config"
        lines = [line for line in config.read_text().splitlines() if not line.startswith("HostKey ")]
        for number, kind in enumerate(kinds or ("ed25519",)):
            file = self.directory / f"host_key{number or ''}"
            file.unlink(missing_ok=True)
            make_key(file, kind)
            lines.append(f"HostKey {file}")
        config.write_text("\n".join((*lines, "")))
        self.start()

    def fingerprint(self, number: int = 0) -> str:
        """The fingerprint of a host key, as `ssh-keygen` shows it."""
        file = self.directory / f"host_key{number or ''}.pub"
        shown = subprocess.run(["ssh-keygen", "-lf", str(file)], check=True, capture_output=True, text=True).stdout
        return shown.split()[1]


@dataclass
class Hosts:
    """Several machines that one key lets in."""

    directory: Path
    private_key: str
    public_key: str
    hosts: list[Host] = field(default_factory=list)

    @classmethod
    def start(cls, count: int, *, network: int = 1, shells: Mapping[str, str] | None = None) -> Self:
        """Start so many, on 127.0.`network`.1 and on. `shells` are further logins with their shells."""
        _sweep()
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        directory.chmod(0o755)
        make_key(directory / "key")
        found = cls(directory, (directory / "key").read_text(), (directory / "key.pub").read_text().strip())
        port = free_port()
        try:
            for number in range(1, count + 1):
                host = Host(directory / f"host-{number}", f"127.0.{network}.{number}", port)
                _furnish(host, found.public_key, shells or {})
                found.hosts.append(host)
                host.start()
        except BaseException:
            found.close()
            raise
        return found

    def __getitem__(self, number: int) -> Host:
        return self.hosts[number]

    def __len__(self) -> int:
        return len(self.hosts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take all of them down and remove their disks."""
        for host in self.hosts:
            host.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


LOGIN = "ops" if ISOLATED else getpass.getuser()


def _sweep() -> None:
    """Remove the disks of hosts whose test run was killed."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(directory, ignore_errors=True)


def make_key(file: Path, kind: str = "ed25519") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "test", "-f", str(file)], check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _furnish(host: Host, public_key: str, shells: Mapping[str, str]) -> None:
    host.directory.mkdir(mode=0o755)
    host.work.mkdir()
    host.work.chmod(0o777)
    keys = host.directory / "authorized_keys"
    keys.write_text(f"{public_key}\n")
    make_key(host.directory / "host_key")
    text = _CONFIG.format(address=host.address, port=host.port, directory=host.directory, authorized_keys=keys)
    (host.directory / "sshd_config").write_text(text)
    homes = host.directory / "home"
    homes.mkdir(mode=0o755)
    passwd, shadow, group = ["root:x:0:0:root:/root:/bin/bash"], ["root:*:19000:0:99999:7:::"], ["root:x:0:"]
    passwd.append("sshd:x:61000:65534::/run/sshd:/usr/sbin/nologin")
    shadow.append("sshd:*:19000:0:99999:7:::")
    group.append("nogroup:x:65534:")
    uids = UIDS | {login: 61010 + number for number, login in enumerate(shells)}
    for login, uid in uids.items():
        home = homes / login
        home.mkdir()
        passwd.append(f"{login}:x:{uid}:{uid}::{home}:{shells.get(login, '/bin/bash')}")
        shadow.append(f"{login}:*:19000:0:99999:7:::")
        group.append(f"{login}:x:{uid}:")
        if ISOLATED:
            os.chown(home, uid, uid)
    for name, lines in (("passwd", passwd), ("shadow", shadow), ("group", group)):
        (host.directory / name).write_text("\n".join((*lines, "")))
    (host.directory / "sudoers").write_text(_SUDOERS)
    (host.directory / "sudoers").chmod(0o440)


STAND_IN = Path(__file__).with_name("chef-solo")
PATH = "/cookbooks.tar.gz"


@dataclass
class Shelf:
    """Where the archive is, and what was asked for so far."""

    base: str
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL of the archive."""
        return f"{self.base}{PATH}"


@contextmanager
def served_shelf(archive: bytes) -> Iterator[Shelf]:
    """Serve an archive over HTTP; everything else is not found."""
    shelf = Shelf("")

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shelf.asked.append(self.path)
            self.send_response(200 if self.path == PATH else 404)
            self.end_headers()
            self.wfile.write(archive if self.path == PATH else b"")

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    shelf.base = f"http://127.0.0.1:{server.server_port}"
    yield shelf
    server.shutdown()
    server.server_close()


def trust_only(host: Host, authority: str) -> None:
    """Let a host know no key, only certificates of this authority."""
    file = host.directory / "authority.pub"
    file.write_text(authority)
    file.chmod(0o644)
    config = host.directory / "sshd_config"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("AuthorizedKeysFile")]
    config.write_text("\n".join([*lines, "AuthorizedKeysFile none", f"TrustedUserCAKeys {file}", ""]))
    host.restart()


def with_chef(host: Host) -> None:
    """Install the stand-in on an isolated host, for its logins and for sudo."""
    programs = host.directory / "opt-chef"
    programs.mkdir(mode=0o755)
    (programs / "chef-solo").write_bytes(STAND_IN.read_bytes())
    (programs / "chef-solo").chmod(0o755)
    sudoers = host.directory / "sudoers"
    text = sudoers.read_text().replace('secure_path="', f'secure_path="{programs}:')
    sudoers.chmod(0o640)
    sudoers.write_text(text)
    sudoers.chmod(0o440)
    with (host.directory / "sshd_config").open("a") as config:
        config.write(f"SetEnv PATH={programs}:/usr/bin:/bin\n")
    host.restart()


@dataclass
class Lab:
    """Implements the contract. `standing` are the machines by id, each with the tag and instance that it carries.

    `refusals` makes a method fail for the hosts that it names, `*` for all; `made` counts machines that were ever made.
    """

    name: str = "lab"
    standing: dict[str, tuple[str, str, Machine]] = field(default_factory=dict)
    ran: list[tuple[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    specs: list[MachineSpec] = field(default_factory=list)
    refusals: dict[str, set[str]] = field(default_factory=dict)
    results: dict[str, CommandResult] = field(default_factory=dict)
    most_at_once: int = 0
    made: int = 0
    slow_s: float = 0.0
    _busy: int = 0

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        self._refuse("provision", role)
        self.tags.append(context.tag)
        self.specs.append(spec)
        found = [machine for tag, _, machine in self.standing.values() if tag == context.tag]
        for number in numbers[len(found) :]:
            await asyncio.sleep(self.slow_s)
            machine = Machine(
                id=f"vm{self.made}",
                role=role,
                provider=self.name,
                number=number,
                public_ip=f"10.0.0.{self.made}",
                private_ip=f"10.1.0.{self.made}",
                login=spec.login,
            )
            self.made += 1
            self.standing[machine.id] = (context.tag, context.instance_id, machine)
            found.append(machine)
        return found

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        return [
            Machine(id=address, role=role, provider=self.name, number=number, public_ip=address, adopted=True)
            for number, address in addresses.items()
        ]

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        await asyncio.sleep(0)
        self._refuse("release", machine.host)
        assert not machine.adopted
        self.standing.pop(machine.id, None)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        return [machine for _, instance_id, machine in self.standing.values() if instance_id == context.instance_id]

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        self._busy += 1
        self.most_at_once = max(self.most_at_once, self._busy)
        await asyncio.sleep(0.001)
        self._busy -= 1
        self._refuse("run", machine.host)
        self.ran.append((machine.host, command.shown))
        return self.results.get(machine.host, CommandResult(f"{machine.host}\n", "", 0))

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        self.ran.append((machine.host, "stop"))

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        self.ran.append((machine.host, ",".join(chef.run_list)))
        return {**chef.attributes, "host": machine.host}

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        self.ran.append((machine.host, f"put {name}"))

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        return f"{name} of {machine.host}".encode()

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None

    def _refuse(self, what: str, host: str) -> None:
        if self.refusals.get(what, set()) & {host, "*"}:
            raise ActionFailed(f"the lab does not {what} {host}.")


PACKAGE = "tests"


def dry(text: str, *answers: Answer, policies: dict[str, Any] | None = None, **more: Any) -> Instance:
    """An instance on dry-run machines whose addresses begin with 192.0.2.1."""
    provider = DryRun(Answers(tuple(answers)), network_offset=lambda _: 0)
    view = EnvironmentView(policies=policies or {})
    return instance(text, machines=Providers([(PACKAGE, provider)], provider.name), environment=view, **more)


def answer(action: str = "*", give: dict[str, Any] | None = None, **conditions: str) -> Answer:
    return Answer({"action": action, **conditions}, give or {})


def on_lab(text: str, lab: Lab, **more: Any) -> Instance:
    return instance(text, machines=Providers([(PACKAGE, lab)], lab.name), **more)


def workflow(*steps: str, returns: str = "{}", more: str = "") -> str:
    """A workflow manifest whose steps run one after the other; each is `name: {action: …}` without phases."""
    lines = [f"    - {step}" for step in steps]
    names = [step.partition(":")[0] for step in steps]
    for number in range(1, len(lines)):
        lines[number] = lines[number].replace("{action:", f"{{precedingPhases: [{names[number - 1]}], action:", 1)
    body = "\n".join(lines) if lines else "    []"
    return f"launch:\n  steps:\n{body}\n  return: {returns}\n{more}"


def roles(live: Instance) -> dict[str, list[str]]:
    """The addresses of the machines in the instance's state by role."""
    found: dict[str, list[str]] = {}
    for component in live.components.values():
        for machine in component["machines"]:
            found.setdefault(machine["role"], []).append(machine["publicIp"])
    return found


@dataclass
class Keys:
    """Implements `KeySource`."""

    private: dict[str, str]
    passwords: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    certificate: str = ""

    async def login_key(self, context: ProviderContext, name: str, login: str) -> LoginKey:
        self.asked.append(name)
        if name not in self.private:
            raise ActionFailed(f"There is no key pair {name!r}.", retryable=False)
        return LoginKey(self.private[name], self.certificate, "ca/ssh/sign/deploy" if self.certificate else "")

    async def public_key(self, context: ProviderContext, name: str) -> str:
        raise ActionFailed("not here")

    async def password(self, context: ProviderContext, name: str) -> str:
        if name not in self.passwords:
            raise ActionFailed(f"There is no secret {name!r}.", retryable=False)
        context.register_secret(self.passwords[name])
        return self.passwords[name]


@dataclass
class Pins:
    """Implements `HostKeys`."""

    pins: dict[tuple[str, str], str] = field(default_factory=dict)

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        return self.pins.get((context.organization_id, host))

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        return self.pins.setdefault((context.organization_id, host), key)

    async def forget(self, context: ProviderContext, host: str) -> None:
        self.pins.pop((context.organization_id, host), None)


@dataclass
class Pools:
    """Implements `HostPools`: hosts that are free, and who holds which."""

    free: dict[str, object] = field(default_factory=dict)
    held: dict[str, PooledHost] = field(default_factory=dict)

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        found = {f"pool/{context.instance_id}:{context.tag}:{number}": None for number in range(count)}
        if sum(machine_id not in self.held for machine_id in found) > len(self.free):
            raise ActionFailed(f"The pool has no {count} hosts.")
        for machine_id in found:
            if machine_id not in self.held:
                self.held[machine_id] = PooledHost(*self.free.popitem())
        return {machine_id: self.held[machine_id] for machine_id in found}

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        pooled = self.held.pop(machine_id, None)
        if pooled is not None:
            self.free[pooled.id] = pooled.place

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        return dict(self.held)


def parts(
    hosts: Hosts, directory: Path, allowed: str = "127.0.0.0/8", outgoing: EgressClient | None = None
) -> ProviderDeps:
    allowlist = Allowlist.parse(allowed)
    return ProviderDeps(
        keys=Keys({"": hosts.private_key, "deploy": hosts.private_key}),
        host_keys=Pins(),
        pools=Pools(),
        resolver=CheckedResolver(allowlist),
        egress=outgoing or EgressClient(allowlist),
        directory=directory,
    )


def archive(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as target:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                target.addfile(member)
            else:
                entry = tarfile.TarInfo(member[0])
                entry.size = len(member[1])
                target.addfile(entry, io.BytesIO(member[1]))
    return written.getvalue()


class Bench:
    """Instances on these hosts; `parts` is what their provider was given."""

    def __init__(self, hosts: Hosts, directory: Path) -> None:
        self.hosts = hosts
        self.parts = parts(hosts, directory)
        self.provider = StaticMachines(self.parts)

    def instance(self, text: str, **policies: Any) -> Instance:
        text = text.replace("HOSTS", ", ".join(f'"{host.address}"' for host in self.hosts.hosts))
        stated = {"machines.ssh-port": self.hosts[0].port, "machines.login": LOGIN}
        view = EnvironmentView(
            policies={**stated, **{name.replace("__", "."): each for name, each in policies.items()}}
        )
        return instance(text, machines=Providers([(PACKAGE, self.provider)], "static"), environment=view)

    def forget_runs(self) -> None:
        """Let the next instance, whose job has the same id, find no command that the one before began."""
        for host in self.hosts.hosts:
            for run in (host.home / ".launchbay").glob(f"*/{JOB}-*"):
                shutil.rmtree(run)

    @property
    def pools(self) -> Pools:
        assert isinstance(self.parts.pools, Pools)
        return self.parts.pools


ADOPT = "web: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}, output: {ips: ips}}"
