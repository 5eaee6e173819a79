"""The command `launchbay doctor`: what this machine lacks, and how to get it."""

import asyncio
import ctypes
import errno
import json
import locale
import os
import platform
import pwd
import re
import resource
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tomllib
import zoneinfo
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx
import tzdata
from cryptography import x509

from launchbay import __version__
from launchbay.app.commands import config_option, data_option, database_option, read_settings
from launchbay.app.features import FEATURES
from launchbay.app.outgoing import outgoing_client, outgoing_proxy
from launchbay.auth.secret_key import KeyFile, read_secret_key
from launchbay.egress.http import EgressClient
from launchbay.egress.proxy import ProxyFailed
from launchbay.errors import CannotStart, EgressFailed, Unavailable
from launchbay.limits import DESCRIPTORS_WANTED, MIB
from launchbay.postgres import cluster
from launchbay.postgres.backup import TLS_MODES, client_program
from launchbay.postgres.memory import read_memory, sizes_of
from launchbay.processes.run import minimal_environment, search_path
from launchbay.settings import Settings
from launchbay.store.database import Database, DatabaseError, connection_parameters, has_no_room, redacted_url
from launchbay.store.schema import Inspection, inspect, revisions
from launchbay.store.upkeep import Upkeep, look


class Level(StrEnum):
    """How much a finding matters. A server doesn't work with a problem."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and where. `fix` is what to do, if anything."""

    check: str
    level: Level
    where: str
    found: str
    fix: str = ""


