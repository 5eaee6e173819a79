"""Machines that are reached by SSH: real OpenSSH servers on loopback addresses, each with a host key of its own.

    with Hosts.start(3) as hosts:
        hosts[0].address, hosts[0].port, hosts.private_key, hosts[0].home

As root each host lives in namespaces of its own: its processes die with it, as those of a machine do, and it has the
logins `ops` (sudo without a password) and `plain` (no sudo). Otherwise the server runs as whoever runs the tests, and
`ops` is that login; tests of sudo ask for `isolated`.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
UIDS = {"ops": 61001, "plain": 61002}
START_S = 20.0
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
_ISOLATED = """
mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd
for name in passwd shadow group sudoers; do mount --bind "$1/$name" "/etc/$name" || exit 1; done
for name in curl wget git; do
    path=$(command -v $name) && mount --bind /bin/false "$(readlink -f "$path")"
done
mount --bind "${1%/*}" "${1%/*}" && mount -o remount,bind,ro / || exit 1
exec "$2" -D -e -f "$1/sshd_config"
"""


def isolates() -> bool:
    """Tell whether hosts can have namespaces here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "-p", "--fork", "true"], capture_output=True, check=False).returncode == 0


ISOLATED = isolates()
needs_sshd = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (Debian: openssh-server)")
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
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                socket.create_connection((self.address, self.port), 1).close()
            except OSError:
                if self._server.poll() is not None:
                    break
                time.sleep(0.02)
            else:
                return
        raise AssertionError((self.directory / "sshd.log").read_text())

    def stop(self) -> None:
        """Take everything down that runs there."""
        if self._server is not None:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait(10)
            self._server = None

    def restart(self) -> None:
        """Take everything down and start it again."""
        self.stop()
        self.start()

    def new_host_key(self) -> None:
        """Install the machine anew under its old address."""
        self.stop()
        (self.directory / "host_key").unlink()
        make_key(self.directory / "host_key")
        self.start()


@dataclass
class Hosts:
    """Several machines that one key lets in."""

    directory: Path
    private_key: str
    public_key: str
    hosts: list[Host] = field(default_factory=list)

    @classmethod
    def start(cls, count: int, *, network: int = 1) -> Self:
        """Start so many, on 127.0.`network`.1 and on."""
        _sweep()
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        directory.chmod(0o755)
        make_key(directory / "key")
        found = cls(directory, (directory / "key").read_text(), (directory / "key.pub").read_text().strip())
        port = free_port()
        try:
            for number in range(1, count + 1):
                host = Host(directory / f"host-{number}", f"127.0.{network}.{number}", port)
                _furnish(host, found.public_key)
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


def make_key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(file)], check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _furnish(host: Host, public_key: str) -> None:
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
    for login, uid in UIDS.items():
        home = homes / login
        home.mkdir()
        passwd.append(f"{login}:x:{uid}:{uid}::{home}:/bin/bash")
        shadow.append(f"{login}:*:19000:0:99999:7:::")
        group.append(f"{login}:x:{uid}:")
        if ISOLATED:
            os.chown(home, uid, uid)
    for name, lines in (("passwd", passwd), ("shadow", shadow), ("group", group)):
        (host.directory / name).write_text("\n".join((*lines, "")))
    (host.directory / "sudoers").write_text(_SUDOERS)
    (host.directory / "sudoers").chmod(0o440)
