"""Real proxies that carry outgoing requests, on loopback, with a log of what went through them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from launchbay.egress.proxy import OutgoingProxy
from tests.support.eventually import until_listening
from tests.support.servers import free_ports

_PATH = f"{os.environ['PATH']}:/usr/sbin"
_HELPER = "/usr/lib/squid/basic_ncsa_auth"
_SQUID = "proxy"  # Debian's account for it
_WITHIN_S = 20.0


@dataclass(frozen=True)
class Wanted:
    """What a proxy is to do. It refuses the hosts `refused`, and asks for `credentials` (`user:password`) if given."""

    directory: Path
    port: int
    credentials: str
    refused: Sequence[str]


NAMES = tuple(f"{name}.launchbay.test" for name in ("api", "cloud", "cluster", "git", "hooks", "login", "collector"))
"""Names that squid alone knows, for 127.0.0.1. Nothing is below `test` (RFC 2606)."""


@dataclass(frozen=True)
class RunningProxy:
    port: int
    logs: Sequence[Path]
    credentials: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def setting(self, no_proxy: str = "", credentials: str | None = None) -> OutgoingProxy:
        """Return the proxy as the settings would give it, with its own credentials or others."""
        user, _, password = (self.credentials if credentials is None else credentials).partition(":")
        found = OutgoingProxy.load(self.url, "", no_proxy)
        assert found is not None
        return OutgoingProxy(
            scheme="http", host="127.0.0.1", port=self.port, user=user, password=password, exceptions=found.exceptions
        )

    def carried(self) -> str:
        """Return the log of what went through so far."""
        return "".join(each.read_text("utf-8", "replace") for each in self.logs)


def tinyproxy(wanted: Wanted) -> list[str]:
    """Write the configuration of tinyproxy."""
    directory = wanted.directory
    lines = [f"Port {wanted.port}", "Listen 127.0.0.1", "Allow 127.0.0.1", "LogLevel Connect", "Timeout 20"]
    if wanted.credentials:
        lines.append(f"BasicAuth {wanted.credentials.replace(':', ' ', 1)}")
    if wanted.refused:
        (directory / "refused").write_text("".join(f"^{host}$\n" for host in wanted.refused))
        lines.append(f'Filter "{directory}/refused"')
    (directory / "tinyproxy.conf").write_text("\n".join([*lines, ""]))
    return ["tinyproxy", "-d", "-c", str(directory / "tinyproxy.conf")]


def squid(wanted: Wanted) -> list[str]:
    """Write the configuration of squid."""
    directory = wanted.directory
    rules = [f"acl refused dstdomain {' '.join(wanted.refused)}", "http_access deny refused"] if wanted.refused else []
    if wanted.credentials:
        user, _, password = wanted.credentials.partition(":")
        hashed = subprocess.run(
            ["openssl", "passwd", "-apr1", "-stdin"], input=password, capture_output=True, text=True, check=True
        )
        (directory / "users").write_text(f"{user}:{hashed.stdout}")
        rules = [
            f"auth_param basic program {_HELPER} {directory}/users",
            "acl known proxy_auth REQUIRED",
            "http_access deny !known",
            *rules,
        ]
    if os.geteuid() == 0:  # as which squid doesn't run
        rules = [f"cache_effective_user {_SQUID}", *rules]
    lines = [
        f"http_port 127.0.0.1:{wanted.port}",
        f"pid_filename {directory}/pid",
        f"access_log stdio:{directory}/access",
        f"cache_log {directory}/cache.log",
        f"coredump_dir {directory}",
        "cache deny all",
        "shutdown_lifetime 0 seconds",
        "pinger_enable off",
        f"hosts_file {directory}/hosts",
        *rules,
        "http_access allow all",
    ]
    (directory / "squid.conf").write_text("\n".join([*lines, ""]))
    (directory / "hosts").write_text(f"127.0.0.1 localhost {' '.join(NAMES)}\n")
    (directory / "access").touch()
    if os.geteuid() == 0:
        for each in (directory, *directory.iterdir()):
            shutil.chown(each, _SQUID, _SQUID)
    return ["squid", "-N", "-n", f"on{wanted.port}", "-f", str(directory / "squid.conf")]


Configuration = Callable[[Wanted], list[str]]
PROXIES: tuple[Configuration, ...] = (tinyproxy, squid)


@contextmanager
def outgoing_proxy(
    configuration: Configuration, *, credentials: str = "", refused: Sequence[str] = ()
) -> Iterator[RunningProxy]:
    """Run a proxy on a loopback port. Skips the test if the program isn't installed."""
    program = configuration.__name__
    if shutil.which(program, path=_PATH) is None:
        pytest.skip(f"{program} isn't installed")
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # squid's account must get there
        directory = Path(folder)
        command = configuration(Wanted(directory, port, credentials, refused))
        log = directory / "log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={"PATH": _PATH, "HOME": folder}, cwd=folder
            )
        try:
            until_listening(port, running, log)
            yield RunningProxy(port, [each for each in (log, directory / "access") if each.exists()], credentials)
        finally:
            running.terminate()
            running.wait(_WITHIN_S)


def named_certificate(directory: Path) -> tuple[Path, Path]:
    """Make a certificate for `NAMES` and return it with its key."""
    certificate, key = directory / "names.pem", directory / "names.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=names"
    names = ["-addext", f"subjectAltName={','.join(f'DNS:{name}' for name in NAMES)},IP:::1"]
    subprocess.run([*command.split(), *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key
