"""A real Podman on a socket of its own, with an image made of nothing but busybox: no registry is asked.

Podman keeps its containers in a directory of the test, on plain files (vfs), without cgroups: so it runs inside of
machines that are themselves confined. Its mount namespace is its own, for crun refuses a hybrid tree of cgroups.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.machines.containers.engine_api import EngineApi
from launchbay.machines.containers.order import ContainerLimits
from launchbay.machines.contract import ProviderContext
from tests.support.contexts import Log, context
from tests.support.eventually import eventually_blocking

IMAGE = "localhost/launchbay-test:latest"
_PROGRAMS = ("podman", "crun", "unshare", "busybox")
_START_S = 60.0
_NAMESPACE = "umount /sys/fs/cgroup/unified 2>/dev/null; exec "
_CONF = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
exit_command_delay = 30
runtime = "crun"
"""


class NoPodman(Exception):
    """Containers cannot be run on this machine; the text says why."""


class NoDocker(Exception):
    """Docker cannot be run on this machine; the text says why."""


class Podman:
    """`run` is the command line's way to what the API sees."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "api.sock"
        conf = directory / "containers.conf"
        conf.write_text(_CONF)
        self._environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "CONTAINERS_CONF": str(conf),
            "HOME": str(directory),
        }
        self._command = (
            "podman",
            *("--root", str(directory / "root"), "--runroot", str(directory / "run")),
            *("--storage-driver", "vfs", "--network-config-dir", str(directory / "networks")),
        )

    def run(self, *arguments: str, given: bytes | None = None) -> str:
        """Run a command. Raises NoPodman with what it writes."""
        done = subprocess.run(
            self._line(*arguments), env=self._environment, input=given, capture_output=True, timeout=120, check=False
        )
        if done.returncode != 0:
            raise NoPodman(f"podman {arguments[0]} ended with {done.returncode}: {done.stderr.decode()[-500:].strip()}")
        return done.stdout.decode()

    def serve(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._line("system", "service", "--time", "0", f"unix://{self.socket}"),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _line(self, *arguments: str) -> tuple[str, ...]:
        line = (*self._command, *arguments)
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", _NAMESPACE + '"$@"', "sh", *line)


@contextmanager
def started(directory: Path) -> Iterator[Podman]:
    """Run the service. Raises NoPodman where containers cannot be run here."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise NoPodman(f"{', '.join(missing)} is not installed: requirements/debian does that")
    podman = Podman(directory)
    podman.run("import", "-", IMAGE, given=_image(directory).read_bytes())
    podman.run("run", "--rm", "--network", "none", IMAGE, "sh", "-c", "exit 0")
    service = podman.serve()
    try:
        eventually_blocking(lambda: podman.socket.exists() or service.poll() is not None, within_s=_START_S)
        if service.poll() is not None:
            raise NoPodman("podman system service makes no socket")
        yield podman
    finally:
        podman.run("rm", "--all", "--force", "--time", "0")
        service.kill()
        service.wait()


@contextmanager
def started_docker(directory: Path) -> Iterator[Path]:
    """Run Docker's daemon with the same image, and give its socket. Raises NoDocker where that is impossible.

    It is not among the packages that are installed for tests: its service would change the machine's network.
    """
    missing = [
        program for program in ("dockerd", "containerd", "runc", "busybox", "unshare") if not shutil.which(program)
    ]
    if missing:
        raise NoDocker(f"{', '.join(missing)} is not installed")
    socket = directory / "docker.sock"
    line = (
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", _NAMESPACE + '"$@"', "sh", "dockerd"),
        *("--data-root", str(directory / "data"), "--exec-root", str(directory / "run")),
        *("--pidfile", str(directory / "pid"), "--host", f"unix://{socket}", "--storage-driver", "vfs"),
        *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    )
    log = directory / "log"
    with log.open("wb") as output:
        service = subprocess.Popen(line, stdout=output, stderr=output, start_new_session=True)
    try:
        eventually_blocking(
            lambda: "API listen on" in log.read_text("utf-8", "replace") or service.poll() is not None,
            within_s=_START_S,
        )
        if service.poll() is not None:
            raise NoDocker(f"dockerd makes no socket: {log.read_text('utf-8', 'replace')[-500:]}")
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://engine/v1.41") as calls:
            name, _, tag = IMAGE.rpartition(":")
            given = {"fromSrc": "-", "repo": name, "tag": tag}
            loaded = calls.post("/images/create", params=given, content=_image(directory).read_bytes(), timeout=60)
            assert loaded.status_code == 200, loaded.text
        yield socket
    finally:
        service.terminate()  # ends its containers and containerd, too
        service.wait(30)


def _image(directory: Path) -> Path:
    """Write an archive of a root file system: busybox under all of its names, and two logins."""
    root, archive = directory / "image", directory / "image.tar"
    for name in ("bin", "tmp", "etc", "proc", "sys", "dev", "root", "home/ann", "opt"):
        (root / name).mkdir(parents=True)
    busybox = Path(shutil.which("busybox") or "")
    shutil.copy(busybox, root / "bin" / "busybox")
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nann:x:1000:\n")
    (root / "tmp").chmod(0o1777)

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 1000 if entry.name.startswith("home/ann") else 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(archive, "w") as tar:
        for each in sorted(root.iterdir()):
            tar.add(each, each.name, filter=owned)
    return archive


ALLOWED = ContainerLimits(memory_mb=256, cpus=1.0, networks=("none", "host", "bridge"), files=1024, processes=4096)
OUTGOING = EgressClient(Allowlist())


class Here:
    def __init__(self, name: str = "installation-1") -> None:
        self._name = name

    async def installation(self) -> str:
        return self._name


def asked(**more: Any) -> ProviderContext:
    return context(Log(), **{"job_id": "5f0000000000000000000007", **more})


def made_anew(podman: Podman, name: str) -> None:
    """Let the name mean another image, in which `NEWER` is set."""
    container = podman.run("create", "--network", "none", IMAGE, "true").strip()
    podman.run("commit", "--change", "ENV NEWER=yes", container, name)


async def standing(engine: EngineApi) -> int:
    return len(await engine.labelled({}))