_LEAST_MEMORY = 384 * MIB  # of a server with the embedded PostgreSQL
_GOOD_MEMORY = 1024 * MIB
_LEAST_DISK = 512 * MIB
_GOOD_DISK = 1536 * MIB  # PostgreSQL's log comes on top
_GOOD_INODES = 10_000
_GOOD_FILES = 4_096
_ANSWER_S = 3.0
_CLOCKS_APART_S = 2.0
_CLOCKS_FAR_APART_S = 10.0  # sign-ins through a provider begin to fail, and tokens too
_EXPIRES_SOON_DAYS = 14
_ZONES_VERSION = re.compile(r"# version (\w+)")
_UNSYNCHRONIZED = 5  # TIME_ERROR of adjtimex(2)
_TIMEX_BYTES = 512  # more than struct timex has on any platform
_PAGES_TOLD = 1_000_000  # read since the statistics began, from which on the share of the cache says something
_GOOD_SHARE = 0.95
_DEAD_ROWS = 100_000
_LONG_TRANSACTION_S = 3_600.0
_VOLATILE = frozenset({"tmpfs", "ramfs", "overlay"})
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})
_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_NO_HOST = "https://launchbay.invalid/"
_EXTRAS = {
    "nats": ("dispatch_url", "nats"),
    "telemetry": ("otlp_endpoint", "opentelemetry.sdk"),
}


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that Launchbay starts. One with a `setting` must be in `server_programs`."""

    files: tuple[str, ...]
    purpose: str
    fix: str
    setting: str = ""


_PROGRAMS = (
    _Program(
        ("ansible-playbook",), "the action `ansible`", "Install it with: pip install 'launchbay[ansible]'", "ansible"
    ),
    _Program(("helm",), "the action `helm`", "Install Helm 3 or newer: https://helm.sh/docs/intro/install/", "helm"),
    _Program(
        ("tofu", "terraform"),
        "the action `opentofu`",
        "Install OpenTofu: https://opentofu.org/docs/intro/install/",
        "opentofu",
    ),
    _Program(
        ("chef-solo", "cinc-solo", "/opt/chef/bin/chef-solo", "/opt/cinc/bin/cinc-solo"),
        "Chef on this machine (provider `local`)",
        "Install Cinc or Chef: https://cinc.sh/start/client/",
    ),
    _Program(("git",), "manifests and directories in Git", "Install the package git of your distribution."),
    _Program(("ssh",), "Git over SSH, and Ansible", "Install the package openssh-client of your distribution."),
    _Program(("sudo",), "commands with `isSudo` on this machine", "Install the package sudo of your distribution."),
)


def check_machine(settings: Settings, root: Path = Path("/")) -> Iterator[Finding]:
    """Check what needs no other program. `root` has `proc` and `sys` of the machine."""
    yield from _check_platform()
    yield _check_memory(root)
    yield from _check_files()
    yield _check_clock()
    yield from _check_port(settings)
    yield from _check_data(settings, root)
    yield from _check_key(settings)
    yield from _check_tls(settings)
    yield from _check_access(settings)
    yield from _check_extras(settings)
    yield _check_zones()
    yield from _check_programs(settings)


async def check_services(settings: Settings) -> list[Finding]:
    """Check the database and the other servers that the settings name."""
    wanted = [_check_external(settings) if settings.database_url else _check_embedded(settings)]
    wanted.append(_check_stuck(settings))
    if settings.dispatch_url:
        wanted.append(_check_nats(settings))
    wanted.append(_check_proxy(settings))
    if settings.oidc_issuer:
        wanted.append(_check_issuer(settings))
    if settings.otlp_endpoint:
        wanted.append(_check_collector(settings))
    if settings.smtp_host:
        wanted.append(_check_reachable("mail", "LAUNCHBAY_SMTP_HOST", settings.smtp_host, settings.smtp_port))
    return [finding for found in await asyncio.gather(*wanted) for finding in found]


def _check_platform() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("python", Level.OK, sys.executable, f"Python {version} on {platform.system()} {platform.machine()}.")
    if platform.system() != "Linux":
        yield Finding("python", Level.PROBLEM, platform.system(), "Servers run on Linux only.", "Use a container.")
    wanted = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        yield Finding(
            "locale", Level.WARNING, wanted, "This locale isn't installed.", "Set LANG=C.UTF-8, which always is."
        )
        return
    encoding = sys.stdout.encoding or locale.getencoding()
    if encoding.lower().replace("-", "") == "utf8":
        yield Finding("locale", Level.OK, wanted, "Text is printed as UTF-8.")
    else:
        yield Finding(
            "locale", Level.WARNING, wanted, f"Text is printed as {encoding}, so names may fail.", "Set LANG=C.UTF-8."
        )


def _check_memory(root: Path) -> Finding:
    memory = read_memory(root)
    if memory is None:
        return Finding("memory", Level.NOTE, "the machine", "The amount of memory is unknown.")
    where, total = "the container" if memory.is_bounded else "the machine", memory.total
    level = Level.PROBLEM if total < _LEAST_MEMORY else Level.WARNING if total < _GOOD_MEMORY else Level.OK
    fix = "" if level is Level.OK else f"Give it {_GOOD_MEMORY // MIB} MiB, or more for many jobs at once."
    return Finding("memory", level, where, f"{total // MIB} MiB of memory.", fix)


def _check_files() -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _GOOD_FILES:
        yield Finding(
            "ulimits",
            Level.WARNING,
            "open files",
            f"A process may open {hard} files. Each connection needs one.",
            f"Raise the limit to {DESCRIPTORS_WANTED}: LimitNOFILE= in the systemd unit, or ulimit -Hn in the shell.",
        )
    else:
        shown = "any number of" if hard == resource.RLIM_INFINITY else str(hard)
        yield Finding("ulimits", Level.OK, "open files", f"A process may open {shown} files.")
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY and processes < 512:
        yield Finding(
            "ulimits",
            Level.WARNING,
            "processes",
            f"The account may have {processes} processes. PostgreSQL needs one for each connection.",
            "Raise the limit to 4096: LimitNPROC= in the systemd unit, or ulimit -Hu in the shell.",
        )


def _check_clock() -> Finding:
    """Ask the kernel whether something keeps the clock right (adjtimex(2))."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if state < 0:
        return Finding("clock", Level.NOTE, now, "The kernel doesn't say whether the clock is synchronized.")
    if state == _UNSYNCHRONIZED:
        return Finding(
            "clock",
            Level.WARNING,
            now,
            "Nothing synchronizes the clock. Schedules, tokens and TLS depend on it.",
            "Start a time service: timedatectl set-ntp true, or chrony. In a container, start it on the host.",
        )
    return Finding("clock", Level.OK, now, "The clock is synchronized.")


def _check_zones() -> Finding:
    """Name the version of the time zones: schedules don't know later decisions."""
    for folder in zoneinfo.TZPATH:
        with suppress(OSError), Path(folder, "tzdata.zi").open(encoding="utf-8") as file:
            if found := _ZONES_VERSION.fullmatch(file.readline().strip()):
                return Finding(
                    "time zones", Level.OK, folder, f"The time zones are those of IANA's version {found[1]}."
                )
        if Path(folder, "UTC").exists():
            return Finding("time zones", Level.NOTE, folder, "The time zones don't say of which version they are.")
    return Finding(
        "time zones", Level.OK, "tzdata", f"The time zones are those of IANA's version {tzdata.IANA_VERSION}."
    )


def _check_port(settings: Settings) -> Iterator[Finding]:
    shown = f"{settings.host}:{settings.port}"
    try:
        [family, kind, _, _, address] = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _is_launchbay(settings):
            yield Finding("port", Level.OK, shown, "A Launchbay server listens here.")
            return
        fixes = {
            errno.EADDRINUSE: "Stop the program that uses it (ss -ltnp), or set LAUNCHBAY_PORT.",
            errno.EACCES: "Use a port from 1024 on behind a proxy, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the"
            " systemd unit.",
        }
        fix = fixes.get(error.errno or 0, "Set LAUNCHBAY_HOST to an address of this machine.")
        yield Finding("port", Level.PROBLEM, shown, f"A server can't listen here: {error.strerror or error}.", fix)
    else:
        yield Finding("port", Level.OK, shown, "The port is free.")


