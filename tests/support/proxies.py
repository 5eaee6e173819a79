"""The proxies of the documentation's pages, started with the configuration that the pages show."""

import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.eventually import until_listening
from tests.support.external_services import made_certificate
from tests.support.servers import free_ports

NAME = "launchbay.example.org"
PREFIX = "/launchbay"
_PATH = f"{os.environ['PATH']}:/usr/sbin"
_MODULES = Path("/usr/lib/apache2/modules")
_WITHIN_S = 20.0


@dataclass(frozen=True)
class Wanted:
    """What a configuration is written for."""

    directory: Path
    port: int
    server: str  # host and port
    certificate: Path
    key: Path
    below_path: bool
    read_timeout_s: int

    def site(self, language: str) -> str:
        """Return the configuration of the page, with the server's address and read timeouts."""
        name = "haproxy-apache" if language in {"haproxy", "apache"} else "reverse-proxy"
        text = _block(name, language)
        if self.below_path:
            text = _WAYS_IN[language].sub(lambda _: _block("path", language), text, count=1)
            assert PREFIX in text, text
        text = text.replace("127.0.0.1:8080", self.server)
        for shown in ("read_timeout 120s", "timeout server 120s", "timeout=120"):
            text = text.replace(shown, shown.replace("120", str(self.read_timeout_s)))
        text = text.replace("/etc/ssl/launchbay/fullchain.pem", str(self.certificate))
        return text.replace("/etc/ssl/launchbay/key.pem", str(self.key))


# What the page about paths replaces.
_WAYS_IN = {
    "nginx": re.compile(r"    location / \{.*?\n    \}\n", re.DOTALL),
    "caddy": re.compile(r"    reverse_proxy .*?\n    \}\n", re.DOTALL),
    "haproxy": re.compile(r"    default_backend launchbay\n"),
    "apache": re.compile(r"    ProxyPass .*\n"),
}


def _block(page: str, language: str) -> str:
    [text] = [each.text for each in blocks(DOCS / "howto" / f"{page}.md") if each.language == language]
    return text


def nginx(wanted: Wanted) -> list[str]:
    """Write the configuration, without the help of the header that the server sends."""
    directory = wanted.directory
    site = wanted.site("nginx").replace("443", f"127.0.0.1:{wanted.port}")
    user = "user root;" if os.geteuid() == 0 else ""  # who may read the directory of this test
    paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    temporary = "\n".join(f"{name}_temp_path {directory}/{name};" for name in paths)
    (directory / "nginx.conf").write_text(
        f"{user} daemon off; pid {directory}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; proxy_ignore_headers X-Accel-Buffering;\n{temporary}\n{site} }}\n"
    )
    return ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]


def nginx_without_the_path(wanted: Wanted) -> list[str]:
    """Write a configuration that takes the path off."""
    command = nginx(wanted)
    file = wanted.directory / "nginx.conf"
    file.write_text(file.read_text().replace("proxy_pass http://launchbay;", "proxy_pass http://launchbay/;"))
    return command


def caddy(wanted: Wanted) -> list[str]:
    own = f"{NAME}:{wanted.port} {{\n    bind 127.0.0.1\n    tls {wanted.certificate} {wanted.key}"
    site = wanted.site("caddy").replace(f"{NAME} {{", own)
    (wanted.directory / "Caddyfile").write_text(f"{{\n    admin off\n    auto_https off\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(wanted.directory / "Caddyfile")]


def haproxy(wanted: Wanted) -> list[str]:
    both = wanted.directory / "both.pem"
    both.write_bytes(wanted.certificate.read_bytes() + wanted.key.read_bytes())
    site = wanted.site("haproxy").replace("/etc/ssl/launchbay/both.pem", str(both))
    (wanted.directory / "haproxy.cfg").write_text(site.replace("bind :443", f"bind 127.0.0.1:{wanted.port}"))
    return ["haproxy", "-db", "-f", str(wanted.directory / "haproxy.cfg")]


def apache2(wanted: Wanted) -> list[str]:
    names = ["mpm_event", "authz_core", "ssl", "headers", "proxy", "proxy_http"]
    modules = "\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in names)
    site = wanted.site("apache").replace("*:443", f"127.0.0.1:{wanted.port}")
    (wanted.directory / "apache2.conf").write_text(
        f"ServerRoot {wanted.directory}\nPidFile pid\nErrorLog /dev/stderr\nDefaultRuntimeDir {wanted.directory}\n"
        f"Listen 127.0.0.1:{wanted.port}\nServerName {NAME}\n{modules}\n{site}"
    )
    return ["apache2", "-X", "-f", str(wanted.directory / "apache2.conf")]


Configuration = Callable[[Wanted], list[str]]
PROXIES: tuple[Configuration, ...] = (nginx, caddy, haproxy, apache2)


@contextmanager
def running_proxy(
    configuration: Configuration, port: int, server: str, *, below_path: bool = False, read_timeout_s: int = 120
) -> Iterator[Path]:
    """Run a proxy on a loopback port, in front of the server at a host and port. Give its certificate.

    Skips the test if the program isn't installed.
    """
    program = configuration.__name__.partition("_")[0]
    if shutil.which(program, path=_PATH) is None:
        pytest.skip(f"{program} isn't installed")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        certificate, key = made_certificate(directory)
        command = configuration(Wanted(directory, port, server, certificate, key, below_path, read_timeout_s))
        log = directory / "log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={"PATH": _PATH, "HOME": folder}
            )
        try:
            until_listening(port, running, log)
            yield certificate
        finally:
            running.terminate()
            running.wait(_WITHIN_S)


@contextmanager
def proxied(
    configuration: Configuration,
    url: str,
    auth: tuple[str, str],
    *,
    below_path: bool = False,
    read_timeout_s: int = 120,
) -> Iterator[httpx.Client]:
    """Run a proxy in front of the server at a URL, and give a client of it on another address than the proxy's own."""
    [port] = free_ports(1)
    server = url.removeprefix("http://")
    with (
        running_proxy(configuration, port, server, below_path=below_path, read_timeout_s=read_timeout_s) as certificate,
        httpx.Client(
            base_url=f"https://127.0.0.1:{port}",
            headers={"Host": NAME},
            auth=auth,
            transport=httpx.HTTPTransport(
                verify=ssl.create_default_context(cafile=str(certificate)), local_address="127.0.0.2"
            ),
            timeout=_WITHIN_S,
        ) as client,
    ):
        yield client