def _is_launchbay(settings: Settings) -> bool:
    scheme = "https" if settings.tls_certificate else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    try:
        url = f"{scheme}://{host}:{settings.port}/health/live"
        answer = httpx.get(url, timeout=_ANSWER_S, verify=False, trust_env=False)  # noqa: S501 - nothing secret
        return bool(answer.status_code == 200 and "status" in answer.json())
    except (httpx.HTTPError, ValueError, AttributeError):
        return False


def _check_data(settings: Settings, root: Path) -> Iterator[Finding]:
    """Check the data directory: writable, on a lasting local disk, with room."""
    wanted = settings.data_dir.expanduser().absolute()
    there = next(path for path in (wanted, *wanted.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        user = _account()
        yield Finding(
            "disk",
            Level.PROBLEM,
            str(wanted),
            f"The account {user} can't write to {there}.",
            f"Run: sudo install -d -o {user} -m 700 {wanted}, or set LAUNCHBAY_DATA_DIR.",
        )
        return
    if settings.database_url:
        return
    found = os.statvfs(there)
    free = found.f_bavail * found.f_frsize
    wanted_bytes = _GOOD_DISK + sizes_of(settings, root).max_wal_size * MIB
    level = Level.PROBLEM if free < _LEAST_DISK else Level.WARNING if free < wanted_bytes else Level.OK
    fix = (
        "" if level is Level.OK else f"Keep {wanted_bytes // MIB} MiB free, or set LAUNCHBAY_DATA_DIR to a larger disk."
    )
    is_full = has_no_room(wanted / "postgres")
    what = f"{free // MIB} MiB are free{': the database is out of space' if is_full else ''}."
    yield Finding("disk", level, str(wanted), what, fix)
    if found.f_files and found.f_favail < _GOOD_INODES:
        yield Finding(
            "disk",
            Level.WARNING,
            str(wanted),
            f"{found.f_favail} inodes are free.",
            "Remove files.",
        )
    system = _file_system(there, root)
    if system in _VOLATILE | _REMOTE:
        what = "doesn't last" if system in _VOLATILE else "is on another machine, which PostgreSQL doesn't bear well"
        yield Finding(
            "disk",
            Level.WARNING,
            str(wanted),
            f"The file system ({system}) {what}.",
            "Use a local disk or a volume, or set LAUNCHBAY_DATABASE_URL to another PostgreSQL.",
        )


def _file_system(path: Path, root: Path) -> str:
    """Return the type of the file system of a directory."""
    best = ("", "")
    for line in _text(root / "proc/mounts").splitlines():
        _, point, system, *_ = line.split()
        if path.is_relative_to(point) and len(point) > len(best[0]):
            best = (point, system)
    return best[1]


def _check_key(settings: Settings) -> Iterator[Finding]:
    file = KeyFile(settings.key_file())
    if not file.path.exists():
        # The first start makes it; the check of the database says where that is wrong.
        there = next(path for path in file.path.absolute().parents if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            yield Finding(
                "secret key",
                Level.PROBLEM,
                str(file.path),
                f"There is no key, and the account {_account()} can't create one in {there}.",
                "Copy the key file of another server there. For a new database, create it, readable by this account.",
            )
        return
    try:
        file.lines()
    except CannotStart as error:
        yield Finding("secret key", Level.PROBLEM, str(file.path), error.messages[0], " ".join(error.messages[1:]))
        return
    found = file.path.stat()
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding(
            "secret key",
            Level.WARNING,
            str(file.path),
            f"Its mode is {stat.S_IMODE(found.st_mode):o}, so its group has access too.",
            f"Run: chmod 600 {file.path}, unless the group is how your servers get the key.",
        )
    elif found.st_uid != os.geteuid():
        yield Finding(
            "secret key",
            Level.WARNING,
            str(file.path),
            "It belongs to another account.",
            f"Run: chown $USER {file.path}",
        )
    else:
        yield Finding("secret key", Level.OK, str(file.path), "Only its owner can read it.")


def _check_tls(settings: Settings) -> Iterator[Finding]:
    if not settings.tls_certificate:
        return
    where = settings.tls_certificate
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(where, settings.tls_key)
        [leaf, *_] = x509.load_pem_x509_certificates(Path(where).read_bytes())
    except (OSError, ValueError) as error:
        yield Finding(
            "tls",
            Level.PROBLEM,
            where,
            f"The certificate and key can't be used: {error}.",
            "Set LAUNCHBAY_TLS_CERTIFICATE to the chain in PEM, and LAUNCHBAY_TLS_KEY to its unencrypted key.",
        )
        return
    left = leaf.not_valid_after_utc - datetime.now(UTC)
    level = Level.PROBLEM if left.days < 0 else Level.WARNING if left.days < _EXPIRES_SOON_DAYS else Level.OK
    fix = "" if level is Level.OK else "Replace the two files. The server reads them within seconds."
    verb = "expired" if left.days < 0 else "expires"
    yield Finding("tls", level, where, f"The certificate {verb} on {leaf.not_valid_after_utc:%Y-%m-%d}.", fix)
    if (mode := Path(settings.tls_key).stat().st_mode) & stat.S_IRWXO:
        yield Finding(
            "tls",
            Level.WARNING,
            settings.tls_key,
            f"Its mode is {stat.S_IMODE(mode):o}: everybody on this machine may use the key.",
            f"Run: chmod 600 {settings.tls_key}",
        )


def _check_access(settings: Settings) -> Iterator[Finding]:
    is_local = settings.host in {"127.0.0.1", "::1", "localhost"}
    if not is_local and not settings.is_secure():
        yield Finding(
            "access",
            Level.WARNING,
            settings.host,
            "The server listens on the network without TLS, so passwords travel in the clear.",
            "Set LAUNCHBAY_TLS_CERTIFICATE and LAUNCHBAY_TLS_KEY, or the proxy's https address as LAUNCHBAY_BASE_URL.",
        )
    if os.geteuid() == 0:
        yield Finding(
            "account",
            Level.WARNING,
            "root",
            "A server that root starts can do everything on this machine.",
            "Start it as an account of its own: launchbay docs --print howto/install-systemd",
        )


def _check_extras(settings: Settings) -> Iterator[Finding]:
    for extra, (name, module) in _EXTRAS.items():
        if getattr(settings, name) and not _is_installed(module):
            yield Finding(
                "packages",
                Level.PROBLEM,
                f"LAUNCHBAY_{name.upper()}",
                f"It needs the extra `{extra}`, which isn't installed.",
                f"Run: pip install 'launchbay[{extra}]'",
            )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package above it
        return False


def _check_programs(settings: Settings) -> Iterator[Finding]:
    is_local = settings.machines == "local" or bool(settings.local_environments)
    for program in _PROGRAMS:
        name = program.files[0]
        path = next((found for file in program.files if (found := shutil.which(file, path=search_path()))), None)
        is_allowed = program.setting in settings.programs()
        if path is None:
            level = Level.PROBLEM if is_allowed else Level.NOTE
            yield Finding("programs", level, name, f"Missing. It is for {program.purpose}.", program.fix)
        elif program.setting and not is_allowed:
            fix = f"To let actions start it, add {program.setting} to LAUNCHBAY_SERVER_PROGRAMS."
            yield Finding("programs", Level.NOTE, path, f"Not allowed. It is for {program.purpose}.", fix)
        elif name == "sudo" and is_local and os.geteuid() != 0 and not _succeeds(path, "-n", "true"):
            user = _account()
            fix = f"For such commands, add to /etc/sudoers.d/launchbay: {user} ALL=(ALL) NOPASSWD: ALL"
            yield Finding("programs", Level.WARNING, path, f"{user} can't use it without a password.", fix)
        else:
            yield Finding("programs", Level.OK, path, f"For {program.purpose}.")
    if settings.container_socket:
        yield _check_socket(settings.container_socket)


def _check_socket(path: str) -> Finding:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(path)
    except OSError as error:
        fix = "Start the engine (systemctl enable --now podman.socket), and let the server's account use the socket."
        return Finding("programs", Level.PROBLEM, path, f"No container engine: {error.strerror or error}.", fix)
    return Finding("programs", Level.OK, path, "The container engine takes connections.")


def _succeeds(*command: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - a program that was found, with our arguments
            command, check=False, capture_output=True, timeout=_ANSWER_S, env=minimal_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


async def _check_embedded(settings: Settings) -> list[Finding]:
    """Check the embedded PostgreSQL without starting or creating anything."""
    found = await asyncio.to_thread(_check_programs_of_postgresql, settings)
    url = cluster.running_url(settings.data_dir.expanduser().resolve() / "postgres")
    if not url or any(each.level is Level.PROBLEM for each in found):
        return found
    return [*found, *await _check_upkeep(settings, url, str(settings.data_dir / "postgres"))]


async def _check_upkeep(settings: Settings, url: str, where: str) -> list[Finding]:
    """Look at the tables if they are those of this version."""
    try:
        async with asyncio.timeout(4 * _ANSWER_S):
            if (await inspect(url)).revision != revisions()[-1]:
                return []
            found = await look(url)
    except CannotStart as error:
        return [Finding("database", Level.NOTE, where, error.messages[0], " ".join(error.messages[1:]))]
    except TimeoutError:
        fix = "Run this command again while the server has less to do."
        return [Finding("database", Level.NOTE, where, "Reading the tables takes too long.", fix)]
    return [replace(each, where=where) for each in judge_upkeep(found, is_embedded=not settings.database_url)]


def judge_upkeep(found: Upkeep, *, is_embedded: bool) -> Iterator[Finding]:
    """Judge the size, cache, dead rows and kept numbers of a database."""
    pages = found.pages_hit + found.pages_read
    share = found.pages_hit / pages if pages else 1.0
    text = f"{found.size // MIB} MiB, with a cache of {found.cache // MIB} MiB that has {share:.1%} of what is read."
    is_small = pages >= _PAGES_TOLD and share < _GOOD_SHARE and found.size > found.cache
    setting = "LAUNCHBAY_POSTGRES_SHARED_BUFFERS_MIB" if is_embedded else "shared_buffers of PostgreSQL"
    fix = f"Raise {setting} to up to a quarter of the memory, or give the machine more." if is_small else ""
    yield Finding("database", Level.WARNING if is_small else Level.OK, "", text, fix)
    for table in found.tables:
        if table.dead_rows >= _DEAD_ROWS and table.dead_rows > table.live_rows / 2:
            rows = f"{table.dead_rows} dead rows and {table.live_rows} others"
            text = f"{table.name} has {rows}, in {table.size // MIB} MiB."
            fix = "Run VACUUM in the database, and search its log for what prevents autovacuum."
            yield Finding("database", Level.WARNING, "", text, fix)
    if found.oldest_transaction_s > _LONG_TRANSACTION_S:
        text = f"A transaction has been open for {found.oldest_transaction_s / 3600:.0f} h, so dead rows stay."
        fix = "Find it in pg_stat_activity by xact_start, and end its program."
        yield Finding("database", Level.WARNING, "", text, fix)
    for organization_id, missing in found.miscounted:
        text = f"The number of instances of organization {organization_id} is wrong by {-missing}."
        fix = "A server corrects it within some minutes. If it comes back, report it."
        yield Finding("database", Level.WARNING, "", text, fix)


def _check_programs_of_postgresql(settings: Settings) -> list[Finding]:
    directory = settings.data_dir / "postgres"
    try:
        programs = cluster.binaries()
        account = cluster.account_for(directory, create=False)
    except CannotStart as error:
        return [Finding("postgresql", Level.PROBLEM, str(directory), error.messages[0], " ".join(error.messages[1:]))]
    if not _succeeds(str(programs / "postgres"), "--version"):
        fix = "Use a machine with glibc, such as Debian's or Ubuntu's, or set LAUNCHBAY_DATABASE_URL."
        return [Finding("postgresql", Level.PROBLEM, str(programs), "The embedded PostgreSQL doesn't run here.", fix)]
    if _account().isdecimal():
        fix = "Start it as an account of /etc/passwd, or set LAUNCHBAY_DATABASE_URL."
        text = f"PostgreSQL needs an account with a name, and {_account()} has none."
        return [Finding("postgresql", Level.PROBLEM, str(directory), text, fix)]
    version = directory / "PG_VERSION"
    if version.exists() and (found := version.read_text("ascii").strip()) != str(cluster.MAJOR):
        fix = "Back it up with the version that wrote it, then restore it into an empty data directory."
        return [Finding("postgresql", Level.PROBLEM, str(directory), f"It is of PostgreSQL {found}.", fix)]
    who = "" if account is None else f", under the account {account.name}"
    return [Finding("postgresql", Level.OK, str(directory), f"The embedded PostgreSQL {cluster.MAJOR} runs here{who}.")]


async def _check_external(settings: Settings) -> list[Finding]:
    where = redacted_url(settings.direct_url())
    try:
        async with asyncio.timeout(4 * _ANSWER_S):
            found = await inspect(settings.direct_url())
            if settings.database_direct_url:
                async with Database(settings.database_url, direct_url=settings.database_direct_url, connections=1):
                    pass  # which checks the sessions of the pooler
    except CannotStart as error:
        return [Finding("postgresql", Level.PROBLEM, where, error.messages[0], " ".join(error.messages[1:]))]
    except TimeoutError:
        fix = "Check LAUNCHBAY_DATABASE_URL, firewalls, and that PostgreSQL runs."
        return [Finding("postgresql", Level.PROBLEM, where, "The database doesn't answer.", fix)]
    judged = [*_judge_database(settings, found), *judge_encryption(settings.direct_url())]
    tables = await _check_upkeep(settings, settings.direct_url(), where)
    return [
        *(replace(each, where=where) for each in judged),
        *tables,
        *await asyncio.to_thread(_check_backups, settings),
    ]


async def _check_stuck(settings: Settings) -> list[Finding]:
    """Find what servers can't finish without help, in a database that runs."""
    embedded = settings.data_dir.expanduser().resolve() / "postgres"
    url = settings.direct_url() if settings.database_url else cluster.running_url(embedded)
    if not url:
        return []
    try:
        async with asyncio.timeout(4 * _ANSWER_S):
            if (await inspect(url)).revision != revisions()[-1]:
                return []
            async with Database(url, connections=1) as database, database.connection() as connection:
                found = await FEATURES.stuck(connection)
                return [Finding(each.check, Level.WARNING, each.where, each.found, each.fix) for each in found]
    except (CannotStart, Unavailable, DatabaseError, TimeoutError):
        return []  # another check names it


def judge_encryption(url: str) -> Iterator[Finding]:
    """Judge how well the connection to the database is encrypted and verified."""
    parameters = connection_parameters(url)
    mode = parameters.get("sslmode") or "prefer"
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    if all(not host or host.startswith(("/", "@")) or host in {"localhost", "127.0.0.1", "::1"} for host in hosts):
        return
    fix = "Add sslmode=verify-full and sslrootcert=FILE, with the authority of PostgreSQL's certificate, to the URL."
    if mode not in TLS_MODES:
        text = f"With sslmode={mode}, somebody on the network can read and change what goes to the database."
        yield Finding("postgresql", Level.WARNING, "", text, fix)
    elif mode == "require":
        text = "With sslmode=require, the connection is encrypted, and nothing checks who answers."
        yield Finding("postgresql", Level.NOTE, "", text, fix)


def _check_backups(settings: Settings) -> list[Finding]:
    try:
        client_program("pg_dump", settings.direct_url())
    except CannotStart as error:
        text = f"`launchbay backup` can't run. {error.messages[0]}"
        return [Finding("programs", Level.NOTE, "pg_dump", text, " ".join(error.messages[1:]))]
    return []


def _judge_database(settings: Settings, found: Inspection) -> Iterator[Finding]:
    state = "empty" if found.revision is None else f"schema {found.revision}"
    newest = revisions()[-1]
    if found.revision is None or found.revision < newest:
        yield Finding(
            "postgresql",
            Level.NOTE,
            "",
            f"PostgreSQL {found.version}, {state}. This version has schema {newest}.",
            "The next start upgrades it, and so does: launchbay migrate",
        )
    else:
        yield Finding("postgresql", Level.OK, "", f"PostgreSQL {found.version}, {state}.")
    if not found.may_create:
        fix = "As an administrator of PostgreSQL: GRANT CREATE ON SCHEMA public TO the user of the URL."
        yield Finding("postgresql", Level.PROBLEM, "", "The user may not create tables.", fix)
    if found.encoding != "UTF8":
        fix = "Create the database with ENCODING 'UTF8'."
        yield Finding("postgresql", Level.PROBLEM, "", f"Its encoding is {found.encoding}.", fix)
    needed = settings.processes * (settings.database_connections + 2)
    if needed > found.connections:
        fix = "Raise max_connections of PostgreSQL, or lower LAUNCHBAY_DATABASE_CONNECTIONS."
        text = f"This server needs {needed} connections, and PostgreSQL takes {found.connections}."
        yield Finding("postgresql", Level.PROBLEM, "", text, fix)
    if (apart_s := abs(found.clock_ahead_s)) > _CLOCKS_APART_S:
        fix = "Synchronize the clocks of both machines."
        text = f"Its clock is {apart_s:.0f} s {'ahead' if found.clock_ahead_s > 0 else 'behind'}."
        yield Finding("clock", Level.PROBLEM if apart_s > _CLOCKS_FAR_APART_S else Level.WARNING, "", text, fix)
    if found.revision is not None and not settings.key_file().exists():
        yield Finding(
            "secret key",
            Level.PROBLEM,
            "",
            f"The database has data, and there is no secret key {settings.key_file()}.",
            "Copy the key file of another server or of the backup there, or set LAUNCHBAY_SECRET_KEY_FILE.",
        )
    elif found.key_mark is not None:
        yield from _judge_key(settings.key_file(), found.key_mark)


def _judge_key(file: Path, mark: bytes) -> Iterator[Finding]:
    """Compare the key file with what the database is encrypted with."""
    with suppress(CannotStart):  # another check names it
        if mark not in read_secret_key(file, creates=False).marks:
            text = f"The database is encrypted with another secret key than {file}."
            fix = "Copy the key file of another server or of the backup there."
            yield Finding("secret key", Level.PROBLEM, "", text, fix)


async def _check_nats(settings: Settings) -> list[Finding]:
    """Read what each server says first, and look at the stream."""
    found = []
    for url in settings.dispatch_url.split(","):
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "", parts.port or 4222
        where = f"{host}:{port}"
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_connection(host, port)
                line = await reader.readline()
                writer.close()
            told = json.loads(line.removeprefix(b"INFO ")) if line.startswith(b"INFO ") else None
        except (OSError, TimeoutError, ValueError) as error:
            fix = "Check LAUNCHBAY_DISPATCH_URL, and that nats-server runs. Until then, PostgreSQL wakes workers."
            text = f"No answer: {error or 'it took too long'}."
            found.append(Finding("nats", Level.WARNING, where, text, fix))
            continue
        if told is None:
            fix = "Set LAUNCHBAY_DISPATCH_URL to the client port of a NATS server."
            found.append(Finding("nats", Level.PROBLEM, where, "It isn't a NATS server.", fix))
        elif not told.get("jetstream"):
            fix = "Start it with JetStream: nats-server -js"
            found.append(Finding("nats", Level.PROBLEM, where, "It has no JetStream.", fix))
        else:
            found.append(Finding("nats", Level.OK, where, f"NATS {told.get('version')} with JetStream."))
    if any(each.level is Level.OK for each in found):
        found += await _check_stream(settings)
    return found


async def _check_stream(settings: Settings) -> list[Finding]:
    try:
        jetstream = import_module("launchbay.engine.jetstream")
    except ImportError:
        return []  # the check of extras finds that it is missing
    stream = settings.dispatch_stream
    try:
        differs = await jetstream.compare_stream(
            settings.dispatch_url, stream=stream, replicas=settings.dispatch_replicas
        )
    except jetstream.ForeignStreamError as error:
        fix = "Set LAUNCHBAY_DISPATCH_STREAM to a name that nothing else uses on this NATS server."
        return [Finding("nats", Level.PROBLEM, stream, str(error), fix)]
    except (jetstream.NatsError, OSError, TimeoutError) as error:
        fix = "Check the account in LAUNCHBAY_DISPATCH_URL and its permissions."
        return [Finding("nats", Level.WARNING, stream, f"Can't read the stream: {error or 'no answer'}.", fix)]
    if not differs:
        return []
    fix = (
        "Restart one server or worker, which changes the stream. If it refuses, as its log line "
        f"dispatch.stream_differs says, delete the stream: nats stream rm {stream}"
    )
    return [Finding("nats", Level.WARNING, stream, f"The stream has {', '.join(differs)}.", fix)]


async def _check_proxy(settings: Settings) -> list[Finding]:
    """Ask the proxy for a host that can't exist (RFC 2606)."""
    try:
        proxy = outgoing_proxy(settings)
    except CannotStart as error:
        fix = " ".join(error.messages[1:]) or "Correct the setting."
        return [Finding("proxy", Level.PROBLEM, "LAUNCHBAY_OUTGOING_PROXY", error.messages[0], fix)]
    if proxy is None:
        ignored = next((name for name in _PROXY_VARIABLES if os.environ.get(name)), None)
        if ignored is None:
            return []
        fix = "If the server needs a proxy, set LAUNCHBAY_OUTGOING_PROXY."
        return [Finding("proxy", Level.NOTE, ignored, "The server uses no proxy of the environment.", fix)]
    found = list(_check_credentials_file(settings.outgoing_proxy_credentials_file))
    client = EgressClient(proxy=proxy)
    try:
        await client.request("GET", _NO_HOST, timeout_s=2 * _ANSWER_S)
    except ProxyFailed as error:
        if error.status in {0, 401, 407}:
            return [*found, Finding("proxy", Level.PROBLEM, proxy.url, error.messages[0], " ".join(error.messages[1:]))]
    except EgressFailed as error:
        fix = "Check LAUNCHBAY_OUTGOING_PROXY, and that an HTTP proxy listens there."
        return [*found, Finding("proxy", Level.WARNING, proxy.url, f"No usable answer: {error.messages[0]}", fix)]
    finally:
        await client.aclose()
    return [*found, Finding("proxy", Level.OK, proxy.url, "The proxy answers.")]


def _check_credentials_file(path: str) -> Iterator[Finding]:
    mode = Path(path).stat().st_mode if path else 0
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        text = f"Its mode is {stat.S_IMODE(mode):o}: others on this machine may read the password."
        yield Finding("proxy", Level.WARNING, path, text, f"Run: chmod 600 {path}")


async def _check_collector(settings: Settings) -> list[Finding]:
    url = settings.otlp_endpoint
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        client = outgoing_client(settings, url)
    except CannotStart:  # reported by the check of the proxy, or at the start
        return []
    if client.proxy is None or not client.proxy.carries(host, port):
        return await _check_reachable("telemetry", "LAUNCHBAY_OTLP_ENDPOINT", host, port)
    try:
        await client.request("GET", url, timeout_s=2 * _ANSWER_S)
    except EgressFailed as error:
        fix = " ".join(error.messages[1:]) or "Check LAUNCHBAY_OTLP_ENDPOINT, and what the proxy allows."
        return [Finding("telemetry", Level.WARNING, f"{host}:{port}", error.messages[0], fix)]
    finally:
        await client.aclose()
    return [Finding("telemetry", Level.OK, f"{host}:{port}", "The proxy reaches it.")]


async def _check_issuer(settings: Settings) -> list[Finding]:
    issuer = settings.oidc_issuer
    url = issuer.rstrip("/") + "/.well-known/openid-configuration"
    fix = "Check LAUNCHBAY_OIDC_ISSUER, firewalls, and the certificate of the issuer."
    try:
        client = outgoing_client(settings, issuer)
    except CannotStart:
        return []
    try:
        answer = await client.request("GET", url, timeout_s=2 * _ANSWER_S)
        told = json.loads(answer.body)
    except EgressFailed as error:
        fix = " ".join((fix, *error.messages[1:]))
        return [Finding("openid", Level.PROBLEM, url, f"No metadata of the issuer: {error.messages[0]}", fix)]
    except ValueError as error:
        text = f"No metadata of the issuer: status {answer.status}, {error}"
        return [Finding("openid", Level.PROBLEM, url, text, fix)]
    finally:
        await client.aclose()
    named = told.get("issuer") if isinstance(told, dict) else None
    if named != issuer:
        fix = "Set LAUNCHBAY_OIDC_ISSUER to the name in the metadata, character for character."
        return [Finding("openid", Level.PROBLEM, url, f"The issuer calls itself {named!r}.", fix)]
    return [Finding("openid", Level.OK, url, "The issuer answers.")]


async def _check_reachable(check: str, setting: str, host: str, port: int) -> list[Finding]:
    try:
        async with asyncio.timeout(_ANSWER_S):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except (OSError, TimeoutError) as error:
        fix = f"Check {setting}, firewalls, and that the server runs."
        return [Finding(check, Level.WARNING, f"{host}:{port}", f"No answer: {error or 'it took too long'}.", fix)]
    return [Finding(check, Level.OK, f"{host}:{port}", "The server takes connections.")]


def _account() -> str:
    """Return the name of this account, or its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""


_COLORS = {Level.OK: "green", Level.NOTE: "blue", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def _print_text(findings: list[Finding]) -> None:
    for each in findings:
        level = click.style(each.level.ljust(8), fg=_COLORS[each.level])
        click.echo(f"{level} {each.check}: {each.where}: {each.found}")
        if each.fix:
            click.echo(f"         → {each.fix}")
    counts = [(sum(each.level is level for each in findings), level) for level in (Level.PROBLEM, Level.WARNING)]
    told = ", ".join(f"{count} {level.lower()}{'' if count == 1 else 's'}" for count, level in counts)
    click.echo(f"\nLaunchbay {__version__}: {told}.")


@click.command()
@config_option
@data_option
@database_option
@click.option("--host", help="Address that a server would listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port that a server would listen on. [default: 8080]")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
def doctor(config: Path | None, is_json: bool, strict: bool, **given: Any) -> None:  # noqa: FBT001 - click hands flags over so
    """Say what this machine lacks for a server, and how to get it.

    Nothing is changed. The exit code is 1 if there is a problem.
    """
    findings = _findings(config, given)
    if is_json:
        document = {"version": __version__, "findings": [asdict(each) for each in findings]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print_text(findings)
    failing = {Level.PROBLEM, Level.WARNING} if strict else {Level.PROBLEM}
    sys.exit(1 if any(each.level in failing for each in findings) else 0)


def _findings(config: Path | None, given: Mapping[str, Any]) -> list[Finding]:
    try:
        settings = read_settings(config, dict(given))
    except click.ClickException as error:
        fix = "Correct it, then run this command again to check the rest: launchbay docs --print reference/settings"
        return [Finding("settings", Level.PROBLEM, str(config or "LAUNCHBAY_*"), error.message, fix)]
    return [*_check_settings_file(config), *check_machine(settings), *asyncio.run(check_services(settings))]


def _check_settings_file(config: Path | None) -> Iterator[Finding]:
    mode = config.stat().st_mode if config else 0
    if config is None or not mode & stat.S_IRWXO:
        return
    secrets = {each.name for each in fields(Settings) if not each.repr}
    if found := sorted(secrets & tomllib.loads(config.read_text("utf-8")).keys()):
        yield Finding(
            "settings",
            Level.WARNING,
            str(config),
            f"Its mode is {stat.S_IMODE(mode):o}: everybody on this machine may use {', '.join(found)}.",
            f"Run: chmod 600 {config}",
        )
